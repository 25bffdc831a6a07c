"""BIOS settings over Redfish. New settings are handed to the BMC and taken in at the next start."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast import errors
from holdfast.baremetal.drivers.base import BiosInterface, Outcome, clean_step
from holdfast.baremetal.drivers.power_change import pauses
from holdfast.baremetal.drivers.redfish.access import PROPERTIES, read_access
from holdfast.baremetal.drivers.redfish.connection import call, if_there
from holdfast.baremetal.drivers.redfish.power import RedfishPower
from holdfast.baremetal.task import Task
from holdfast.secrets import MASK, is_secret

# Seconds a machine may take to start and take its settings in: memory training alone lasts minutes.
START_TIMEOUT = 1800


class RedfishBios(BiosInterface):
    properties = PROPERTIES

    def validate(self, task: Task) -> None:
        read_access(self.conf, task.node.driver_info)

    def cache_bios_settings(self, task: Task) -> dict[str, str]:
        attributes = self._attributes(task) or {}
        return {name: MASK if is_secret(name) and value else _text(value) for name, value in attributes.items()}

    @clean_step(
        requires_ramdisk=False,
        argsinfo={
            "settings": {
                "description": "A list of settings, each an object with `name` and `value`.",
                "required": True,
            }
        },
    )
    def apply_configuration(self, task: Task, settings: Sequence[Mapping[str, Any]]) -> Outcome:
        """Ensures the settings have these values; restarts the machine if that takes one."""
        wanted = _wanted(settings)
        missing = self._differing(task, wanted)
        if not missing:
            return Outcome.DONE
        call(self.conf, task.node, "change BIOS settings", lambda system: _commit(system.bios, missing))
        if self._differing(task, wanted):
            RedfishPower(self.conf).reboot(task)
            self._wait_for(task, wanted)
        return Outcome.DONE

    @clean_step(requires_ramdisk=False)
    def factory_reset(self, task: Task) -> Outcome:
        """Puts every setting back to its default and restarts the machine, which takes them in."""
        call(self.conf, task.node, "reset its BIOS settings", lambda system: system.bios.reset_bios())
        RedfishPower(self.conf).reboot(task)
        return Outcome.DONE

    def _attributes(self, task: Task) -> dict[str, Any] | None:
        """The settings in force; None where the BMC has no such resource."""
        return call(
            self.conf,
            task.node,
            "list its BIOS settings",
            lambda system: if_there(lambda system: dict(system.bios.attributes or {}), system),
        )

    def _differing(self, task: Task, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the wanted settings that are not in force, in the type the BMC keeps them in."""
        attributes = self._attributes(task)
        if attributes is None:
            raise self._unsupported("BIOS settings on this BMC")
        unknown = sorted(set(wanted) - set(attributes))
        if unknown:
            raise errors.DriverDataInvalid(
                f"Node {task.node.label} has no BIOS setting {', '.join(name[:80] for name in unknown[:10])}."
            )
        return {
            name: _typed(value, attributes[name])
            for name, value in wanted.items()
            if _text(value) != _text(attributes[name])
        }

    def _wait_for(self, task: Task, wanted: Mapping[str, Any]) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        for pause in pauses(first=1.0, longest=15.0):
            differing = self._differing(task, wanted)
            if not differing:
                return
            if time.monotonic() >= deadline:
                raise errors.DriverFailed(
                    f"Node {task.node.label} was restarted but has not taken in its BIOS settings "
                    f"{', '.join(sorted(differing)[:10])}. "
                    "Look at its console, and whether the values are valid."
                )
            time.sleep(pause)


def _wanted(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    try:
        return {str(setting["name"]): setting["value"] for setting in settings}
    except (TypeError, KeyError):
        raise errors.DriverDataInvalid(
            "The BIOS step needs `settings`: a list of objects with `name` and `value`."
        ) from None


def _commit(bios: Any, changes: Mapping[str, Any]) -> None:
    """Hands the changes over, unless they wait there already: a BMC may refuse a second pending set."""
    pending = bios.pending_attributes or {}
    if any(_text(pending.get(name)) != _text(value) for name, value in changes.items()):
        bios.set_attributes(dict(changes))


def _text(value: Any) -> str:
    """A setting as the API shows it and as two of them compare."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _typed(value: Any, current: Any) -> Any:
    """Text from a command line, in the type of the setting it replaces."""
    if isinstance(value, str) and isinstance(current, bool) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, str) and isinstance(current, int) and value.lstrip("-").isdigit():
        return int(value)
    return value
