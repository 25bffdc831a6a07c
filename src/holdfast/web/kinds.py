"""What a field may hold: one `Kind` knows how to check a value from the wire, how to show a stored one,
and its JSON schema. Resource tables, query filters and OpenAPI all use the same kinds."""

from __future__ import annotations

import json
import re
import uuid as uuids
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from holdfast import errors, secrets

Check = Callable[[str, Any], Any]

_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9\-._~]{1,255}")
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


def same(value: Any) -> Any:
    return value


# The C function behind `json`: a text as a JSON string, without the encoder around it.
quote: Callable[[str], str] = json.encoder.encode_basestring


@dataclass(frozen=True)
class Kind:
    """`check(field, value)` returns what to store or raises; `show(stored)` the JSON text that goes to the wire,
    `null` that of a missing value; `load(stored)` the plain value a JSON patch works on."""

    check: Check
    schema: Mapping[str, Any]
    show: Callable[[Any], str] = quote
    null: str = "null"
    load: Callable[[Any], Any] = same
    empty: Any = None  # what removing the field leaves

    def required(self) -> Kind:
        """The same, but null is refused."""
        inner = self.check

        def check(field: str, value: Any) -> Any:
            if value is None:
                raise errors.InvalidValue(f"{field} must not be null.")
            return inner(field, value)

        return replace(self, check=check)


def is_uuid(value: str) -> bool:
    return _UUID.fullmatch(value) is not None


def new_uuid() -> str:
    return str(uuids.uuid4())


def text(most: int, least: int = 0) -> Kind:
    def check(field: str, value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or "\x00" in value:
            raise errors.InvalidValue(f"{field} must be a string.")
        if not least <= len(value) <= most:
            raise errors.InvalidValue(f"{field} must have {least} to {most} characters, not {len(value)}.")
        _refuse_surrogates(field, value)
        return value

    return Kind(check, {"type": ["string", "null"], "maxLength": most, "minLength": least})


def choice(*options: str) -> Kind:
    def check(field: str, value: Any) -> str | None:
        if value is not None and value not in options:
            raise errors.InvalidValue(f"{field} must be one of {', '.join(options)}.")
        return value  # type: ignore[no-any-return]

    return Kind(check, {"enum": list(options)})


def _check_uuid(field: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not is_uuid(value):
        raise errors.InvalidValue(f"{field} must be a UUID.")
    return str(uuids.UUID(value))


def _check_name(field: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not _NAME.fullmatch(value) or is_uuid(value):
        raise errors.InvalidValue(
            f"{field} must have 1 to 255 letters, digits or any of -._~ and must not look like a UUID."
        )
    return value


def _check_ident(field: str, value: Any) -> str:
    if isinstance(value, str) and is_uuid(value):
        return str(uuids.UUID(value))
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise errors.InvalidValue(f"{field} must be a UUID or a name: 1 to 255 letters, digits or any of -._~.")


def _check_mac(field: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _MAC.fullmatch(value):
        raise errors.InvalidValue(f"{field} must be a MAC address such as 52:54:00:12:34:56.")
    return value.lower()


def _check_boolean(field: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    raise errors.InvalidValue(f"{field} must be true or false.")


def _check_integer(field: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise errors.InvalidValue(f"{field} must be an integer.")
    return value


def _check_object(field: str, value: Any) -> str:
    if value is None:
        return "{}"
    if not isinstance(value, dict):
        raise errors.InvalidValue(f"{field} must be a JSON object.")
    return msgspec.json.encode(value).decode()


def _load_optional_boolean(stored: Any) -> bool | None:
    return None if stored is None else bool(stored)


def strings(check_one: Check, most: int) -> Kind:
    """A JSON list of strings, each checked, kept once; stored as text."""

    def check(field: str, value: Any) -> str:
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise errors.InvalidValue(f"{field} must be a list of strings.")
        if len(value or []) > most:
            raise errors.InvalidValue(f"{field} takes {most} items at most.")
        found = dict.fromkeys(check_one(field, item) for item in value or [])
        return msgspec.json.encode(list(found)).decode()

    schema = {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": most}
    return Kind(check, schema, show=str, load=msgspec.json.decode, empty=[])


def _refuse_surrogates(field: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise errors.InvalidValue(f"{field} must be valid Unicode text.") from None


def _truth(stored: Any) -> str:
    return "true" if stored else "false"


UUID = Kind(_check_uuid, {"type": ["string", "null"], "format": "uuid"})
NAME = Kind(_check_name, {"type": ["string", "null"], "maxLength": 255})
IDENT = Kind(_check_ident, {"type": "string", "minLength": 1, "maxLength": 255})  # a UUID or a name
MAC = Kind(_check_mac, {"type": ["string", "null"], "pattern": "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$"})
BOOLEAN = Kind(_check_boolean, {"type": ["boolean", "null"]}, show=_truth, load=bool, empty=False)
# True, false, or null: whatever the service is configured to do
OPTIONAL_BOOLEAN = replace(BOOLEAN, load=_load_optional_boolean, empty=None)
INTEGER = Kind(_check_integer, {"type": "integer"}, show=str)
TIME = Kind(same, {"type": ["string", "null"], "format": "date-time"})  # type: ignore[arg-type]
OBJECT = Kind(_check_object, {"type": ["object", "null"]}, show=str, load=msgspec.json.decode, empty={})
SECRET_OBJECT = replace(OBJECT, show=secrets.mask_json)
