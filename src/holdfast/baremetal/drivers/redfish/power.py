"""Power over Redfish."""

from __future__ import annotations

from typing import Any

from sushy import PowerState, ResetType

from holdfast.baremetal import states
from holdfast.baremetal.drivers.base import PowerInterface
from holdfast.baremetal.drivers.power_change import ensure_power
from holdfast.baremetal.drivers.redfish.access import PROPERTIES, read_access
from holdfast.baremetal.drivers.redfish.connection import call
from holdfast.baremetal.task import Task

# What the BMC says, in our words. A machine that is shutting down is not off yet.
POWER_STATES = {
    PowerState.ON: states.POWER_ON,
    PowerState.POWERING_ON: states.POWER_ON,
    PowerState.PAUSED: states.POWER_ON,
    PowerState.POWERING_OFF: states.POWER_ON,
    PowerState.OFF: states.POWER_OFF,
}

# What brings a machine there, the first one the BMC offers
RESETS = {
    states.POWER_ON: (ResetType.ON, ResetType.FORCE_ON),
    states.POWER_OFF: (ResetType.FORCE_OFF,),
    states.SOFT_POWER_OFF: (ResetType.GRACEFUL_SHUTDOWN,),
}


class RedfishPower(PowerInterface):
    properties = PROPERTIES

    def validate(self, task: Task) -> None:
        read_access(self.conf, task.node.driver_info)

    def get_power_state(self, task: Task) -> str | None:
        state = call(self.conf, task.node, "tell its power state", lambda system: system.power_state)
        return POWER_STATES.get(state)

    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        if power_state not in RESETS:
            raise self._unsupported(f"changing the power state to {power_state!r}")
        limits = self.conf.conductor
        soft = power_state == states.SOFT_POWER_OFF
        ensure_power(
            task.node.label,
            states.POWER_TARGETS[power_state],
            read=lambda: self._settled(task),
            command=lambda: self._reset(task, power_state),
            timeout=timeout or (limits.soft_power_off_timeout if soft else limits.power_state_change_timeout),
        )

    def reboot(self, task: Task, timeout: int | None = None, *, soft: bool = False) -> None:
        # Off and on rather than Redfish's own restart, which leaves no trace of having happened.
        self.set_power_state(task, states.SOFT_POWER_OFF if soft else states.POWER_OFF, timeout)
        self.set_power_state(task, states.POWER_ON)

    def get_supported_power_states(self, task: Task) -> list[str]:
        return list(states.POWER_TARGETS)

    def _settled(self, task: Task) -> str | None:
        state = call(self.conf, task.node, "tell its power state", lambda system: system.power_state)
        return None if state == PowerState.POWERING_OFF else POWER_STATES.get(state)

    def _reset(self, task: Task, power_state: str) -> None:
        def reset(system: Any) -> None:
            offered = system.get_allowed_reset_system_values()
            for kind in RESETS[power_state]:
                if kind in offered:
                    system.reset_system(kind)
                    return
            raise self._unsupported(f"{power_state!r} on this BMC")

        # Not repeated blindly: `ensure_power` looks first whether it happened.
        call(self.conf, task.node, f"change the power state to {power_state!r}", reset, repeatable=False)
