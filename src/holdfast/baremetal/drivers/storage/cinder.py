"""`cinder`: Holdfast has a Cinder export the node's volumes to it, and take them away again.

Attachments are made in the name of the node's UUID and found by it, so nothing has to be remembered: after
a crash, or an answer that never came, the same call finds what the last one left and goes on from
there. An attachment that somebody made for the instance (Nova does, before it deploys) is used as it
is and never deleted: who made it takes it away.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers.base import StorageInterface
from holdfast.baremetal.drivers.storage import volumes
from holdfast.baremetal.drivers.storage.cinder_api import Cinder
from holdfast.baremetal.task import Task

# In an attachment's connection_info, but not about the connection.
_NOT_CONNECTION = frozenset({"driver_volume_type", "attachment_id", "enforce_multipath"})
# How far an attachment in each state got; any other state (an error) is the last choice.
_PROGRESS = {"attached": 0, "attaching": 1, "reserved": 2}


class CinderStorage(StorageInterface):
    calls_out = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._opened: Cinder | None = None
        self._opening = threading.Lock()

    @property
    def cinder(self) -> Cinder:
        """Opened on first use: a service without such nodes needs no Cinder."""
        with self._opening:
            if self._opened is None:
                self._opened = Cinder(self.conf)
            return self._opened

    def validate(self, task: Task) -> None:
        boot = self.drivers.boot(task)
        name = task.node.interfaces.get("boot", "")
        if volumes.connector_ids(task, "iqn") and "ipxe_boot" not in boot.capabilities:
            raise errors.DriverDataInvalid(
                f"The node has an iqn connector, but boot interface {name!r} knows nothing of iSCSI. Use ipxe."
            )
        volumes.check_connectors(task)
        volumes.check_targets(task)
        volumes.check_boot(task, boot.capabilities, name)

    def should_write_image(self, task: Task) -> bool:
        return volumes.writes_image(task)

    def attach_volumes(self, task: Task) -> None:
        if not task.targets:
            return
        connector = volumes.connector_document(task.node.uuid, task.connectors, task.node.properties.get("cpu_arch"))
        made = self.cinder.attachments(instance=task.node.uuid)
        given: list[dict[str, Any]] = []
        if task.node.instance_uuid and task.node.instance_uuid != task.node.uuid:
            given = self.cinder.attachments(instance=task.node.instance_uuid)
        for target in task.targets:
            theirs = [a for a in given if a["volume_id"] == target.volume_id and a["status"] == "attached"]
            if theirs:
                connection = self.cinder.attachment(theirs[0]["id"])["connection_info"]
            else:
                ours = [a for a in made if a["volume_id"] == target.volume_id]
                connection = attach(self.cinder, target.volume_id, task.node.uuid, connector, ours)
            kind = connection.get("driver_volume_type", target.volume_type)
            if kind != target.volume_type:
                raise errors.DriverDataInvalid(
                    f"Cinder exports volume {target.volume_id} as {kind}, but its target says {target.volume_type}."
                )
            target.properties = connection_data(connection)

    def detach_volumes(self, task: Task) -> None:
        detach(self.cinder, task.node.uuid)


def attach(
    cinder: Cinder, volume: str, instance: str, connector: dict[str, object], existing: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Ensures one complete attachment of the volume to the instance; its connection data.

    `existing` are this instance's attachments of the volume. More than one are left over from a request
    whose answer was lost: the one that got furthest is kept.
    """
    furthest = sorted(existing, key=lambda a: _PROGRESS.get(a["status"], len(_PROGRESS)))
    for spare in furthest[1:]:
        cinder.delete(spare["id"])
    attachment = str(furthest[0]["id"]) if furthest else cinder.reserve(volume, instance)
    if not furthest or furthest[0]["status"] != "attached":
        cinder.connect(attachment, connector)
        cinder.complete(attachment)
    # What POST and PUT answer shows the state before the call; only this is the truth.
    shown = cinder.attachment(attachment)
    if shown["status"] != "attached" or not shown.get("connection_info"):
        raise errors.DriverFailed(
            f"Cinder says volume {volume} is {shown['status']}, not attached, after it was told to attach it."
        )
    connection: dict[str, Any] = shown["connection_info"]
    return connection


def connection_data(connection: Mapping[str, Any]) -> dict[str, Any]:
    """What of an attachment's `connection_info` belongs into a target's `properties`."""
    return {name: value for name, value in connection.items() if name not in _NOT_CONNECTION}


def detach(cinder: Cinder, instance: str, volume: str | None = None) -> None:
    """Ensures the instance has no attachment (of that volume)."""
    for attachment in cinder.attachments(instance=instance):
        if volume is None or attachment["volume_id"] == volume:
            cinder.delete(attachment["id"])
