"""The provision state machine, as data.

State words are spelled as the API spells them. `TRANSITIONS` is the whole machine; `VERBS` is what
a client may ask for; everything else here is derived from those two or names a group of states that
a rule elsewhere needs. `holdfast states` draws the diagram in docs/ from this file.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.web.versions import Version

ENROLL = "enroll"
VERIFYING = "verifying"
MANAGEABLE = "manageable"
AVAILABLE = "available"
ACTIVE = "active"
DEPLOYING = "deploying"
DEPLOYWAIT = "wait call-back"
DEPLOYFAIL = "deploy failed"
DELETING = "deleting"
ERROR = "error"
CLEANING = "cleaning"
CLEANWAIT = "clean wait"
CLEANFAIL = "clean failed"
INSPECTING = "inspecting"
INSPECTWAIT = "inspect wait"
INSPECTFAIL = "inspect failed"
ADOPTING = "adopting"
ADOPTFAIL = "adopt failed"
RESCUE = "rescue"
RESCUING = "rescuing"
RESCUEWAIT = "rescue wait"
RESCUEFAIL = "rescue failed"
UNRESCUING = "unrescuing"
UNRESCUEFAIL = "unrescue failed"

# state: {event: next state}
TRANSITIONS: dict[str, dict[str, str]] = {
    ENROLL: {"manage": VERIFYING},
    VERIFYING: {"done": MANAGEABLE, "fail": ENROLL},
    MANAGEABLE: {"provide": CLEANING, "clean": CLEANING, "inspect": INSPECTING, "adopt": ADOPTING},
    AVAILABLE: {"deploy": DEPLOYING, "manage": MANAGEABLE},
    DEPLOYING: {"done": ACTIVE, "wait": DEPLOYWAIT, "fail": DEPLOYFAIL},
    DEPLOYWAIT: {"resume": DEPLOYING, "fail": DEPLOYFAIL, "delete": DELETING},
    DEPLOYFAIL: {"deploy": DEPLOYING, "rebuild": DEPLOYING, "delete": DELETING},
    ACTIVE: {"rebuild": DEPLOYING, "delete": DELETING, "rescue": RESCUING},
    DELETING: {"clean": CLEANING, "fail": ERROR},
    ERROR: {"rebuild": DEPLOYING, "delete": DELETING},
    CLEANING: {"done": AVAILABLE, "manage": MANAGEABLE, "wait": CLEANWAIT, "fail": CLEANFAIL},
    CLEANWAIT: {"resume": CLEANING, "fail": CLEANFAIL, "abort": CLEANFAIL},
    CLEANFAIL: {"manage": MANAGEABLE},
    INSPECTING: {"done": MANAGEABLE, "wait": INSPECTWAIT, "fail": INSPECTFAIL},
    INSPECTWAIT: {"done": MANAGEABLE, "resume": INSPECTING, "fail": INSPECTFAIL, "abort": INSPECTFAIL},
    INSPECTFAIL: {"manage": MANAGEABLE, "inspect": INSPECTING},
    ADOPTING: {"done": ACTIVE, "fail": ADOPTFAIL},
    ADOPTFAIL: {"adopt": ADOPTING, "manage": MANAGEABLE},
    RESCUING: {"done": RESCUE, "wait": RESCUEWAIT, "fail": RESCUEFAIL},
    RESCUEWAIT: {"resume": RESCUING, "fail": RESCUEFAIL, "abort": RESCUEFAIL, "delete": DELETING},
    RESCUE: {"rescue": RESCUING, "unrescue": UNRESCUING, "delete": DELETING},
    RESCUEFAIL: {"rescue": RESCUING, "unrescue": UNRESCUING, "delete": DELETING},
    UNRESCUING: {"done": ACTIVE, "fail": UNRESCUEFAIL},
    UNRESCUEFAIL: {"rescue": RESCUING, "unrescue": UNRESCUING, "delete": DELETING},
}

# What `target_provision_state` shows in each state that is on its way somewhere. Cleaning goes to
# `manageable` when an operator asked for it by hand: the flow that starts it says so.
TARGETS: dict[str, str] = {
    VERIFYING: MANAGEABLE,
    INSPECTING: MANAGEABLE,
    INSPECTWAIT: MANAGEABLE,
    INSPECTFAIL: MANAGEABLE,
    DEPLOYING: ACTIVE,
    DEPLOYWAIT: ACTIVE,
    DEPLOYFAIL: ACTIVE,
    ADOPTING: ACTIVE,
    ADOPTFAIL: ACTIVE,
    UNRESCUING: ACTIVE,
    UNRESCUEFAIL: ACTIVE,
    RESCUING: RESCUE,
    RESCUEWAIT: RESCUE,
    RESCUEFAIL: RESCUE,
    DELETING: AVAILABLE,
    CLEANING: AVAILABLE,
    CLEANWAIT: AVAILABLE,
    CLEANFAIL: AVAILABLE,
}

STATES = frozenset(TRANSITIONS)
STABLE = frozenset({ENROLL, MANAGEABLE, AVAILABLE, ACTIVE, ERROR, RESCUE})
FAILED = frozenset({DEPLOYFAIL, CLEANFAIL, INSPECTFAIL, ADOPTFAIL, RESCUEFAIL, UNRESCUEFAIL})
WAITING = frozenset({DEPLOYWAIT, CLEANWAIT, INSPECTWAIT, RESCUEWAIT})
# A node here moves by itself; it has a flow, or waits for its ramdisk.
UNSTABLE = STATES - STABLE - FAILED

# Interfaces and the resource class of a node may only change here (or in maintenance).
RECONFIGURABLE = frozenset({ENROLL, INSPECTING, INSPECTWAIT, MANAGEABLE, AVAILABLE})
# The wiring of a port may only change here (or in maintenance).
PORT_CHANGEABLE = frozenset({ENROLL, INSPECTING, INSPECTWAIT, MANAGEABLE})
DELETABLE = frozenset({ENROLL, MANAGEABLE, ADOPTFAIL})
# With a transition under way a node may only be patched in these states.
PATCHABLE_IN_TRANSITION = FAILED | {INSPECTING, INSPECTWAIT, ERROR, VERIFYING}
# A ramdisk may look its node up here (spec 004).
LOOKUP = frozenset({DEPLOYING, DEPLOYWAIT, CLEANING, CLEANWAIT, INSPECTING, INSPECTWAIT, RESCUING, RESCUEWAIT})

POWER_ON = "power on"
POWER_OFF = "power off"
REBOOT = "rebooting"
SOFT_REBOOT = "soft rebooting"
SOFT_POWER_OFF = "soft power off"

# request: the power state the machine is in afterwards
POWER_TARGETS = {
    POWER_ON: POWER_ON,
    POWER_OFF: POWER_OFF,
    REBOOT: POWER_ON,
    SOFT_REBOOT: POWER_ON,
    SOFT_POWER_OFF: POWER_OFF,
}

POWER_FAILURE = "power failure"
CLEAN_FAILURE = "clean failure"
RESCUE_ABORT_FAILURE = "rescue abort failure"
FAULTS = frozenset({POWER_FAILURE, CLEAN_FAILURE, RESCUE_ABORT_FAILURE})


class Verb(NamedTuple):
    """What a client puts into `target`, the event it causes, and the version that brought it."""

    event: str
    since: Version


VERBS: dict[str, Verb] = {
    "active": Verb("deploy", Version(1, 1)),
    "deleted": Verb("delete", Version(1, 1)),
    "rebuild": Verb("rebuild", Version(1, 1)),
    "manage": Verb("manage", Version(1, 4)),
    "provide": Verb("provide", Version(1, 4)),
    "inspect": Verb("inspect", Version(1, 6)),
    "abort": Verb("abort", Version(1, 13)),
    "clean": Verb("clean", Version(1, 15)),
    "adopt": Verb("adopt", Version(1, 17)),
    "rescue": Verb("rescue", Version(1, 38)),
    "unrescue": Verb("unrescue", Version(1, 38)),
}


# Verbs of versions this service does not speak yet.
LATER_VERBS: dict[str, Version] = {
    "deploy": Version(1, 73),
    "undeploy": Version(1, 73),
    "unhold": Version(1, 85),
    "service": Version(1, 87),
}


def next_state(state: str, event: str) -> str | None:
    """Where `event` leads from `state`; None if it is not possible there."""
    return TRANSITIONS[state].get(event)
