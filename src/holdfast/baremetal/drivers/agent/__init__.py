"""Interfaces that work through ironic-python-agent, running in a ramdisk on the machine.

`client.py` speaks the agent's HTTP API; `ramdisk.py` boots and stops the machine with it; the other modules
are the interfaces: deploy (`direct`, `ramdisk`), inspect and rescue (`agent`).
"""
