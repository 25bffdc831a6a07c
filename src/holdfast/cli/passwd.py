"""`holdfast passwd FILE USER`: set a user's password in the file that `http_basic` reads."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import tempfile
from pathlib import Path

import bcrypt

from holdfast.web.htpasswd import LONGEST_PASSWORD


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "passwd",
        help="set a user's password for http_basic",
        description="Set a user's password in FILE, which http_basic_auth_user_file names. "
        "The password is asked for twice, or read from the first line of standard input.",
    )
    parser.add_argument("file", metavar="FILE", help="created when it is not there")
    parser.add_argument("user", metavar="USER")
    parser.add_argument("--delete", action="store_true", help="remove the user instead")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0, or 1 with the reason on standard error."""
    try:
        path = Path(arguments.file)
        if arguments.delete:
            delete_user(path, arguments.user)
        else:
            check_name(arguments.user)
            set_password(path, arguments.user, _ask(arguments.user))
    except (ValueError, OSError) as error:
        print(f"holdfast passwd: {error}", file=sys.stderr)
        return 1
    return 0


def check_name(user: str) -> None:
    """ValueError for a name that the file or the Authorization header could not carry."""
    if not user or ":" in user or user.startswith("#") or user != user.strip() or not user.isprintable():
        raise ValueError("a user name may hold neither ':' nor control characters nor outer blanks")


def set_password(path: Path, user: str, password: str) -> None:
    """Replace the user's line, or add one. The file is never half written."""
    check_name(user)
    if not password:
        raise ValueError("the password is empty")
    if len(password.encode()) > LONGEST_PASSWORD:
        raise ValueError(f"bcrypt takes no more than {LONGEST_PASSWORD} bytes of a password")
    if "\0" in password:
        raise ValueError("a password cannot hold NUL")
    line = f"{user}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt()).decode()}"
    lines = path.read_text().splitlines() if path.exists() else []
    at = next((index for index, old in enumerate(lines) if _is_line_of(user, old)), len(lines))
    _write(path, [*lines[:at], line, *(old for old in lines[at:] if not _is_line_of(user, old))])


def delete_user(path: Path, user: str) -> None:
    """Remove the user's lines; ValueError if there is none."""
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not _is_line_of(user, line)]
    if len(kept) == len(lines):
        raise ValueError(f"{path} has no user {user!r}")
    _write(path, kept)


def _is_line_of(user: str, line: str) -> bool:
    return line.strip().partition(":")[0] == user


def _write(path: Path, lines: list[str]) -> None:
    path = path.resolve()
    # Whoever reads the file meanwhile sees the old users or the new ones, never none.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            found = path.stat()
            os.chmod(temporary, found.st_mode & 0o777)
            if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(temporary, found.st_uid, found.st_gid)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _ask(user: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    password = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("Once more: ") != password:
        raise ValueError("the two passwords differ")
    return password
