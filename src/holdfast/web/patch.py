"""JSON patch (RFC 6902) as Ironic's clients use it: add, replace and remove, applied all or nothing."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Mapping
from typing import Any

import jsonpatch

from holdfast import errors

_PATH = re.compile(r"(/[\w-]+)+", re.ASCII)
OPERATIONS = ("add", "replace", "remove")


def check(operations: Any, allowed: Collection[str]) -> list[dict[str, Any]]:
    """The operations, if they are a well-formed patch of the allowed attributes."""
    if not isinstance(operations, list):
        raise errors.BadPatch("A patch is a JSON array of operations.")
    for operation in operations:
        if not isinstance(operation, dict) or not {"op", "path"} <= operation.keys() <= {
            "op",
            "path",
            "value",
        }:
            raise errors.BadPatch("Each patch operation has op, path and, unless it removes, value.")
        op, path = operation["op"], operation["path"]
        if op not in OPERATIONS:
            raise errors.BadPatch(f"The patch operation {op!r} is not one of {', '.join(OPERATIONS)}.")
        if not isinstance(path, str) or len(path) > 1024 or not _PATH.fullmatch(path):
            raise errors.BadPatch(f"{path!r} is not a valid patch path; it looks like /extra/key.")
        if op != "remove" and "value" not in operation:
            raise errors.BadPatch(f"The patch operation on {path} needs a value.")
        if root(operation) not in allowed:
            raise errors.BadPatch(f"{path} cannot be patched. Attributes that can: {', '.join(sorted(allowed))}.")
    return operations


def root(operation: Mapping[str, Any]) -> str:
    """The attribute an operation is about."""
    return str(operation["path"]).split("/", 2)[1]


def roots(operations: Any) -> list[str]:
    """The attributes a patch is about, as far as it is one."""
    given = operations if isinstance(operations, list) else []
    paths = [operation.get("path") for operation in given if isinstance(operation, dict)]
    return [root({"path": path}) for path in paths if isinstance(path, str) and path.startswith("/")]


def below(operation: Mapping[str, Any]) -> str | None:
    """The key inside that attribute it is about, if any."""
    parts = str(operation["path"]).split("/")
    return parts[2] if len(parts) > 2 else None


def is_whole(operation: Mapping[str, Any]) -> bool:
    """Whether it is about the attribute itself rather than a key inside."""
    return str(operation["path"]).count("/") == 1


def apply(document: Mapping[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """The document after all operations; the original is left alone."""
    result: dict[str, Any] = copy.deepcopy(dict(document))
    for operation in operations:
        if operation["op"] == "remove" and is_whole(operation):
            result.pop(root(operation), None)
            continue
        try:
            result = jsonpatch.JsonPatch([operation]).apply(result, in_place=True)
        except (
            jsonpatch.JsonPatchException,
            jsonpatch.JsonPointerException,
            TypeError,
            KeyError,
            IndexError,
        ):
            raise errors.BadPatch(
                f"The patch cannot {operation['op']} {operation['path']}: there is no such place."
            ) from None
    return result
