"""`ipxe`: machines fetch a script from this service and boot what it says: a volume, or a ramdisk.

The script is not a file that could go stale: it is written when the machine asks for it
(`netboot.py`), from what the node says at that moment. This interface decides what the machine is to
boot, notes it in `driver_internal_info`, and sets the boot device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers import ipxe_script
from holdfast.baremetal.drivers.base import BootInterface
from holdfast.baremetal.drivers.ipxe_script import Links, Patience
from holdfast.baremetal.drivers.storage import volumes
from holdfast.baremetal.task import Target, Task

# In driver_internal_info: what the machine fetches, {"boot": "volume"}, {"boot": "ramdisk", "params": {…}}, or
# {"boot": "instance"}: one whose instance is a ramdisk.
PLAN = "ipxe"
# The same: the last failure the machine reported, shown until it boots again.
FAILURE = "boot_failure"

DEFAULT_MARK = "%default%"


class IpxeBoot(BootInterface):
    capabilities = frozenset({"ipxe_boot", "iscsi_volume_boot", "ramdisk_boot"})
    properties = {
        "deploy_kernel": "URL of the kernel of the deployment ramdisk. Needed to boot one.",
        "deploy_ramdisk": "URL of the deployment ramdisk. Needed to boot one.",
        "kernel_append_params": f"Kernel arguments of ramdisks; {DEFAULT_MARK} stands for the configured ones.",
    }

    def validate(self, task: Task) -> None:
        """Whatever is known already can go into a script."""
        if not any(port.pxe_enabled for port in task.ports):
            raise errors.DriverDataInvalid("The node has no port with pxe_enabled: no card could fetch a boot script.")
        _kernel_arguments(self.conf, task)
        for key in ("deploy_kernel", "deploy_ramdisk"):
            if task.node.driver_info.get(key) is not None:
                ipxe_script.http_url(task.node.driver_info[key], f"driver_info/{key}")
        target = volumes.boot_target(task)
        if target is None or volumes.writes_image(task) or target.volume_type != "iscsi":
            return
        _initiator(task)
        # Where Holdfast attaches the volumes itself, it learns how to reach them only at the deploy.
        for known in [target, *_further(task, target)]:
            if known.properties.get("target_iqn") or known.properties.get("target_iqns"):
                ipxe_script.iscsi_volume(known.volume_id, known.properties, _named(known))

    def prepare_ramdisk(self, task: Task, ramdisk_params: Mapping[str, str]) -> None:
        """`ramdisk_params` become kernel arguments, `key=value`; the plan is stored with the task."""
        params = {str(key): str(value) for key, value in ramdisk_params.items()}
        _arguments(self.conf, task, params)
        _images(task)
        _set_plan(task, {"boot": "ramdisk", "params": params})
        self.drivers.management(task).set_boot_device(task, "pxe", persistent=False)

    def clean_up_ramdisk(self, task: Task) -> None:
        if _plan(task).get("boot") == "ramdisk":
            _set_plan(task, None)

    def prepare_instance(self, task: Task) -> None:
        target = volumes.marked_target(task)
        if target is None and task.node.interfaces.get("deploy") == "ramdisk":
            _instance_images(task)
            _set_plan(task, {"boot": "instance"})
            self.drivers.management(task).set_boot_device(task, "pxe", persistent=True)
            return
        if target is None or target.volume_type != "iscsi":
            # Its own disk, or a fibre channel volume that the HBA's firmware presents as one.
            _set_plan(task, None)
            self.drivers.management(task).set_boot_device(task, "disk", persistent=True)
            return
        _write(self.conf, task, target, Links("unused", "unused"))
        _set_plan(task, {"boot": "volume"})
        self.drivers.management(task).set_boot_device(task, "pxe", persistent=True)

    def clean_up_instance(self, task: Task) -> None:
        _set_plan(task, None)


def script(conf: cfg.ConfigOpts, task: Task, mac: str, links: Links) -> str | None:
    """What this machine is to boot now; None if nothing."""
    match _plan(task).get("boot"):
        case "volume" if (target := volumes.marked_target(task)) is not None:
            return _write(conf, task, target, links)
        case "ramdisk":
            kernel, ramdisk = _images(task)
            arguments = _arguments(conf, task, _plan(task).get("params") or {})
            return ipxe_script.ramdisk_script(kernel, ramdisk, arguments, mac, links, patience(conf))
        case "instance":
            kernel, ramdisk = _instance_images(task)
            own = task.node.instance_info.get("kernel_append_params")
            arguments = ipxe_script.words(own, "instance_info/kernel_append_params") if own else []
            return ipxe_script.ramdisk_script(kernel, ramdisk, arguments, mac, links, patience(conf))
    return None


def patience(conf: cfg.ConfigOpts) -> Patience:
    return Patience(conf.boot.attempts, conf.boot.retry_delay, conf.boot.restart_delay)


def _write(conf: cfg.ConfigOpts, task: Task, target: Target, links: Links) -> str:
    root, *others = (
        ipxe_script.iscsi_volume(one.volume_id, one.properties, _named(one))
        for one in [target, *_further(task, target)]
    )
    return ipxe_script.volume_script(_initiator(task), root, others, links, patience(conf))


def _further(task: Task, root: Target) -> list[Target]:
    """The other volumes, as further drives in the order of their boot indexes; those without (negative) last."""
    others = [target for target in task.targets if target.uuid != root.uuid and target.volume_type == "iscsi"]
    return sorted(others, key=lambda target: (target.boot_index < 0, abs(target.boot_index)))


def _initiator(task: Task) -> str:
    names = volumes.connector_ids(task, "iqn")
    if not names:
        raise errors.DriverDataInvalid("The node has no volume connector of type iqn: it cannot log in to iSCSI.")
    return ipxe_script.iscsi_name(names[0], "The node's iqn connector")


def _named(target: Target) -> str:
    return f"Volume target {target.uuid}:"


def _images(task: Task) -> tuple[str, str]:
    info = task.node.driver_info
    found = []
    for key in ("deploy_kernel", "deploy_ramdisk"):
        if not info.get(key):
            raise errors.DriverDataInvalid(f"driver_info/{key} is missing: there is no ramdisk to boot.")
        found.append(ipxe_script.http_url(info[key], f"driver_info/{key}"))
    return found[0], found[1]


def _instance_images(task: Task) -> tuple[str, str]:
    """Those of an instance that is itself a ramdisk."""
    info = task.node.instance_info
    if not info.get("kernel") or not info.get("ramdisk"):
        raise errors.DriverDataInvalid("instance_info/kernel or instance_info/ramdisk is missing.")
    return (
        ipxe_script.http_url(info["kernel"], "instance_info/kernel"),
        ipxe_script.http_url(info["ramdisk"], "instance_info/ramdisk"),
    )


def _arguments(conf: cfg.ConfigOpts, task: Task, params: Mapping[str, str]) -> list[str]:
    given = [ipxe_script.word(f"{key}={value}", "A ramdisk parameter") for key, value in params.items()]
    return [*_kernel_arguments(conf, task), *given]


def _kernel_arguments(conf: cfg.ConfigOpts, task: Task) -> list[str]:
    default = ipxe_script.words(conf.boot.kernel_append_params, "[boot] kernel_append_params")
    own = task.node.driver_info.get("kernel_append_params")
    if own is None or own == "":
        return default
    found: list[str] = []
    for argument in ipxe_script.words(own, "driver_info/kernel_append_params"):
        found += default if argument == DEFAULT_MARK else [argument]
    return found


def _plan(task: Task) -> Mapping[str, Any]:
    plan = task.node.driver_internal_info.get(PLAN)
    return plan if isinstance(plan, dict) else {}


def _set_plan(task: Task, plan: Mapping[str, object] | None) -> None:
    """A new plan also ends what was said about the last one."""
    kept = {k: v for k, v in task.node.driver_internal_info.items() if k not in (PLAN, FAILURE)}
    task.node.driver_internal_info = kept if plan is None else {**kept, PLAN: dict(plan)}
