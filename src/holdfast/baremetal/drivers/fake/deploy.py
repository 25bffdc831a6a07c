"""Putting instances on simulated machines, and cleaning up after them.

Power is not this interface's business: flows switch machines with the power interface.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from holdfast import secrets
from holdfast.baremetal.drivers.base import DeployInterface, Outcome, clean_step, deploy_step
from holdfast.baremetal.drivers.fake.rehearsal import LAST_HEARTBEAT, Simulated, can_fail, forget_wait, must_wait
from holdfast.baremetal.drivers.storage.volumes import BOOT_FROM_VOLUME
from holdfast.baremetal.task import Node, Task

# In driver_internal_info: which installation the deploy step belongs to.
INSTALLATION = "fake_installation"


class FakeDeploy(Simulated, DeployInterface):
    @can_fail
    def prepare(self, task: Task) -> None:
        """Begins a new installation: a rebuild writes the same image again, a repeated step does not."""
        task.node.driver_internal_info = {**task.node.driver_internal_info, INSTALLATION: str(uuid.uuid4())}

    @deploy_step(100)
    @can_fail
    def deploy(self, task: Task) -> Outcome:
        if BOOT_FROM_VOLUME in task.node.driver_internal_info:
            return Outcome.DONE
        if must_wait(task, "deploy"):
            return Outcome.WAIT
        self.machines.install(task.node.uuid, instance_of(task.node), generation=task.generation)
        return Outcome.DONE

    @can_fail
    def tear_down(self, task: Task) -> None:
        self.machines.remove(task.node.uuid, generation=task.generation)

    @can_fail
    def clean_up(self, task: Task) -> None:
        forget_wait(task, "deploy")
        info = task.node.driver_internal_info
        task.node.driver_internal_info = {k: v for k, v in info.items() if k != INSTALLATION}

    @can_fail
    def take_over(self, task: Task) -> None:
        self.machines.adopt(task.node.uuid, instance_of(task.node), generation=task.generation)

    @can_fail
    def prepare_cleaning(self, task: Task) -> Outcome:
        return Outcome.WAIT if must_wait(task, "clean") else Outcome.DONE

    @can_fail
    def tear_down_cleaning(self, task: Task) -> None:
        forget_wait(task, "clean")

    @clean_step(10, abortable=True)
    @can_fail
    def erase_devices(self, task: Task) -> None:
        self.machines.erase(task.node.uuid, generation=task.generation)

    @clean_step(0, abortable=True)
    @can_fail
    def erase_devices_metadata(self, task: Task) -> None:
        self.machines.erase(task.node.uuid, generation=task.generation)

    @can_fail
    def heartbeat(self, task: Task, callback_url: str, agent_version: str | None = None, **more: Any) -> None:
        info = task.node.driver_internal_info
        task.node.driver_internal_info = {
            **info,
            "agent_url": callback_url,
            LAST_HEARTBEAT: datetime.now(UTC).isoformat(),
        }


def instance_of(node: Node) -> dict[str, Any]:
    """What the disk remembers of an instance: enough to tell whose it is, nothing secret."""
    image = node.instance_info.get("image_source")
    return {
        "instance_uuid": node.instance_uuid,
        "image_source": secrets.mask_text(str(image)) if image else None,
        "installation": node.driver_internal_info.get(INSTALLATION),
    }
