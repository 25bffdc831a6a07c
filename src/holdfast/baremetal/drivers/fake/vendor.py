"""Vendor methods of a simulated machine: one of each sort a real driver could have.

Arguments a method has no use for are ignored: clients send what they like.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.baremetal.drivers.base import VendorInterface, VendorMethod
from holdfast.baremetal.drivers.fake.rehearsal import Simulated, can_fail
from holdfast.baremetal.task import Task


class FakeVendor(Simulated, VendorInterface):
    methods = (
        VendorMethod("echo", ("POST",), "Answers with the body it was sent.", is_async=False, exclusive=False),
        VendorMethod(
            "effects",
            ("GET",),
            "What the simulated machine is like now, and what happened to it.",
            is_async=False,
            exclusive=False,
        ),
        VendorMethod("pull_plug", ("POST", "PUT"), "Cuts the power behind the service's back."),
        VendorMethod("push_button", ("POST", "PUT"), "Switches the machine on behind the service's back."),
    )
    driver_methods = (
        VendorMethod(
            "fleet",
            ("GET",),
            "The nodes whose simulated machines were used.",
            is_async=False,
            exclusive=False,
        ),
    )

    @can_fail
    def echo(self, task: Task, /, **body: Any) -> dict[str, Any]:
        return body

    @can_fail
    def effects(self, task: Task, /, **_: Any) -> dict[str, Any]:
        node = task.node.uuid
        return {
            "machine": msgspec.to_builtins(self.machines.get(node)),
            "generation": self.machines.generation(node),
            "counts": self.machines.counts(node),
            "effects": msgspec.to_builtins(self.machines.effects(node)),
        }

    # For rehearsing what the service makes of a machine that changes by itself.

    @can_fail
    def pull_plug(self, task: Task, /, **_: Any) -> None:
        self.machines.set_power(task.node.uuid, "power off", generation=0)

    @can_fail
    def push_button(self, task: Task, /, **_: Any) -> None:
        self.machines.set_power(task.node.uuid, "power on", generation=0)

    def fleet(self, /, **_: Any) -> dict[str, list[str]]:
        return {"nodes": self.machines.known()}
