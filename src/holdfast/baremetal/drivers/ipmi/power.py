"""Power over IPMI."""

from __future__ import annotations

import re

from holdfast.baremetal import states
from holdfast.baremetal.drivers.base import PowerInterface
from holdfast.baremetal.drivers.ipmi.access import BOOT_PROPERTIES, PROPERTIES, read_access
from holdfast.baremetal.drivers.ipmi.management import forget_next_boot, restore_boot_device
from holdfast.baremetal.drivers.ipmi.tool import run
from holdfast.baremetal.drivers.power_change import ensure_power
from holdfast.baremetal.task import Task

# What brings a machine there
COMMANDS = {
    states.POWER_ON: "on",
    states.POWER_OFF: "off",
    states.SOFT_POWER_OFF: "soft",
}
POWER_STATES = {"on": states.POWER_ON, "off": states.POWER_OFF}

_STATUS = re.compile(r"Chassis Power is (on|off)")


class IpmitoolPower(PowerInterface):
    properties = {**PROPERTIES, **BOOT_PROPERTIES}

    def validate(self, task: Task) -> None:
        read_access(task.node.driver_info)

    def get_power_state(self, task: Task) -> str | None:
        told = run(self.conf, read_access(task.node.driver_info), "chassis", "power", "status")
        found = _STATUS.search(told)
        return POWER_STATES[found[1]] if found else None

    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        if power_state not in COMMANDS:
            raise self._unsupported(f"changing the power state to {power_state!r}")
        limits = self.conf.conductor
        soft = power_state == states.SOFT_POWER_OFF
        ensure_power(
            task.node.label,
            states.POWER_TARGETS[power_state],
            read=lambda: self.get_power_state(task),
            command=lambda: self._command(task, power_state),
            timeout=timeout or (limits.soft_power_off_timeout if soft else limits.power_state_change_timeout),
        )

    def reboot(self, task: Task, timeout: int | None = None, *, soft: bool = False) -> None:
        # Off and on rather than IPMI's power cycle, which many BMCs lack and which leaves no trace.
        self.set_power_state(task, states.SOFT_POWER_OFF if soft else states.POWER_OFF, timeout)
        self.set_power_state(task, states.POWER_ON)

    def get_supported_power_states(self, task: Task) -> list[str]:
        return list(states.POWER_TARGETS)

    def _command(self, task: Task, power_state: str) -> None:
        if power_state == states.POWER_ON:
            restore_boot_device(self.conf, task)
        run(self.conf, read_access(task.node.driver_info), "chassis", "power", COMMANDS[power_state])
        if power_state == states.POWER_ON:
            forget_next_boot(task)
