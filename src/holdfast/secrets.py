"""Secrets never leave: masking of free-form documents, used by every room.

Operators put credentials into free-form JSON (`driver_info`, `instance_info`, target `properties`).
What counts as a secret is decided by the *key*, the same list for every document, so that no
handler can forget one.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import msgspec

MASK = "******"

# Any key that contains one of these words, in any case, holds a secret.
SECRET_WORDS = (
    "adminpass",
    "admin_pass",
    "password",
    "auth_token",
    "new_pass",
    "auth_username",
    "discovery_auth",
    "secret",
    "sys_pswd",
    "token",
    "configdrive",
    "chappassword",
    "encrypted_key",
    "private_key",
    "fernetkey",
    "sslkey",
    "passphrase",
    "snmp_auth_key",
    "snmp_priv_key",
    "image_url",
    "hex_kg_key",
)

_SUSPICIOUS = re.compile("|".join(SECRET_WORDS), re.IGNORECASE)
_ASSIGNMENT = re.compile(r"((?:password|passwd|secret|token)\s*[=:]\s*)(\S+)", re.IGNORECASE)
# Begins with the literal: a pattern for the scheme before it would take quadratic time on one long word.
_CREDENTIALS_IN_URL = re.compile(r"(://[^/\s:@]+:)([^@\s/]+)(@)")


class _Judged(dict[str, bool]):
    """Which keys hold secrets. They repeat from node to node, so that most are judged already."""

    def __missing__(self, key: str) -> bool:
        judged = _SUSPICIOUS.search(key) is not None
        if len(self) < 4096:
            self[key] = judged
        return judged


_JUDGED = _Judged()


def is_secret(key: str) -> bool:
    """Whether a value under this key must not be shown."""
    return _JUDGED[key]


def mask(document: Any) -> Any:
    """A copy of a decoded JSON document with every secret replaced by six asterisks."""
    return _masked(deepcopy(document))


def mask_json(text: str) -> str:
    """The same for JSON text as stored. Decoding costs less than searching the text."""
    if text == "{}":
        return text
    return msgspec.json.encode(_masked(msgspec.json.decode(text))).decode()


def _masked(document: Any) -> Any:
    """The document itself, without its secrets."""
    if isinstance(document, str):
        return mask_text(document)
    if isinstance(document, dict):
        for key, value in document.items():
            if _JUDGED[key]:
                if value not in (None, "") and not isinstance(value, bool):
                    document[key] = MASK
            elif isinstance(value, str):
                if ":" in value or "=" in value or "@" in value:
                    document[key] = mask_text(value)
            else:
                _masked(value)
    elif isinstance(document, list):
        document[:] = map(_masked, document)
    return document


def mask_text(text: str) -> str:
    """Free text (an error, a log line) without `password=…` values and credentials inside URLs."""
    # Nearly every text has none of it: looking for the words first is several times faster than the patterns.
    if "=" in text or ":" in text:
        lower = text.lower()
        if "passw" in lower or "secret" in lower or "token" in lower:
            text = _ASSIGNMENT.sub(rf"\1{MASK}", text)
    if "@" in text:
        text = _CREDENTIALS_IN_URL.sub(rf"\1{MASK}\3", text)
    return text


def keep_masked(new: Any, stored: Any) -> Any:
    """`new`, with every mask a client sent back replaced by the secret it stands for."""
    if isinstance(new, dict) and isinstance(stored, dict):
        return {
            key: stored[key] if value == MASK and key in stored else keep_masked(value, stored.get(key))
            for key, value in new.items()
        }
    if isinstance(new, list) and isinstance(stored, list) and len(new) == len(stored):
        return [keep_masked(a, b) for a, b in zip(new, stored, strict=True)]
    return new
