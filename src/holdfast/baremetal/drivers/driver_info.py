"""Reads values out of `driver_info`, which operators fill in by hand.

Numbers and booleans may arrive as text: command-line clients send them so. What is wrong is
`DriverDataInvalid`, naming the key and never the value, which may be a secret in the wrong place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast import errors

_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def invalid(key: str, must: str) -> errors.DriverDataInvalid:
    """The error for a value that is not what it must be."""
    return errors.DriverDataInvalid(f"driver_info/{key} must be {must}.")


def text(info: Mapping[str, Any], key: str) -> str | None:
    """The value as text without surrounding blanks; None where it is missing or empty."""
    value = info.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(key, "text")
    return value.strip() or None


def required(info: Mapping[str, Any], key: str, what: str) -> str:
    value = text(info, key)
    if value is None:
        raise errors.DriverDataInvalid(f"driver_info/{key} is missing. It is {what}.")
    return value


def secret(info: Mapping[str, Any], key: str) -> str | None:
    """The value exactly as it was given: blanks may belong to a password."""
    value = info.get(key)
    if value is not None and not isinstance(value, str):
        raise invalid(key, "text")
    return value or None


def boolean(info: Mapping[str, Any], key: str, default: bool) -> bool:
    value = info.get(key)
    if value is None:
        return default
    found = value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().lower())
    if found is None:
        raise invalid(key, "true or false")
    return found


def whole_number(info: Mapping[str, Any], key: str, default: int | None, low: int, high: int) -> int | None:
    """A number within bounds; the default where the key is missing."""
    value = info.get(key)
    if value is None or value == "":
        return default
    must = f"a whole number from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise invalid(key, must)
    try:
        number = int(value)
    except ValueError:
        raise invalid(key, must) from None
    if not low <= number <= high:
        raise invalid(key, must)
    return number


def choice(info: Mapping[str, Any], key: str, default: str, allowed: Collection[str]) -> str:
    """One of a few words, in any case."""
    value = info.get(key)
    if value is None or value == "":
        return default
    for word in allowed:
        if str(value).strip().lower() == word.lower():
            return word
    raise invalid(key, f"one of: {', '.join(allowed)}")
