"""`direct`: the agent downloads an image and writes it to the machine's disk. `ramdisk`: nothing is written,
the instance is itself a ramdisk. Both clean through the agent.

A deploy with `direct`, step by step: `deploy` boots the ramdisk and waits for it; `write_image` has the agent
write the image and waits for that; `prepare_instance_boot` makes the firmware find it; `tear_down_agent`
switches the machine off, with its disks in order. The flow then changes its networks and switches it on.
A node that boots from a volume needs none of it.
"""

from __future__ import annotations

import secrets as randomness
from collections.abc import Mapping
from typing import Any

from holdfast import errors
from holdfast.baremetal import boot_progress
from holdfast.baremetal.drivers.agent import client, images, ramdisk, steps
from holdfast.baremetal.drivers.base import DeployInterface, NodeStep, Outcome, deploy_step
from holdfast.baremetal.drivers.storage import volumes
from holdfast.baremetal.task import Task

# In driver_internal_info: the last part of the URL under which the node's agent fetches an image of ours.
IMAGE_SECRET = "image_secret"  # noqa: S105
IMAGE_FORMAT = "image_format"


class AgentDeploy(DeployInterface):
    """What both share: cleaning, and the steps the agent brings along."""

    properties = {
        "deploy_kernel": "URL of the kernel of the deployment ramdisk. Needed by boot interface ipxe.",
        "deploy_ramdisk": "URL of the deployment ramdisk. Needed by boot interface ipxe.",
    }
    asks_ramdisk = True

    def prepare_cleaning(self, task: Task) -> Outcome:
        ramdisk.start(self, task)
        return Outcome.WAIT

    def tear_down_cleaning(self, task: Task) -> None:
        ramdisk.stop(self, task)

    def clean_up(self, task: Task) -> None:
        ramdisk.stop(self, task)
        self.drivers.boot(task).clean_up_instance(task)
        info = task.node.driver_internal_info
        dropped = (IMAGE_SECRET, IMAGE_FORMAT, steps.ENDED)
        task.node.driver_internal_info = {k: v for k, v in info.items() if k not in dropped}

    def take_over(self, task: Task) -> None:
        self.drivers.boot(task).prepare_instance(task)

    def agent(self, task: Task) -> client.Agent | None:
        """The agent on the machine; None while it has not called."""
        return client.of(task, self.conf)

    def ramdisk_steps(self, task: Task, phase: str) -> list[NodeStep] | None:
        agent = self.agent(task)
        return None if agent is None else steps.offered(task, agent, self.conf, phase)

    def execute_ramdisk_step(self, task: Task, phase: str, step: Mapping[str, Any]) -> Outcome:
        """Also before the deploy's own step has booted the ramdisk, but not after it was switched off again."""
        agent = self.agent(task)
        if agent is not None:
            return steps.execute(self, task, agent, phase, step)
        if not boot_progress.is_under_way(task.node.driver_internal_info):
            if boot_progress.KEY in task.node.driver_internal_info:
                raise errors.DriverDataInvalid(
                    f"Step {step['interface']}.{step['step']} runs in the ramdisk, which is gone by then: "
                    "its priority must be higher than that of tear_down_agent."
                )
            ramdisk.start(self, task)
        return Outcome.WAIT

    def heartbeat(self, task: Task, callback_url: str, agent_version: str | None = None, **more: Any) -> None:
        """Nothing beyond what the service records of every ramdisk."""


class DirectDeploy(AgentDeploy):
    def validate(self, task: Task) -> None:
        self.drivers.boot(task).validate(task)
        if self.drivers.storage(task).should_write_image(task):
            images.of(task.node.instance_info, self.conf.agent.image_roots)

    def prepare(self, task: Task) -> None:
        """Looks at the image while nothing has happened yet."""
        info = {k: v for k, v in task.node.driver_internal_info.items() if k != boot_progress.KEY}
        if self.drivers.storage(task).should_write_image(task):
            image = images.of(task.node.instance_info, self.conf.agent.image_roots)
            info[IMAGE_FORMAT] = images.check_content(image, self.conf.agent.image_check_timeout)
            if image.path is not None:
                info[IMAGE_SECRET] = randomness.token_urlsafe(32)
        task.node.driver_internal_info = info

    @deploy_step(100)
    def deploy(self, task: Task) -> Outcome:
        if _boots_from_volume(task):
            return Outcome.DONE
        if not boot_progress.is_under_way(task.node.driver_internal_info):
            ramdisk.start(self, task)
            return Outcome.WAIT
        return Outcome.DONE if self.agent(task) is not None else Outcome.WAIT

    @deploy_step(80)
    def write_image(self, task: Task) -> Outcome:
        if _boots_from_volume(task):
            return Outcome.DONE
        args = {"image_info": self._image_info(task), "configdrive": task.node.instance_info.get("configdrive")}
        step = {"interface": "deploy", "step": "write_image", "priority": 80, "args": args}
        ramdisk.reach(task, boot_progress.IMAGE_STARTED)
        outcome = steps.execute(self, task, self._agent(task), "deploy", step)
        if outcome is Outcome.DONE:
            ramdisk.reach(task, boot_progress.IMAGE_WRITTEN)
        return outcome

    @deploy_step(60)
    def prepare_instance_boot(self, task: Task) -> Outcome:
        if _boots_from_volume(task) or task.node.capabilities().get("boot_mode") != "uefi":
            return Outcome.DONE
        params = {"root_uuid": None, "efi_system_part_uuid": None, "target_boot_mode": "uefi"}
        command = ramdisk.drive(
            task, self._agent(task), "image.install_bootloader", lambda: params, "entering the image into UEFI"
        )
        return Outcome.WAIT if command is None else Outcome.DONE

    @deploy_step(40)
    def tear_down_agent(self, task: Task) -> Outcome:
        agent = self.agent(task)
        if agent is not None and not _boots_from_volume(task):
            ramdisk.shut_down(self, task, agent)
        info = task.node.driver_internal_info
        task.node.driver_internal_info = {k: v for k, v in info.items() if k != IMAGE_SECRET}
        return Outcome.DONE

    def _agent(self, task: Task) -> client.Agent:
        agent = self.agent(task)
        if agent is None:
            raise errors.Conflict(f"The ramdisk of node {task.node.label} is gone. Deploy again.")
        return agent

    def _image_info(self, task: Task) -> dict[str, Any]:
        info = task.node.driver_internal_info
        image = images.of(task.node.instance_info, self.conf.agent.image_roots)
        url = image.source
        if image.path is not None:
            base = ramdisk.api_url(self.conf).removesuffix("/baremetal")
            url = f"{base}/images/{task.node.uuid}/{info.get(IMAGE_SECRET)}"
        disk_format = info.get(IMAGE_FORMAT) or "raw"
        return {
            "id": f"{task.node.uuid}-{image.digest[:16]}",
            "urls": [url],
            "os_hash_algo": image.algorithm,
            "os_hash_value": image.digest,
            "disk_format": disk_format,
            "container_format": "bare",
            "stream_raw_images": disk_format == "raw",
            "image_type": "whole-disk",
            "node_uuid": task.node.uuid,
        }


class RamdiskDeploy(AgentDeploy):
    """The instance is a kernel and a ramdisk that the machine fetches at every boot."""

    def validate(self, task: Task) -> None:
        boot = self.drivers.boot(task)
        boot.validate(task)
        if "ramdisk_boot" not in boot.capabilities:
            raise errors.DriverDataInvalid("The node's boot interface cannot boot a ramdisk as instance. Use ipxe.")
        if _boots_from_volume(task) or volumes.boot_target(task) is not None:
            return
        for key in ("kernel", "ramdisk"):
            if not task.node.instance_info.get(key):
                raise errors.DriverDataInvalid(f"instance_info/{key} is missing: there is no ramdisk to boot.")
        if task.node.instance_info.get("image_source"):
            raise errors.DriverDataInvalid("Deploy interface ramdisk writes no image: remove image_source.")

    @deploy_step(100, requires_ramdisk=False)
    def deploy(self, task: Task) -> Outcome:
        return Outcome.DONE


def _boots_from_volume(task: Task) -> bool:
    return volumes.BOOT_FROM_VOLUME in task.node.driver_internal_info
