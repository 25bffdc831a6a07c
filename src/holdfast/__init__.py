"""Holdfast attaches volumes, networks and agents to machines, and never loses one."""

__version__ = "0.1.0"
