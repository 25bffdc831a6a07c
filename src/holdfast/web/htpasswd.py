"""Users of `http_basic`: an htpasswd file with bcrypt hashes, and the check of one password."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import os
import re
import threading
from collections import OrderedDict
from pathlib import Path

import bcrypt
from oslo_config import cfg

LOG = logging.getLogger(__name__)

BCRYPT = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
# bcrypt reads no further; htpasswd -B cuts silently, so a check must cut as well.
LONGEST_PASSWORD = 72
_REMEMBERED = 1024
# Compared against when a name is unknown, so that the answer takes as long as for a known one.
_NOBODY = b"$2b$12$C6UzMDM.H6dfI/f/IKcEeO7Cbbo.5ZbpPxZlTzM0Jr9SVEj0x8eyu"


def parse(header: str) -> tuple[str, str]:
    """User and password of an Authorization header; ValueError says, without quoting it, what is wrong."""
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        raise ValueError("Unknown authentication scheme; only Basic is accepted here")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise ValueError("The Authorization header cannot be decoded") from None
    name, colon, password = text.partition(":")
    if not colon:
        raise ValueError("The Authorization header holds no password")
    return name, password


class Users:
    """The file's users, read again whenever the file changes. Safe to use from many threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._version: tuple[int, int, int] | None = None
        self._hashes: dict[str, bytes] = {}
        self._decoy = _NOBODY
        # bcrypt is slow on purpose; what was right once is remembered as a keyed digest that holds
        # the stored hash as well, so a changed password is forgotten by itself.
        self._key = os.urandom(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        try:
            bad = self._read()
        except OSError as error:
            raise cfg.ConfigFileValueError(
                f"auth_strategy is 'http_basic' but its file of users cannot be read: {error}. "
                "Create it with: holdfast passwd FILE USER."
            ) from error
        if bad:
            raise cfg.ConfigFileValueError(
                f"{path}: not a line of name:bcrypt-hash: {', '.join(map(str, bad))}. "
                "Use `holdfast passwd` or `htpasswd -B`."
            )

    def check(self, name: str, password: str) -> bool:
        """Whether this user has this password. OSError when the file cannot be read."""
        if self._stat() != self._version and (bad := self._read()):
            LOG.error("%s: lines that are not name:bcrypt-hash were skipped: %s", self._path, bad)
        stored = self._hashes.get(name)
        clear = password.encode()[:LONGEST_PASSWORD]
        if stored is None:
            _matches(clear, self._decoy)
            return False
        digest = hashlib.blake2b(b"\0".join((name.encode(), stored, clear)), key=self._key).digest()
        with self._lock:
            if digest in self._right:
                self._right.move_to_end(digest)
                return True
        if not _matches(clear, stored):
            return False
        with self._lock:
            self._right[digest] = None
            if len(self._right) > _REMEMBERED:
                self._right.popitem(last=False)
        return True

    def _stat(self) -> tuple[int, int, int]:
        found = os.stat(self._path)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> list[int]:
        """Take the file in; the numbers of lines that are no users."""
        version = self._stat()
        hashes, bad = read(Path(self._path).read_text())
        self._hashes = hashes
        self._decoy = max(hashes.values(), key=_cost, default=_NOBODY)
        self._version = version
        return bad


def read(text: str) -> tuple[dict[str, bytes], list[int]]:
    """Name to hash, and the numbers of malformed lines. As in Apache, a name's first line counts."""
    hashes: dict[str, bytes] = {}
    bad = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, stored = line.partition(":")
        if name and BCRYPT.fullmatch(stored):
            hashes.setdefault(name, stored.encode())
        else:
            bad.append(number)
    return hashes, bad


def _cost(stored: bytes) -> int:
    return int(stored[4:6])


def _matches(clear: bytes, stored: bytes) -> bool:
    try:
        return bcrypt.checkpw(clear, stored)
    except ValueError:  # a NUL inside, an impossible cost
        return False
