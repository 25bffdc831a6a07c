"""Microversions: what they look like, and how a request and the service agree on one."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from holdfast import errors


class Version(NamedTuple):
    """A microversion; compares as it should."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Negotiation(NamedTuple):
    """How one API negotiates: its header, its name in the generic header, and its range."""

    service: str
    header: str
    minimum: Version
    maximum: Version


def parse(text: str) -> Version | None:
    """`1.46` as a version; None if it is not one."""
    major, dot, minor = text.strip().partition(".")
    if not (dot and major.isascii() and major.isdigit() and minor.isascii() and minor.isdigit()):
        return None
    if len(major) > 4 or len(minor) > 6:
        return None
    return Version(int(major), int(minor))


@lru_cache(maxsize=256)
def negotiate(api: Negotiation, own: str | None, generic: str | None) -> Version:
    """The version both sides speak. The generic header wins; without either it is the oldest."""
    asked = _from_generic(api.service, generic) or own
    if asked is None:
        return api.minimum
    if asked.strip().lower() == "latest":
        return api.maximum
    version = parse(asked)
    if version is None:
        raise errors.NotAcceptable(
            f"{asked.strip()[:40]!r} is not a version. Send one such as {api.maximum}, or 'latest'."
        )
    if version.major != api.maximum.major or not api.minimum <= version <= api.maximum:
        part = "minor" if version.major == api.maximum.major else "major"
        raise errors.NotAcceptable(
            f"Version {version} was requested but the {part} version is not supported by this service. "
            f"The supported version range is: [{api.minimum}, {api.maximum}]."
        )
    return version


def _from_generic(service: str, header: str | None) -> str | None:
    for entry in (header or "").split(","):
        name, _, value = entry.strip().partition(" ")
        if name == service and value:
            return value
    return None
