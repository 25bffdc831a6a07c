"""Request bodies: capped in size, depth and number of keys before anything parses them."""

from __future__ import annotations

import re
from typing import Any, Protocol

import msgspec

from holdfast import errors


class Stream(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


# A string, or one structural character. Strings are matched to be skipped; one that never ends is skipped
# too, and without backtracking: else a mebibyte of \\" would be tried from each of its quotes again.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{},]', re.DOTALL)
# The one character JSON can spell and PostgreSQL cannot keep. An even number of backslashes spells backslashes.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def read(stream: Stream, length: int | None, most: int) -> bytes:
    """The body, or `TooLarge` without having read more than `most` bytes."""
    if length is not None and length > most:
        raise errors.TooLarge(f"The request body is larger than {most // 1024} KiB.")
    content = stream.read(length if length is not None else most + 1)
    if len(content) > most:
        raise errors.TooLarge(f"The request body is larger than {most // 1024} KiB.")
    if length is not None and len(content) < length:
        raise errors.BadRequest("The request body ended before the length it announced.")
    return content


def parse(content: bytes, depth: int, keys: int) -> Any:
    """The JSON document in the body."""
    _check_shape(content, depth, keys)
    if _NUL.search(content):
        raise errors.BadRequest("The request body must not contain NUL characters.")
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.BadRequest(f"The request body is not valid JSON: {error}") from None


def _check_shape(content: bytes, depth: int, keys: int) -> None:
    opening = content.count(b"{") + content.count(b"[")
    # Counting is cheap and never too low; only a body that might be over a limit is walked.
    if opening <= depth and content.count(b",") < keys:
        return
    level = items = 0
    for match in _TOKEN.finditer(content):
        token = match.group()
        if token in b"[{":
            level += 1
            if level > depth:
                raise errors.BadRequest(f"The request body is nested deeper than {depth} levels.")
        elif token in b"]}":
            level -= 1
        elif token == b",":
            items += 1
            if items >= keys:
                raise errors.BadRequest(f"The request body has more than {keys} keys and items.")
