"""How far the boot of a node's ramdisk has come, as marks with times in `driver_internal_info`, and how long
each stretch of it may take.

    "boot_progress": {"power_on": …, "dhcp": …, "script_fetched": …, "lookup": …, "heartbeat": …, …}

A stretch that takes too long fails the wait with a text of its own: which stretch it was says where to
look. What the ramdisk said of itself (its address, certificate, token) is forgotten when the machine is
switched off; the marks stay until the next boot.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from oslo_config import cfg

from holdfast.db.engine import now

KEY = "boot_progress"

POWER_ON = "power_on"
DHCP = "dhcp"
SCRIPT_FETCHED = "script_fetched"
LOOKUP = "lookup"
HEARTBEAT = "heartbeat"
IMAGE_STARTED = "image_started"
IMAGE_WRITTEN = "image_written"
POWERED_OFF = "powered_off"
REBOOTED = "rebooted"

# Marks of machines that boot by iPXE, and only of those. Lost reports are made up for by later marks.
ON_THE_WAY = (DHCP, SCRIPT_FETCHED)

# What a ramdisk said of itself, or was told: true for one boot only.
AGENT_MARKS = frozenset(
    {
        "agent_url",
        "agent_secret_token",
        "agent_secret_token_pregenerated",
        "agent_verify_ca",
        "agent_status",
        "agent_status_message",
        "agent_commands_done",
    }
)


class Stretch(NamedTuple):
    """From one mark to the next, the option that limits it, and what to look at when it takes longer."""

    since: str
    until: str
    option: str
    text: str
    # Only where nobody reports leases: the clock of the script starts at the lease otherwise.
    without_leases: bool = False


STRETCHES = (
    Stretch(
        POWER_ON,
        DHCP,
        "dhcp_timeout",
        "The machine was switched on, but was lent no address by DHCP within {seconds} seconds. "
        "Look at its boot order, its cabling, and the log of dnsmasq.",
    ),
    Stretch(
        DHCP,
        SCRIPT_FETCHED,
        "script_timeout",
        "The machine was lent an address by DHCP, but did not fetch its boot script within {seconds} seconds. "
        "Look at its console, at the file name it is told by DHCP, and whether it reaches this service.",
    ),
    Stretch(
        POWER_ON,
        SCRIPT_FETCHED,
        "script_timeout",
        "The machine was switched on, but did not fetch its boot script within {seconds} seconds. "
        "Look at its boot order, its cabling, and the DHCP server of the provisioning network.",
        without_leases=True,
    ),
    Stretch(
        POWER_ON,
        LOOKUP,
        "lookup_timeout",
        "The machine was switched on, but no ramdisk looked its node up within {seconds} seconds. "
        "Look at the machine's console, and whether the ramdisk reaches this service.",
    ),
    Stretch(
        LOOKUP,
        HEARTBEAT,
        "first_heartbeat_timeout",
        "The ramdisk looked its node up, but sent no heartbeat within {seconds} seconds. "
        "Look at the log of the agent on the machine's console.",
    ),
    Stretch(
        IMAGE_STARTED,
        IMAGE_WRITTEN,
        "image_timeout",
        "The ramdisk did not finish writing the image within {seconds} seconds. "
        "Look at the speed of the image server and of the machine's disk.",
    ),
)


def forgotten(info: Mapping[str, Any]) -> dict[str, Any]:
    """Without what its ramdisk said: the machine was switched off. How far it came stays visible."""
    return {key: value for key, value in reached(info, POWERED_OFF).items() if key not in AGENT_MARKS}


def is_under_way(info: Mapping[str, Any]) -> bool:
    """Whether the machine was switched on for a ramdisk, and not off since."""
    return POWER_ON in (info.get(KEY) or {}) and POWERED_OFF not in info[KEY]


def begun(info: Mapping[str, Any]) -> dict[str, Any]:
    """With those of a boot that begins now."""
    return {**forgotten(info), KEY: {POWER_ON: now()}}


def reached(info: Mapping[str, Any], mark: str) -> dict[str, Any]:
    """With one more mark, unless it was reached before, or no boot of a ramdisk is under way."""
    marks = info.get(KEY)
    if not isinstance(marks, dict) or mark in marks:
        return dict(info)
    return {**info, KEY: {**marks, mark: now()}}


def has_reached(info: Mapping[str, Any], mark: str) -> bool:
    return mark in (info.get(KEY) or {})


def awaits_lease(info: Mapping[str, Any]) -> bool:
    """Whether the machine was switched on for a ramdisk that has not called yet, and its lease is not known."""
    return is_under_way(info) and not {DHCP, LOOKUP} & set(info[KEY])


def leased(info: Mapping[str, Any]) -> dict[str, Any]:
    """With the mark of the lease, for who awaits it. The report may come after the machine has made use of it."""
    marks = dict(info[KEY])
    before = {POWER_ON: marks.pop(POWER_ON), DHCP: marks.get(SCRIPT_FETCHED, now())}
    return {**info, KEY: {**before, **marks}}


def overdue(conf: cfg.ConfigOpts, info: Mapping[str, Any]) -> str | None:
    """Why the boot counts as failed; None while every stretch is within its time."""
    if not is_under_way(info):
        return None
    marks = info[KEY]
    for stretch in STRETCHES:
        seconds = conf.agent[stretch.option]
        if not seconds or stretch.since not in marks or stretch.until in marks:
            continue
        if stretch.without_leases and (DHCP in marks or conf.agent.dhcp_timeout):
            continue
        if stretch.until in ON_THE_WAY and ("ipxe" not in info or SCRIPT_FETCHED in marks or LOOKUP in marks):
            continue
        begun_at = datetime.fromisoformat(marks[stretch.since])
        if (datetime.now(UTC) - begun_at).total_seconds() > seconds:
            return stretch.text.format(seconds=seconds)
    return None
