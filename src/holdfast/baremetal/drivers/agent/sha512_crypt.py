"""The password hash `$6$` that every Linux understands (SHA-crypt by Ulrich Drepper).

Python's own module for it is gone since 3.13, and the libraries that have it are not maintained.
"""

from __future__ import annotations

import hashlib
import secrets

ROUNDS = 5000
ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def hashed(password: str, salt: str | None = None) -> str:
    """What goes into /etc/shadow for this password."""
    if salt is None:
        salt = "".join(secrets.choice(ALPHABET) for _ in range(16))
    key, grain = password.encode(), salt.encode()
    second = hashlib.sha512(key + grain + key).digest()
    first = hashlib.sha512(key + grain + _stretched(second, len(key)))
    bits = len(key)
    while bits:
        first.update(second if bits & 1 else key)
        bits >>= 1
    digest = first.digest()
    p = _stretched(hashlib.sha512(key * len(key)).digest(), len(key))
    s = _stretched(hashlib.sha512(grain * (16 + digest[0])).digest(), len(grain))
    for number in range(ROUNDS):
        odd = number & 1
        step = (p if odd else digest) + (s if number % 3 else b"") + (p if number % 7 else b"")
        digest = hashlib.sha512(step + (digest if odd else p)).digest()
    return f"$6${salt}${_encoded(digest)}"


def _stretched(block: bytes, length: int) -> bytes:
    return (block * (length // len(block) + 1))[:length]


def _encoded(digest: bytes) -> str:
    """Its own base64: three bytes that lie 21 apart at a time, in a turning order, the lowest bits first."""
    text = ""
    for i in range(21):
        order = [i, i + 21, i + 42]
        turned = order[i % 3 :] + order[: i % 3]
        text += _word((digest[turned[0]] << 16) | (digest[turned[1]] << 8) | digest[turned[2]], 4)
    return text + _word(digest[63], 2)


def _word(value: int, length: int) -> str:
    return "".join(ALPHABET[(value >> (6 * i)) & 63] for i in range(length))
