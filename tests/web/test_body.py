"""Request bodies: what is refused before anything parses them, and what is not."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from holdfast import errors
from holdfast.web import body

DEPTH, KEYS = 25, 10_000


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def test_a_body_of_exactly_the_limit_is_read() -> None:
    assert body.read(io.BytesIO(b"x" * 1024), 1024, 1024) == b"x" * 1024


@pytest.mark.parametrize("length", [1025, None])
def test_one_byte_more_is_too_large(length: int | None) -> None:
    with pytest.raises(errors.TooLarge):
        body.read(io.BytesIO(b"x" * 1025), length, 1024)


def test_no_more_than_the_limit_is_read_of_a_body_without_length() -> None:
    stream = io.BytesIO(b"x" * 5000)
    with pytest.raises(errors.TooLarge):
        body.read(stream, None, 1024)
    assert stream.tell() == 1025


def test_a_body_that_ends_early_is_not_taken_for_a_shorter_one() -> None:
    with pytest.raises(errors.BadRequest, match="ended before"):
        body.read(io.BytesIO(b""), 100, 1024)


def test_nesting_up_to_the_limit_is_accepted() -> None:
    assert body.parse(nested(DEPTH), DEPTH, KEYS)
    with pytest.raises(errors.BadRequest, match="nested deeper"):
        body.parse(nested(DEPTH + 1), DEPTH, KEYS)


def test_items_up_to_the_limit_are_accepted() -> None:
    assert len(body.parse(json.dumps(list(range(KEYS))).encode(), DEPTH, KEYS)) == KEYS
    with pytest.raises(errors.BadRequest, match="more than"):
        body.parse(json.dumps(list(range(KEYS + 1))).encode(), DEPTH, KEYS)


@pytest.mark.parametrize(
    "document",
    [
        {"brackets": "[" * 1000 + "{" * 1000},
        {"commas": "," * 20_000},
        {'quotes "inside"': '\\"[' * 1000},
        {"wide": [[] for _ in range(1000)]},
        {"a literal backslash": "\\u0000"},
        {"controls": "\x01\x1f\x7f"},
    ],
    ids=lambda document: next(iter(document)),
)
def test_what_only_looks_like_too_much_is_accepted(document: Any) -> None:
    assert body.parse(json.dumps(document).encode(), DEPTH, KEYS) == document


@pytest.mark.parametrize("text", ['{"a": "\\u0000"}', '{"a\\u0000": 1}', '["\\\\\\u0000"]'])
def test_nul_is_refused_wherever_it_stands(text: str) -> None:
    with pytest.raises(errors.BadRequest, match="NUL"):
        body.parse(text.encode(), DEPTH, KEYS)


@pytest.mark.parametrize("text", [b'"' + b'\\"' * 400_000, b'"\\' * 300_000, b'"' * 800_001, b"\\" * 800_000])
def test_text_made_to_be_slow_is_refused_like_any_other(text: bytes) -> None:
    """Tried from each of its quotes anew, the first of these takes an hour: the suite would time out."""
    with pytest.raises(errors.BadRequest):
        body.parse(nested(1) * 30 + text, DEPTH, KEYS)
