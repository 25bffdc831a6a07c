"""/v1/nodes/<node>/management and /validate: what talks to the machine and answers at once."""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal import instances, nodes
from holdfast.baremetal.api.states import Strict
from holdfast.baremetal.drivers.base import BOOT_DEVICES
from holdfast.baremetal.flows import set_boot_device
from holdfast.web.kinds import BOOLEAN
from holdfast.web.routes import Reply, Request


class BootDeviceRequest(Strict):
    boot_device: str
    persistent: bool | str = False


def validate(request: Request) -> Reply:
    with request.services.db.read() as connection:
        task = nodes.load_task(connection, request.subject.uuid)
    return Reply(document=instances.validate(request.services.drivers, task))


def show_boot_device(request: Request) -> Reply:
    services = request.services
    with nodes.working(services, request.subject.uuid) as task:
        device = services.drivers.management(task).get_boot_device(task)
    return Reply(document={"boot_device": device.boot_device, "persistent": device.persistent})


def supported_boot_devices(request: Request) -> Reply:
    services = request.services
    with nodes.working(services, request.subject.uuid) as task:
        devices = services.drivers.management(task).get_supported_boot_devices(task)
    return Reply(document={"supported_boot_devices": devices})


def set_device(request: Request) -> Reply:
    wanted: BootDeviceRequest = request.body
    persistent = bool(BOOLEAN.check("persistent", wanted.persistent))
    if wanted.boot_device not in BOOT_DEVICES:
        raise errors.InvalidValue(f"boot_device must be one of {', '.join(BOOT_DEVICES)}.")
    services, node = request.services, request.subject
    with services.db.read() as connection:
        task = nodes.load_task(connection, node.uuid)
    supported = services.drivers.management(task).get_supported_boot_devices(task)
    if wanted.boot_device not in supported:
        raise errors.InvalidValue(
            f"The node cannot boot from {wanted.boot_device!r}. It can from: {', '.join(supported) or 'nothing'}."
        )
    params = set_boot_device.BootDeviceParams(node=node.uuid, device=wanted.boot_device, persistent=persistent)
    services.flows.run(set_boot_device.SET_BOOT_DEVICE, params, request_id=request.id)
    return Reply(204)


def inject_nmi(request: Request) -> Reply:
    services = request.services
    with nodes.working(services, request.subject.uuid) as task:
        services.drivers.management(task).inject_nmi(task)
    return Reply(204)
