"""The interfaces a hardware type is composed of.

Each interface is one class with the methods below; a method a driver does not offer keeps the base
behaviour, which refuses with `UnsupportedByDriver` or does nothing, whichever its contract says.
Rules for every implementation:

- it gets a `Task` and never touches the database;
- it may be called again after an unknown outcome: look before you act, "ensure" rather than "do";
- what the hardware refuses or does not answer is `DriverFailed` (retried by flows); what the node
  record lacks is `DriverDataInvalid` (never retried);
- no secret in an error text or a log line.

An implementation is found by entry point (`holdfast.hardware.interfaces.<kind>`), a hardware type by
`holdfast.hardware.types`; see `registry.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal import states
from holdfast.baremetal.drivers import vif_placement
from holdfast.baremetal.task import Connector, Port, Portgroup, Target, Task

if TYPE_CHECKING:
    from holdfast.baremetal.drivers.registry import Drivers

LOG = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


class Outcome(Enum):
    """How a piece of driver work ended: finished, or now waiting for the ramdisk's next heartbeat."""

    DONE = "done"
    WAIT = "wait"


@dataclass(frozen=True)
class NodeStep:
    """A clean or deploy step a driver offers. Priority 0: only when somebody asks for it."""

    interface: str
    step: str
    priority: int = 0
    abortable: bool = False
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None
    requires_ramdisk: bool = True
    # The machine must be restarted after it, before the next step.
    reboot_requested: bool = False

    def document(self, args: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The step as the API shows it."""
        return {
            "interface": self.interface,
            "step": self.step,
            "priority": self.priority,
            "abortable": self.abortable,
            "args": dict(args or {}),
            **({"reboot_requested": True} if self.reboot_requested else {}),
        }


def clean_step(
    priority: int = 0,
    *,
    abortable: bool = False,
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None,
    requires_ramdisk: bool = True,
) -> Callable[[F], F]:
    """Marks a method as a clean step. It is called as `method(task, **args)` and returns an Outcome or None."""
    return _mark("clean", priority, abortable, argsinfo, requires_ramdisk)


def deploy_step(
    priority: int = 0,
    *,
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None,
    requires_ramdisk: bool = True,
) -> Callable[[F], F]:
    """Marks a method as a deploy step, called the same way."""
    return _mark("deploy", priority, False, argsinfo, requires_ramdisk)


def _mark(
    phase: str,
    priority: int,
    abortable: bool,
    argsinfo: Mapping[str, Mapping[str, Any]] | None,
    requires_ramdisk: bool,
) -> Callable[[F], F]:
    def mark(method: F) -> F:
        marks = dict(getattr(method, "node_steps", {}))
        marks[phase] = (priority, abortable, argsinfo, requires_ramdisk)
        method.node_steps = marks  # type: ignore[attr-defined]
        return method

    return mark


class Interface:
    """What all interfaces share. `kind` is the slot ("power"), `conf` the process's configuration,
    `drivers` (set by the registry) leads to the node's other interfaces."""

    kind: ClassVar[str]
    drivers: Drivers
    # name of a driver_info or instance_info key: what it means
    properties: ClassVar[Mapping[str, str]] = {}

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf = conf

    def get_properties(self) -> Mapping[str, str]:
        return self.properties

    def validate(self, task: Task) -> None:
        """Raises `DriverDataInvalid` when the node lacks what this interface needs. Calls no hardware."""

    def steps(self, phase: str) -> list[NodeStep]:
        """The steps this interface offers in a phase ("clean" or "deploy")."""
        found = []
        for name in dir(type(self)):
            marks = getattr(getattr(type(self), name, None), "node_steps", {})
            if phase in marks:
                priority, abortable, argsinfo, requires_ramdisk = marks[phase]
                found.append(NodeStep(self.kind, name, priority, abortable, argsinfo, requires_ramdisk))
        return found

    def execute_step(self, task: Task, step: Mapping[str, Any]) -> Outcome:
        """Runs one of them, given as the API spells it."""
        method = getattr(self, str(step["step"]), None)
        if method is None or not hasattr(method, "node_steps"):
            raise errors.DriverDataInvalid(f"The {self.kind} interface has no step {step['step']!r}.")
        return method(task, **(step.get("args") or {})) or Outcome.DONE

    def _unsupported(self, what: str) -> errors.UnsupportedByDriver:
        return errors.UnsupportedByDriver(f"The node's {self.kind} interface does not support {what}.")


class PowerInterface(Interface):
    kind = "power"

    def get_power_state(self, task: Task) -> str | None:
        """What the hardware says now: `power on`, `power off`, or None if it cannot tell."""
        raise self._unsupported("reading the power state")

    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        """Ensures the machine is in that state (on, off, soft power off); returns when it is."""
        raise self._unsupported("changing the power state")

    def reboot(self, task: Task, timeout: int | None = None, *, soft: bool = False) -> None:
        """Off and on again; on if it was off."""
        raise self._unsupported("rebooting")

    def get_supported_power_states(self, task: Task) -> list[str]:
        return [states.POWER_ON, states.POWER_OFF, states.REBOOT]


@dataclass(frozen=True)
class BootDevice:
    boot_device: str | None
    persistent: bool | None


BOOT_DEVICES = ("pxe", "disk", "cdrom", "bios", "safe", "wanboot", "iscsiboot", "floppy", "uefihttp")


INDICATOR_STATES = ("on", "off", "blinking")


@dataclass(frozen=True)
class Indicator:
    """A light on a machine, and the states it can be put into."""

    readonly: bool = False
    states: tuple[str, ...] = INDICATOR_STATES


class ManagementInterface(Interface):
    kind = "management"

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return []

    def get_boot_device(self, task: Task) -> BootDevice:
        raise self._unsupported("reading the boot device")

    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        raise self._unsupported("setting the boot device")

    def inject_nmi(self, task: Task) -> None:
        raise self._unsupported("injecting an NMI")

    def get_mac_addresses(self, task: Task) -> list[str]:
        raise self._unsupported("reading MAC addresses")

    def get_supported_indicators(self, task: Task) -> dict[str, dict[str, Indicator]]:
        """The lights of the machine: component -> {name: what it can do}."""
        raise self._unsupported("indicators")

    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str | None:
        """One of `INDICATOR_STATES`; None if it cannot be told."""
        raise self._unsupported("indicators")

    def set_indicator_state(self, task: Task, component: str, indicator: str, state: str) -> None:
        raise self._unsupported("indicators")


class BootInterface(Interface):
    """Makes the machine boot what it should. All methods may be called again."""

    kind = "boot"
    capabilities: ClassVar[frozenset[str]] = frozenset()

    def prepare_ramdisk(self, task: Task, ramdisk_params: Mapping[str, str]) -> None: ...

    def clean_up_ramdisk(self, task: Task) -> None: ...

    def prepare_instance(self, task: Task) -> None: ...

    def clean_up_instance(self, task: Task) -> None: ...

    def validate_rescue(self, task: Task) -> None: ...

    def validate_inspection(self, task: Task) -> None: ...


class DeployInterface(Interface):
    kind = "deploy"
    # True: further clean steps are known, and run, only while the node's ramdisk is up.
    asks_ramdisk: ClassVar[bool] = False

    def prepare(self, task: Task) -> None:
        """Before the deploy steps: networks, volumes, boot files."""

    def tear_down(self, task: Task) -> None:
        """Takes the instance off the machine: powers it off, lets go of networks and volumes."""

    def clean_up(self, task: Task) -> None:
        """Removes what `prepare` left on the service's side (boot files, DHCP)."""

    def take_over(self, task: Task) -> None:
        """Makes this service able to serve an instance it did not deploy (adoption, restart)."""

    def prepare_cleaning(self, task: Task) -> Outcome:
        return Outcome.DONE

    def tear_down_cleaning(self, task: Task) -> None: ...

    def ramdisk_steps(self, task: Task, phase: str) -> list[NodeStep] | None:
        """The steps that the ramdisk offers; None while it has not called."""
        return []

    def execute_ramdisk_step(self, task: Task, phase: str, step: Mapping[str, Any]) -> Outcome:
        """Runs one of them, or looks how it is doing: called again after every heartbeat until it is done."""
        raise self._unsupported("steps in a ramdisk")

    def heartbeat(self, task: Task, callback_url: str, agent_version: str | None = None, **more: Any) -> None:
        """Records a sign of life of the node's ramdisk. Not abstract: some drivers have no ramdisk (spec 004)."""
        LOG.warning(
            "Got heartbeat message from node %s, but the driver %s does not support heartbeating",
            task.node.uuid,
            task.node.driver,
        )


@dataclass(frozen=True)
class Inspection:
    """What inspection found: properties to merge into the node, the MAC addresses of its NICs, its volume
    connectors as (type, connector_id), capabilities (those an operator has set stay as they are), and
    traits, which are added to those it has."""

    properties: Mapping[str, Any] = field(default_factory=dict)
    mac_addresses: tuple[str, ...] = ()
    connectors: tuple[tuple[str, str], ...] = ()
    capabilities: Mapping[str, str] = field(default_factory=dict)
    traits: tuple[str, ...] = ()


class InspectInterface(Interface):
    kind = "inspect"

    def inspect_hardware(self, task: Task) -> Inspection | Outcome:
        """Looks at the hardware; `Outcome.WAIT` when the answer comes later from a ramdisk."""
        raise self._unsupported("inspection")

    def continue_inspection(
        self, task: Task, inventory: Mapping[str, Any] | None, plugin_data: Mapping[str, Any]
    ) -> Inspection | Outcome:
        """Goes on when the ramdisk called; `inventory` is what it reported in this inspection, if it did."""
        return self.inspect_hardware(task)

    def abort(self, task: Task) -> None:
        raise self._unsupported("aborting an inspection")


class NetworkInterface(Interface):
    """Plugs machines into networks. The VIF methods carry the default behaviour for plugins that lack
    them: they remember in the task which VIF is on which port, and call nobody."""

    kind = "network"
    VIF_KEY = "tenant_vif_port_id"
    # Where ports remember their VIF on a service network, in the order `get_current_vif` looks.
    SERVICE_VIF_KEYS: ClassVar[tuple[str, ...]] = (
        "cleaning_vif_port_id",
        "provisioning_vif_port_id",
        "rescuing_vif_port_id",
        "inspection_vif_port_id",
    )
    # False: the VIF methods, `port_changed` and `portgroup_changed` only look at the task and edit it, so
    # they run inside a transaction. True: they talk to a network service, which takes a flow.
    calls_out: ClassVar[bool] = False

    def pushes(self, task: Task, changed: Port | Portgroup) -> bool:
        """Whether the network service must hear of this change of a port or port group."""
        return self.calls_out

    def port_changed(self, task: Task, port: Port) -> None:
        """A port is about to become `port`; the task still has it as it was. May refuse by raising."""

    def portgroup_changed(self, task: Task, portgroup: Portgroup) -> None:
        """The same for a port group."""

    def place_vif(self, task: Task, vif: Mapping[str, Any]) -> None:
        """Notes the VIF on the best free port group or port of the node (`vif_placement.choose`); what is
        noted already stays. May read from a network service, but changes nothing there."""
        vif_id = str(vif["id"])
        if self.place_of(task, vif_id) is None:
            place = vif_placement.choose(task, vif, self.physical_networks(task, vif), self.tenant_vif)
            place.internal_info = {**place.internal_info, self.VIF_KEY: vif_id}

    def vif_attach(self, task: Task, vif: Mapping[str, Any]) -> None:
        """Puts the VIF on the node. `vif` is the request's body: `id`, and whatever else the caller sent.

        Of an interface that calls out it is called in a flow, after `place_vif`, and may be called again.
        """
        vif_id = str(vif["id"])
        if self.place_of(task, vif_id) is not None:
            raise errors.Duplicate(f"VIF {vif_id} is already attached to node {task.node.label}.")
        self.place_vif(task, vif)

    def vif_detach(self, task: Task, vif_id: str) -> None:
        """Takes the VIF off the node."""
        if self.place_of(task, vif_id) is None:
            raise errors.BadRequest(f"VIF {vif_id} is not attached to node {task.node.label}.")
        self.forget_vif(task, vif_id)

    def forget_vif(self, task: Task, vif_id: str) -> None:
        """Removes the note of the VIF, wherever it is; calls nobody."""
        if place := self.place_of(task, vif_id):
            place.internal_info = {k: v for k, v in place.internal_info.items() if k != self.VIF_KEY}
            place.extra = {k: v for k, v in place.extra.items() if k != "vif_port_id"}

    def place_of(self, task: Task, vif_id: str) -> Port | Portgroup | None:
        """The port group or port the VIF is on."""
        places: list[Port | Portgroup] = [*task.portgroups, *task.ports]
        return next((place for place in places if self.tenant_vif(place) == vif_id), None)

    def vif_list(self, task: Task) -> list[dict[str, Any]]:
        places: list[Port | Portgroup] = [*task.ports, *task.portgroups]
        found = [self.tenant_vif(place) for place in places]
        return [{"id": vif} for vif in found if vif]

    def physical_networks(self, task: Task, vif: Mapping[str, Any]) -> frozenset[str]:
        """The physical networks on which the VIF's network is; none known: any port will do."""
        return frozenset()

    def tenant_vif(self, place: Port | Portgroup) -> str | None:
        """The VIF somebody attached; the deprecated `extra.vif_port_id` still counts."""
        vif = place.internal_info.get(self.VIF_KEY) or place.extra.get("vif_port_id")
        return str(vif) if vif else None

    def get_current_vif(self, place: Port | Portgroup) -> str | None:
        """The VIF the port or port group is plugged into now: of a service network, else the tenant's."""
        for key in self.SERVICE_VIF_KEYS:
            if vif := place.internal_info.get(key):
                return str(vif)
        return self.tenant_vif(place)

    def add_provisioning_network(self, task: Task) -> None: ...

    def remove_provisioning_network(self, task: Task) -> None: ...

    def add_cleaning_network(self, task: Task) -> None: ...

    def remove_cleaning_network(self, task: Task) -> None: ...

    def add_rescuing_network(self, task: Task) -> None: ...

    def remove_rescuing_network(self, task: Task) -> None: ...

    def add_inspection_network(self, task: Task) -> None: ...

    def remove_inspection_network(self, task: Task) -> None: ...

    def configure_tenant_networks(self, task: Task) -> None: ...

    def unconfigure_tenant_networks(self, task: Task) -> None: ...

    def reach(self, task: Task) -> None:
        """Raises `Unavailable` if the network service cannot be reached: asked before it is to change."""

    def let_go(self, task: Task) -> None:
        """The node is about to be deleted: removes what the network service still holds of it."""

    def audit(self, task: Task) -> Iterator[str]:
        """What the network service and the node's record disagree about, while nothing works on the node."""
        yield from ()


class StorageInterface(Interface):
    kind = "storage"
    # True: a storage service keeps what is attached to a node, so a node is not deleted without asking it.
    calls_out: ClassVar[bool] = False

    def attach_volumes(self, task: Task) -> None:
        """Ensures that the node's volumes are exported to it, and writes how to reach them into the
        targets' `properties`. Called before a machine that carries an instance is switched on."""

    def detach_volumes(self, task: Task) -> None:
        """Ensures that none is. Called when the machine is off."""

    def should_write_image(self, task: Task) -> bool:
        """False: the machine boots from a volume, and nothing is written to its disks."""
        return True

    # A connector or target changes only while the machine is off and no flow has the node. These are told
    # inside the transaction that changes it: they look at the task, which still has it as it was, call
    # nobody, and may refuse by raising. What follows for the machine is done by `attach_volumes`.

    def connector_changed(self, task: Task, connector: Connector) -> None:
        """A connector is about to become `connector`."""

    def connector_removed(self, task: Task, connector: Connector) -> None:
        """A connector is about to be deleted."""

    def target_changed(self, task: Task, target: Target) -> None:
        """A target is about to become `target`."""

    def target_removed(self, task: Task, target: Target) -> None:
        """A target is about to be deleted."""


class RaidInterface(Interface):
    kind = "raid"

    def validate_raid_config(self, task: Task, raid_config: Mapping[str, Any]) -> None:
        raise self._unsupported("RAID configuration")

    def get_logical_disk_properties(self) -> Mapping[str, str]:
        raise self._unsupported("RAID configuration")


class BiosInterface(Interface):
    kind = "bios"

    def cache_bios_settings(self, task: Task) -> dict[str, str]:
        """The settings the machine has now, to be shown by the API; none where BIOS is not supported."""
        return {}


class RescueInterface(Interface):
    kind = "rescue"

    def rescue(self, task: Task) -> Outcome:
        raise self._unsupported("rescue")

    def unrescue(self, task: Task) -> Outcome:
        raise self._unsupported("rescue")

    def clean_up(self, task: Task) -> None: ...


class ConsoleInterface(Interface):
    kind = "console"

    def start_console(self, task: Task) -> None:
        raise self._unsupported("consoles")

    def stop_console(self, task: Task) -> None:
        raise self._unsupported("consoles")

    def get_console(self, task: Task) -> dict[str, str]:
        """`{"type": …, "url": …}`"""
        raise self._unsupported("consoles")


@dataclass(frozen=True)
class VendorMethod:
    """A vendor passthru method: an attribute of the same name implements it as `method(task, **body)`."""

    name: str
    http_methods: tuple[str, ...]
    description: str
    is_async: bool = True
    attach: bool = False
    exclusive: bool = True

    def document(self) -> dict[str, Any]:
        return {
            "http_methods": list(self.http_methods),
            "async": self.is_async,
            "description": self.description,
            "attach": self.attach,
            "require_exclusive_lock": self.exclusive,
        }


class VendorInterface(Interface):
    kind = "vendor"
    methods: ClassVar[tuple[VendorMethod, ...]] = ()
    driver_methods: ClassVar[tuple[VendorMethod, ...]] = ()


class HardwareType:
    """Which implementations of each interface work together, by name, the preferred one first."""

    interfaces: ClassVar[Mapping[str, tuple[str, ...]]]
