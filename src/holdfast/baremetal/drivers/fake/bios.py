"""BIOS settings of a simulated machine. It takes any name: vendors invent new ones all the time."""

from __future__ import annotations

from typing import Any

from holdfast import errors
from holdfast.baremetal.drivers.base import BiosInterface, clean_step, deploy_step
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail
from holdfast.baremetal.task import Task

ARGSINFO = {
    "settings": {
        "description": 'The settings to change: a list of {"name": …, "value": …}.',
        "required": True,
    }
}


class FakeBios(Simulated, BiosInterface):
    @deploy_step(0, argsinfo=ARGSINFO, requires_ramdisk=False)
    @clean_step(0, argsinfo=ARGSINFO, requires_ramdisk=False)
    @can_fail
    def apply_configuration(self, task: Task, settings: Any = None) -> None:
        self.machines.set_bios(task.node.uuid, _parse(settings), generation=task.generation)

    @deploy_step(0, requires_ramdisk=False)
    @clean_step(0, requires_ramdisk=False)
    @can_fail
    def factory_reset(self, task: Task) -> None:
        self.machines.reset_bios(task.node.uuid, generation=task.generation)

    @can_fail
    def cache_bios_settings(self, task: Task) -> dict[str, str]:
        return dict(self.machines.get(task.node.uuid).bios)


def _parse(settings: Any) -> dict[str, str]:
    entries = settings if isinstance(settings, list) else []
    if not entries or not all(isinstance(e, dict) and e.keys() == {"name", "value"} for e in entries):
        raise errors.DriverDataInvalid(
            'apply_configuration needs `settings`: a list of {"name": …, "value": …}, at least one.'
        )
    return {str(entry["name"]): str(entry["value"]) for entry in entries}
