"""`agent`: a ramdisk whose user logs in with the password that came with the request.

The password leaves this service as a salted hash, and only over TLS to the certificate of this boot.
"""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal import boot_progress
from holdfast.baremetal.drivers.agent import client, ramdisk
from holdfast.baremetal.drivers.agent.sha512_crypt import hashed
from holdfast.baremetal.drivers.base import Outcome, RescueInterface
from holdfast.baremetal.task import Task


class AgentRescue(RescueInterface):
    def validate(self, task: Task) -> None:
        self.drivers.boot(task).validate_rescue(task)

    def rescue(self, task: Task) -> Outcome:
        password = task.node.instance_info.get("rescue_password")
        if not isinstance(password, str) or not password:
            raise errors.DriverDataInvalid(
                f"Node {task.node.label} has no rescue_password in instance_info. Rescue it with a password."
            )
        if not boot_progress.is_under_way(task.node.driver_internal_info):
            ramdisk.start(self, task)
            return Outcome.WAIT
        agent = client.of(task, self.conf)
        if agent is None:
            return Outcome.WAIT
        if not agent.is_private:
            raise errors.Conflict(
                f"The ramdisk of node {task.node.label} cannot be called over TLS: it is not told a password."
            )
        agent.ask("rescue.finalize_rescue", {"rescue_password": hashed(password), "hashed": True})
        return Outcome.DONE

    def unrescue(self, task: Task) -> Outcome:
        ramdisk.stop(self, task)
        return Outcome.DONE

    def clean_up(self, task: Task) -> None:
        """Also after a rescue that failed half way: no rescue ramdisk stays behind."""
        ramdisk.stop(self, task)
