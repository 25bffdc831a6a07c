"""Writes iPXE scripts. Pure functions: values in, text out.

iPXE reads a script line by line, replaces `${…}`, and splits at blanks; it has no quoting. So whatever
comes from a node's fields goes through one of the checks below, each of which lets through only what
cannot end a word, a command or a line. What does not pass is `DriverDataInvalid`, naming the field and
never the value.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from holdfast import errors

FIRST_DRIVE = 0x80
MOST_DRIVES = 16
MOST_LUN = 0x3FFF
ISCSI_PORT = 3260

# One word: printable ASCII. `\` continues a line, `#` begins a comment, the rest separates commands.
_WORD = re.compile(r"(?!#)[!-~]+")
_FORBIDDEN = ("${", ";", "&&", "||", "\\")
_ISCSI_NAME = re.compile(r"(?:iqn\.\d{4}-\d{2}\.[A-Za-z0-9._:-]{1,200}|(?:eui|naa)\.[0-9A-Fa-f]{16,32})")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PORTAL = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^\[\]:]+))(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Volume:
    """A volume as iPXE reaches it: a URL for each path, and what to log in with."""

    volume_id: str
    urls: tuple[str, ...]
    username: str | None = None
    password: str | None = None


@dataclass(frozen=True)
class Links:
    """Where a script's machine finds its script again, and where to tell that it failed. Relative, so that
    it comes back the way it came, whatever our addresses are; without colons, which iPXE takes for a scheme."""

    script: str
    failed: str


@dataclass(frozen=True)
class Patience:
    """How often to try, how long to wait in between, and until it all begins again."""

    attempts: int
    retry_delay: int
    restart_delay: int


# -- checks


def word(value: Any, what: str) -> str:
    """A value that stays one word."""
    if not isinstance(value, str) or not _WORD.fullmatch(value) or any(mark in value for mark in _FORBIDDEN):
        raise errors.DriverDataInvalid(
            f"{what} cannot be put into a boot script: it must be printable ASCII without blanks, "
            "backslashes, ; && || or ${, and must not begin with #."
        )
    return value


def words(text: Any, what: str) -> list[str]:
    """A text of several words, such as kernel arguments."""
    if not isinstance(text, str) or any(character < " " or character > "~" for character in text):
        raise errors.DriverDataInvalid(f"{what} must be one line of printable ASCII.")
    return [word(part, what) for part in text.split(" ") if part]


def iscsi_name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not _ISCSI_NAME.fullmatch(value):
        raise errors.DriverDataInvalid(f"{what} must be an iSCSI name, such as iqn.2010-10.org.example:vol-1.")
    return value


def lun(value: Any, what: str) -> str:
    """In hexadecimal, as iPXE reads it. Clients of the command line send numbers as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_LUN:
        raise errors.DriverDataInvalid(f"{what} must be a LUN: a whole number from 0 to {MOST_LUN}.")
    return f"{value:x}"


def portal(value: Any, what: str) -> tuple[str, int]:
    """Host (an IPv6 address in brackets) and port of `host:port`; the port may be left out."""
    match = _PORTAL.fullmatch(value) if isinstance(value, str) else None
    port = int(match["port"] or ISCSI_PORT) if match else 0
    try:
        if match is None or not 1 <= port <= 65535:
            raise ValueError
        if match["v6"] is not None:
            return f"[{ipaddress.IPv6Address(match['v6'])}]", port
        if not _HOST.fullmatch(match["host"]):
            raise ValueError
        return match["host"], port
    except ValueError:
        raise errors.DriverDataInvalid(
            f"{what} must be address:port, such as 192.0.2.7:3260 or [2001:db8::7]:3260."
        ) from None


def http_url(value: Any, what: str) -> str:
    """The URL of a kernel or ramdisk, without credentials: a script is no place for them."""
    try:
        parts = urlsplit(word(value, what))
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        _ = parts.port
    except ValueError:
        fine = False
    if not fine:
        raise errors.DriverDataInvalid(f"{what} must be an http or https URL without credentials.")
    return str(value)


# -- iSCSI volumes


def iscsi_volume(volume_id: str, properties: Mapping[str, Any], what: str) -> Volume:
    """A volume from its target's properties. Several paths are paired index by index: each portal has its
    own name and LUN, or shares the only one there is."""
    portals = _listed(properties, "target_portal", what)
    names = _paired(_listed(properties, "target_iqn", what), len(portals), f"{what} target_iqns")
    luns = _paired(_listed(properties, "target_lun", what), len(portals), f"{what} target_luns")
    urls = []
    for address, name, unit in zip(portals, names, luns, strict=True):
        host, port = portal(address, f"{what} target_portal")
        url = f"iscsi:{host}::{port}:{lun(unit, f'{what} target_lun')}:{iscsi_name(name, f'{what} target_iqn')}"
        if url not in urls:
            urls.append(url)
    username, password = properties.get("auth_username"), properties.get("auth_password")
    if (username is None) != (password is None):
        raise errors.DriverDataInvalid(f"{what} has one of auth_username and auth_password; CHAP needs both.")
    return Volume(
        volume_id,
        tuple(urls),
        None if username is None else word(username, f"{what} auth_username"),
        None if password is None else word(password, f"{what} auth_password"),
    )


def _listed(properties: Mapping[str, Any], key: str, what: str) -> list[Any]:
    """The values of `key`: of its plural, which has every path, or else the one value."""
    several = properties.get(key + "s")
    if isinstance(several, list) and several:
        return several
    if properties.get(key) is None:
        raise errors.DriverDataInvalid(f"{what} lacks {key}: nobody has told yet how to reach the volume.")
    return [properties[key]]


def _paired(values: list[Any], count: int, what: str) -> list[Any]:
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise errors.DriverDataInvalid(f"{what} must have one value for each of the {count} portals.")
    return values


def volume_script(initiator: str, root: Volume, others: Sequence[Volume], links: Links, patience: Patience) -> str:
    """Boots from `root`, with the other volumes as further drives.

    All paths of a volume are opened at once and any of them will do. After some tries the machine
    tells why it failed, waits, and fetches its script anew: it may have been mended meanwhile.
    """
    if 1 + len(others) > MOST_DRIVES:
        raise errors.DriverDataInvalid(f"A machine can boot with at most {MOST_DRIVES} volumes.")
    lines = ["#!ipxe", "", "set attempt:int32 0", "", ":again", "inc attempt"]
    lines += [f"set initiator-iqn {iscsi_name(initiator, 'The iqn connector')}"]
    for number, volume in enumerate([root, *others]):
        drive = f"{FIRST_DRIVE + number:#x}"
        lines += ["", f"echo Holdfast: drive {drive} is volume {_shown(volume.volume_id)}"]
        lines += _login(volume)
        lines += [f"sanhook --drive {drive} {' '.join(volume.urls)} || goto hook_failed"]
    lines += [
        "",
        # The firmware's table for the operating system was written by sanhook; it shows the last login.
        *_login(root),
        f"sanboot --no-describe --drive {FIRST_DRIVE:#x} ||",
        "set failure boot-${errno:hexraw}",
        "goto failed",
        "",
        ":hook_failed",
        "set failure hook-${errno:hexraw}",
        "",
        ":failed",
        *[f"sanunhook --drive {FIRST_DRIVE + number:#x} ||" for number in range(1 + len(others))],
        f"iseq ${{attempt}} {patience.attempts} && goto report ||",
        f"echo Holdfast: that failed, next try in {patience.retry_delay} seconds",
        f"sleep {patience.retry_delay}",
        "goto again",
        "",
        ":report",
        *_restart(links, patience),
    ]
    return "\n".join(lines) + "\n"


def _login(volume: Volume) -> list[str]:
    """A volume without CHAP must not be tried with the last one's secret."""
    if volume.username is None:
        return ["clear username ||", "clear password ||"]
    return [f"set username {volume.username}", f"set password {volume.password}"]


# -- ramdisks


def ramdisk_script(
    kernel: str, ramdisk: str, arguments: Sequence[str], mac: str, links: Links, patience: Patience
) -> str:
    """Boots a kernel with a ramdisk: the agent that deploys, cleans or inspects."""
    command_line = " ".join(
        ["initrd=ramdisk", *(word(argument, "A kernel argument") for argument in arguments), f"BOOTIF={mac}"]
    )
    lines = [
        "#!ipxe",
        "",
        "set attempt:int32 0",
        "",
        ":again",
        "inc attempt",
        "imgfree",
        f"kernel {http_url(kernel, 'The kernel')} {command_line} || goto failed",
        f"initrd --name ramdisk {http_url(ramdisk, 'The ramdisk')} || goto failed",
        "boot ||",
        "",
        ":failed",
        "set failure ramdisk-${errno:hexraw}",
        f"iseq ${{attempt}} {patience.attempts} && goto report ||",
        f"sleep {patience.retry_delay}",
        "goto again",
        "",
        ":report",
        *_restart(links, patience),
    ]
    return "\n".join(lines) + "\n"


# -- for every machine


def first_script() -> str:
    """What a machine fetches first: tries the script of each of its network cards."""
    return "\n".join(
        [
            "#!ipxe",
            "",
            "set card:int32 0",
            "",
            ":next",
            "isset ${net${card}/mac} || goto none",
            "chain --autofree ipxe/${net${card}/mac:hexhyp} ||",
            "inc card",
            "goto next",
            "",
            ":none",
            "echo Holdfast: nothing to boot for this machine",
            "exit 1",
            "",
        ]
    )


def _restart(links: Links, patience: Patience) -> list[str]:
    return [
        f"imgfetch --name report {links.failed}?failure=${{failure}} ||",
        "imgfree report ||",
        f"echo Holdfast: reported; starting over in {patience.restart_delay} seconds",
        f"sleep {patience.restart_delay}",
        f"chain --replace --autofree {links.script} ||",
        "exit 1",
    ]


def _shown(text: str) -> str:
    """For the console only: what would not be safe is replaced."""
    return re.sub(r"[^A-Za-z0-9_.:-]", "?", text)[:64]


# iPXE's error numbers begin with the POSIX error, as it numbers them.
ERRORS = {
    0x02: "it was refused: the login, or the initiator's name",
    0x0F: "the connection was refused or cut: does anything listen there?",
    0x1A: "nothing answers at that address",
    0x1D: "there was an input or output error: does the LUN exist?",
    0x28: "the network could not be reached",
    0x2C: "the storage has no such target for this initiator",
    0x2D: "there is no such target or file",
    0x2E: "what is on it cannot be booted",
    0x3E: "the connection was closed",
    0x41: "the storage refused the login: wrong CHAP user or secret, or an initiator it does not know",
    0x4C: "it did not answer in time",
}
STAGES = {
    "hook": "A volume could not be connected",
    "boot": "The volume was connected but did not boot",
    "ramdisk": "The ramdisk could not be fetched or started",
}
_FAILURE = re.compile(r"(hook|boot|ramdisk)-(?:0x)?([0-9a-f]{1,8})", re.IGNORECASE)


def reason(failure: str) -> str | None:
    """A machine's report (`hook-410d613c`) in a sentence; None if it is not one."""
    match = _FAILURE.fullmatch(failure)
    if match is None:
        return None
    code = int(match[2], 16)
    return f"{STAGES[match[1].lower()]}: {ERRORS.get(code >> 24, 'iPXE failed')} (https://ipxe.org/{code:08x})."
