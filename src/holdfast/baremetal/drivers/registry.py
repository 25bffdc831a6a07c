"""Finds hardware types and their interfaces, and hands a node's interfaces to whoever works on it.

Plugins are entry points: `holdfast.hardware.types` names `HardwareType` classes,
`holdfast.hardware.interfaces.<kind>` names `Interface` classes. The classes of the enabled hardware
types, which are little more than a table of names, are imported at start so that a wrong
configuration is refused at once; an interface is imported when a node first uses it, so that a
process without Redfish nodes never loads a Redfish library.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import NamedTuple, TypeVar, cast

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers.base import (
    BiosInterface,
    BootInterface,
    ConsoleInterface,
    DeployInterface,
    HardwareType,
    InspectInterface,
    Interface,
    ManagementInterface,
    NetworkInterface,
    NodeStep,
    PowerInterface,
    RaidInterface,
    RescueInterface,
    StorageInterface,
    VendorInterface,
)
from holdfast.baremetal.task import Task

LOG = logging.getLogger(__name__)

TYPES_GROUP = "holdfast.hardware.types"
INTERFACES_GROUP = "holdfast.hardware.interfaces."

# kind: the class its implementations derive from
KINDS: dict[str, type[Interface]] = {
    base.kind: base
    for base in (
        BiosInterface,
        BootInterface,
        ConsoleInterface,
        DeployInterface,
        InspectInterface,
        ManagementInterface,
        NetworkInterface,
        PowerInterface,
        RaidInterface,
        RescueInterface,
        StorageInterface,
        VendorInterface,
    )
}

# What a hardware type gets for a kind it does not mention. Without power there is no machine.
GENERIC: dict[str, tuple[str, ...]] = {
    "bios": ("no-bios",),
    "boot": ("noop",),
    "console": ("no-console",),
    "deploy": ("noop",),
    "inspect": ("no-inspect",),
    "management": ("noop",),
    "network": ("noop", "flat", "neutron"),
    "raid": ("no-raid",),
    "rescue": ("no-rescue",),
    "storage": ("noop",),
    "vendor": ("no-vendor",),
}

# Between steps of the same priority, in this order.
STEP_RANK = {kind: rank for rank, kind in enumerate(("vendor", "power", "management", "deploy", "bios", "raid"))}

I = TypeVar("I", bound=Interface)  # noqa: E741


class Choice(NamedTuple):
    """What nodes of one hardware type may use for one kind, and what they use unless told otherwise."""

    enabled: list[str]
    default: str


class Drivers:
    """The drivers of this process, as configured."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._points = _entry_points()
        self._types = self._compose()
        self._instances: dict[tuple[str, str], Interface] = {}

    # What is there

    def types(self) -> list[str]:
        """The hardware types nodes may use."""
        return sorted(self._types)

    def supports(self, driver: str) -> bool:
        return driver in self._types

    def defaults(self, driver: str) -> dict[str, str]:
        """kind: the interface of a node that names none."""
        return {kind: choice.default for kind, choice in self._choices(driver).items()}

    def enabled(self, driver: str, kind: str) -> list[str]:
        """The interfaces nodes of that type may use, the type's favourite first."""
        return list(self._choices(driver)[kind].enabled)

    def check(self, driver: str, kind: str, name: str) -> None:
        """Raises `BadRequest`, naming what is allowed, unless a node may use this interface."""
        allowed = self._choices(driver)[kind].enabled
        if name not in allowed:
            raise errors.BadRequest(
                f"Nodes with driver {driver} cannot use {kind} interface {name[:80]!r}: "
                f"it is not enabled, or the driver does not support it. Use one of: {', '.join(allowed)}."
            )

    def properties(self, driver: str) -> dict[str, str]:
        """What may be set in `driver_info`, over all enabled interfaces of the type: name and meaning."""
        merged: dict[str, str] = {}
        for kind, choice in sorted(self._choices(driver).items()):
            for name in choice.enabled:
                merged |= self.interface(driver, kind, name).get_properties()
        return dict(sorted(merged.items()))

    # A node's interfaces

    def interface(self, driver: str, kind: str, name: str) -> Interface:
        """The one instance of an interface in this process."""
        self.check(driver, kind, name)
        found = self._instances.get((kind, name))
        if found is None:
            # Two threads may both get here; `setdefault` lets one instance win.
            found = self._instances.setdefault((kind, name), self._load_interface(kind, name))
        return found

    def power(self, task: Task) -> PowerInterface:
        return self._of(task, PowerInterface)

    def management(self, task: Task) -> ManagementInterface:
        return self._of(task, ManagementInterface)

    def boot(self, task: Task) -> BootInterface:
        return self._of(task, BootInterface)

    def deploy(self, task: Task) -> DeployInterface:
        return self._of(task, DeployInterface)

    def inspect(self, task: Task) -> InspectInterface:
        return self._of(task, InspectInterface)

    def network(self, task: Task) -> NetworkInterface:
        return self._of(task, NetworkInterface)

    def storage(self, task: Task) -> StorageInterface:
        return self._of(task, StorageInterface)

    def raid(self, task: Task) -> RaidInterface:
        return self._of(task, RaidInterface)

    def bios(self, task: Task) -> BiosInterface:
        return self._of(task, BiosInterface)

    def rescue(self, task: Task) -> RescueInterface:
        return self._of(task, RescueInterface)

    def console(self, task: Task) -> ConsoleInterface:
        return self._of(task, ConsoleInterface)

    def vendor(self, task: Task) -> VendorInterface:
        return self._of(task, VendorInterface)

    def all(self, task: Task) -> dict[str, Interface]:
        """Every interface of the node, by kind."""
        return {kind: self._of(task, base) for kind, base in KINDS.items()}

    def steps(self, task: Task, phase: str, in_ramdisk: Iterable[NodeStep] = ()) -> list[NodeStep]:
        """What the node can do in a phase ("clean" or "deploy"), in the order it would be done. A step that
        an interface has wins over one of the same name that its ramdisk offers."""
        offered = [step for interface in self.all(task).values() for step in interface.steps(phase)]
        own = {(step.interface, step.step) for step in offered}
        offered += [step for step in in_ramdisk if (step.interface, step.step) not in own]
        return sorted(offered, key=lambda step: (-step.priority, STEP_RANK.get(step.interface, len(STEP_RANK))))

    def _of(self, task: Task, base: type[I]) -> I:
        driver, kind = task.node.driver, base.kind
        name = task.node.interfaces.get(kind) or self._choices(driver)[kind].default
        return cast(I, self.interface(driver, kind, name))

    def _choices(self, driver: str) -> Mapping[str, Choice]:
        try:
            return self._types[driver]
        except KeyError:
            raise errors.BadRequest(
                f"Driver {driver[:80]!r} is not enabled here. Use one of: {', '.join(self.types())}."
            ) from None

    # Start-up

    def _compose(self) -> dict[str, dict[str, Choice]]:
        """Each enabled hardware type with its choices. What the configuration asks for must exist."""
        wanted = list(self._conf.enabled_hardware_types)
        self._must_exist("enabled_hardware_types", wanted, TYPES_GROUP)
        for kind in KINDS:
            enabled, default = self._configured(kind)
            self._must_exist(f"enabled_{kind}_interfaces", enabled, INTERFACES_GROUP + kind)
            self._must_exist(f"default_{kind}_interface", [default] if default else [], INTERFACES_GROUP + kind)
        types: dict[str, dict[str, Choice]] = {}
        for name in wanted:
            supported = self._load_type(name)
            if supported is not None:
                types[name] = {kind: self._choose(name, kind, supported[kind]) for kind in KINDS}
        for kind in KINDS:
            _enabled, default = self._configured(kind)
            if default and types and not any(default in choice[kind].enabled for choice in types.values()):
                raise cfg.ConfigFileValueError(
                    f"[DEFAULT] default_{kind}_interface is {default}, "
                    "which no enabled hardware type can use as configured."
                )
        return types

    def _choose(self, driver: str, kind: str, supported: tuple[str, ...]) -> Choice:
        configured, default = self._configured(kind)
        enabled = [name for name in supported if not configured or name in configured]
        if not enabled:
            raise cfg.ConfigFileValueError(
                f"Hardware type {driver} needs one of the {kind} interfaces {', '.join(supported)}, "
                f"but [DEFAULT] enabled_{kind}_interfaces allows only {', '.join(configured)}. "
                f"Add one of them, or take {driver} out of enabled_hardware_types."
            )
        return Choice(enabled, default if default in enabled else enabled[0])

    def _configured(self, kind: str) -> tuple[list[str], str | None]:
        return self._conf[f"enabled_{kind}_interfaces"], self._conf[f"default_{kind}_interface"]

    def _must_exist(self, option: str, names: Iterable[str], group: str) -> None:
        installed = self._points.get(group, {})
        for name in names:
            if name not in installed:
                raise cfg.ConfigFileValueError(
                    f"[DEFAULT] {option} names {name!r}, which is not installed. "
                    f"Installed are: {', '.join(sorted(installed)) or 'none'}."
                )

    def _load_type(self, name: str) -> dict[str, tuple[str, ...]] | None:
        """What a hardware type supports and is installed, by kind; None if the plugin is broken."""
        point = self._points[TYPES_GROUP][name]
        try:
            loaded: type[HardwareType] = point.load()
            named = {**GENERIC, **loaded.interfaces}
        except Exception:
            # A plugin is somebody else's code: whatever it raises must not take the others along.
            LOG.exception("Hardware type %s (%s) cannot be loaded; nodes cannot use it", name, point.value)
            return None
        supported = {
            kind: tuple(i for i in named.get(kind, ()) if i in self._points.get(INTERFACES_GROUP + kind, {}))
            for kind in KINDS
        }
        for kind, names in supported.items():
            if not names:
                LOG.error("Hardware type %s (%s) has no installed %s interface", name, point.value, kind)
                return None
        return supported

    def _load_interface(self, kind: str, name: str) -> Interface:
        point = self._points[INTERFACES_GROUP + kind][name]
        try:
            loaded = point.load()
            if not issubclass(loaded, KINDS[kind]):
                raise TypeError(f"{point.value} is not a {KINDS[kind].__name__}")
            interface = cast(Interface, loaded(self._conf))
            interface.drivers = self
            return interface
        except Exception as error:
            LOG.exception("The %s interface %s (%s) cannot be loaded", kind, name, point.value)
            raise errors.UnsupportedByDriver(
                f"The {kind} interface {name} is installed but cannot be loaded; the service's log says why."
            ) from error


def _entry_points() -> dict[str, dict[str, metadata.EntryPoint]]:
    """Every plugin installed, by group and name, from one pass over the installed distributions."""
    found: dict[str, dict[str, metadata.EntryPoint]] = {}
    everything = metadata.entry_points()
    for group in (TYPES_GROUP, *(INTERFACES_GROUP + kind for kind in KINDS)):
        names = found.setdefault(group, {})
        for point in everything.select(group=group):
            first = names.setdefault(point.name, point)
            if first.value != point.value:
                LOG.warning("%s is offered twice in %s; %s is used", point.name, group, first.value)
    return found
