"""A tgtd on this machine as storage: exports files over iSCSI with CHAP, through tgtadm.

tgtd keeps nothing over a restart, and neither do we: exporting again makes everything anew. tgtadm takes
the secret on its command line, where this machine's other users see it for as long as that
runs: a moment. Everything else about it is kept from sight.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import string
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers import ipxe_script

LUN = 1  # 0 is tgtd's own controller
TIMEOUT = 30
# Some initiators take at most 16 characters; of these they have 95 bits.
SECRET_CHARACTERS = 16

_TARGET = re.compile(r"^Target (\d+): (\S+)$", re.MULTILINE)


def volume_id(path: str) -> str:
    """A name for the file that fits into a target's volume_id and an iSCSI name."""
    place = Path(path).resolve()
    stem = re.sub(r"[^a-z0-9-]", "-", place.stem.lower())[:23].strip("-") or "volume"
    return f"{stem}-{hashlib.sha256(str(place).encode()).hexdigest()[:12]}"


def export(
    section: cfg.ConfigOpts, volume: str, path: str, initiators: Sequence[str], *, again: bool = False
) -> dict[str, Any]:
    """Exports the file to these initiators with a new secret; what a target's properties say about it.

    `again`: who had it until now is off.
    """
    if not section.portal:
        raise errors.InvalidValue("Set [tgt] portal to the address and port under which machines reach this tgtd.")
    ipxe_script.portal(section.portal, "[tgt] portal")
    if not initiators:
        raise errors.InvalidValue("The node has no iqn connector: nobody could log in to the volume.")
    backing = Path(path).resolve()
    if not backing.is_file() and not backing.is_block_device():
        raise errors.InvalidValue(f"{path} is neither a file nor a block device.")
    unexport(section, volume, force=again)
    name, user = _target_name(section, volume), _user(volume)
    secret = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(SECRET_CHARACTERS))
    tid = str(max([0, *_targets(section).values()]) + 1)
    try:
        _admin(section, "target", "new", "--tid", tid, "--targetname", name)
        # The login and its lock before the volume: at no time may anybody read it.
        _admin(section, "account", "new", "--user", user, "--password", secret)
        _admin(section, "account", "bind", "--tid", tid, "--user", user)
        _admin(section, "logicalunit", "new", "--tid", tid, "--lun", str(LUN), "--backing-store", str(backing))
        for initiator in initiators:
            _admin(section, "target", "bind", "--tid", tid, "--initiator-name", initiator)
    except errors.HoldfastError:
        unexport(section, volume)
        raise
    return {
        "target_iqn": name,
        "target_portal": section.portal,
        "target_lun": LUN,
        "target_discovered": False,
        "auth_method": "CHAP",
        "auth_username": user,
        "auth_password": secret,
        "access_mode": "rw",
        "volume_id": volume,
    }


def unexport(section: cfg.ConfigOpts, volume: str, *, force: bool = False) -> None:
    """Ensures the volume is not exported, and its login is gone.

    A machine that is logged in is not cut off, unless by `force`: for one that is known to be off, which
    had no time to log out.
    """
    tid = _targets(section).get(_target_name(section, volume))
    if tid is not None:
        _admin(section, "target", "delete", "--tid", str(tid), *(["--force"] if force else []))
    if _user(volume) in _admin(section, "account", "show").split():
        _admin(section, "account", "delete", "--user", _user(volume))


def _user(volume: str) -> str:
    return f"hf-{volume.rpartition('-')[2]}"


def _target_name(section: cfg.ConfigOpts, volume: str) -> str:
    return ipxe_script.iscsi_name(f"{section.iqn_prefix}:{volume}", "[tgt] iqn_prefix")


def _targets(section: cfg.ConfigOpts) -> dict[str, int]:
    return {name: int(number) for number, name in _TARGET.findall(_admin(section, "target", "show"))}


def _admin(section: cfg.ConfigOpts, mode: str, operation: str, *more: str) -> str:
    command = [section.tgtadm, "-C", str(section.control_port), "--lld", "iscsi", "--mode", mode, "--op", operation]
    environment = dict(os.environ)
    if section.control_socket:
        environment["TGT_IPC_SOCKET"] = section.control_socket
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and every word is checked or our own
            [*command, *more], capture_output=True, text=True, timeout=TIMEOUT, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise errors.Unavailable(f"tgtadm could not be run: {type(error).__name__}. Is tgt installed?") from None
    if done.returncode != 0:
        told = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise errors.Conflict(f"tgtd did not {operation} the {mode}: {told}. Does it run, and is the volume unused?")
    return done.stdout
