"""Drivers are found by entry points, composed as configured, and loaded when they are needed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from holdfast import config, errors
from holdfast.baremetal.drivers import base, noop
from holdfast.baremetal.drivers.base import NodeStep, Outcome
from holdfast.baremetal.drivers.registry import GENERIC, KINDS, Drivers
from holdfast.baremetal.task import Node, Port, Portgroup, Task

UUID = "0f6ae3a1-6a5c-4d29-9a57-0d6b7a7c3b11"


def load(**options: Any) -> Drivers:
    """Drivers with these [DEFAULT] options and, unless said otherwise, only fake-hardware."""
    options.setdefault("enabled_hardware_types", ["fake-hardware"])
    overrides = {("DEFAULT", name): value for name, value in options.items()}
    return Drivers(config.load(environment={}, overrides=overrides))


def task(driver: str = "fake-hardware", **interfaces: str) -> Task:
    return Task(Node(id=1, uuid=UUID, driver=driver, interfaces=interfaces))


Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution with these entry points and modules where the interpreter finds it."""
    site = tmp_path / "site"
    added: list[str] = []

    def add(entry_points: dict[str, dict[str, str]], **modules: str) -> None:
        info = site / "holdfast_acme-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast-acme\nVersion: 1.0\n")
        lines: list[str] = []
        for group, points in entry_points.items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for name, source in modules.items():
            (site / f"{name}.py").write_text(source)
        added.extend(modules)
        monkeypatch.syspath_prepend(str(site))

    yield add
    for name in added:
        sys.modules.pop(name, None)


ACME = {
    "holdfast.hardware.types": {"acme": "acme_type:Acme"},
    "holdfast.hardware.interfaces.power": {"acme-pdu": "acme_power:AcmePower"},
}
ACME_TYPE = """
from holdfast.baremetal.drivers.base import HardwareType

class Acme(HardwareType):
    interfaces = {"power": ("acme-pdu", "fake")}
"""
ACME_POWER = """
from holdfast.baremetal.drivers.base import PowerInterface

class AcmePower(PowerInterface):
    properties = {"acme_outlet": "The outlet."}

    def get_power_state(self, task):
        return "power on"
"""


class TestComposition:
    def test_all_shipped_types_are_enabled_by_default(self) -> None:
        drivers = Drivers(config.load(environment={}))
        assert drivers.types() == ["fake-hardware", "ipmi", "redfish"]
        for driver in drivers.types():
            assert drivers.defaults(driver).keys() == set(config.INTERFACES)

    def test_only_enabled_types_can_be_used(self) -> None:
        drivers = load()
        assert drivers.types() == ["fake-hardware"]
        assert drivers.supports("fake-hardware")
        assert not drivers.supports("redfish")
        with pytest.raises(errors.BadRequest, match=r"'redfish' is not enabled here\. Use one of: fake-hardware"):
            drivers.defaults("redfish")

    def test_without_configuration_a_node_gets_what_its_type_prefers(self) -> None:
        drivers = load()
        defaults = drivers.defaults("fake-hardware")
        assert defaults["power"] == "fake"
        assert defaults["storage"] == "noop"
        assert drivers.enabled("fake-hardware", "storage") == ["noop", "fake", "external", "cinder"]

    def test_enabled_interfaces_narrow_the_choice(self) -> None:
        drivers = load(enabled_deploy_interfaces=["noop"])
        assert drivers.enabled("fake-hardware", "deploy") == ["noop"]
        assert drivers.defaults("fake-hardware")["deploy"] == "noop"
        with pytest.raises(errors.BadRequest, match=r"deploy interface 'fake'.*Use one of: noop"):
            drivers.check("fake-hardware", "deploy", "fake")

    def test_a_configured_default_wins_over_the_preference(self) -> None:
        assert load(default_storage_interface="fake").defaults("fake-hardware")["storage"] == "fake"

    def test_a_configured_default_is_for_the_types_that_support_it(self) -> None:
        drivers = load(enabled_hardware_types=["fake-hardware", "redfish"], default_power_interface="redfish")
        assert drivers.defaults("redfish")["power"] == "redfish"
        assert drivers.defaults("fake-hardware")["power"] == "fake"

    def test_an_interface_of_another_type_is_refused(self) -> None:
        drivers = load()
        drivers.check("fake-hardware", "power", "fake")
        for name in ("ipmitool", "no such thing", ""):
            with pytest.raises(errors.BadRequest, match="Use one of: fake"):
                drivers.check("fake-hardware", "power", name)
        with pytest.raises(errors.BadRequest, match="not enabled"):
            drivers.check("nonesuch", "power", "fake")


class TestWrongConfiguration:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"enabled_hardware_types": ["ilo"]}, "enabled_hardware_types names 'ilo'.*fake-hardware"),
            ({"enabled_power_interfaces": ["fake", "ilo"]}, "enabled_power_interfaces names 'ilo'.*fake"),
            ({"default_bios_interface": "ilo"}, "default_bios_interface names 'ilo'.*no-bios"),
            (
                {"enabled_power_interfaces": ["ipmitool"]},
                "fake-hardware needs one of the power interfaces fake.*allows only ipmitool",
            ),
            ({"default_power_interface": "ipmitool"}, "default_power_interface is ipmitool"),
            (
                {"enabled_deploy_interfaces": ["noop"], "default_deploy_interface": "fake"},
                "default_deploy_interface is fake",
            ),
        ],
    )
    def test_it_is_refused_at_start(self, options: dict[str, Any], text: str) -> None:
        with pytest.raises(cfg.ConfigFileValueError, match=text):
            load(**options)


class TestANodesInterfaces:
    def test_they_are_the_ones_on_its_record(self) -> None:
        drivers = load()
        assert type(drivers.deploy(task(deploy="noop"))) is noop.NoopDeploy
        assert type(drivers.deploy(task(deploy="fake"))) is not noop.NoopDeploy

    def test_a_kind_the_record_does_not_name_gets_the_default(self) -> None:
        drivers = load(default_storage_interface="fake")
        assert drivers.storage(task()) is drivers.interface("fake-hardware", "storage", "fake")

    def test_each_accessor_gives_its_kind(self) -> None:
        drivers = load()
        found = drivers.all(task())
        assert found.keys() == KINDS.keys() == set(config.INTERFACES)
        for kind, interface in found.items():
            assert isinstance(interface, KINDS[kind])
            assert getattr(drivers, kind)(task()) is interface

    def test_there_is_one_instance_however_many_ask_at_once(self) -> None:
        drivers = load()
        found: list[base.Interface] = []
        threads = [threading.Thread(target=lambda: found.append(drivers.power(task()))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(interface) for interface in found}) == 1

    def test_a_node_whose_driver_or_interface_was_disabled_says_so(self) -> None:
        drivers = load(enabled_raid_interfaces=["no-raid"])
        with pytest.raises(errors.BadRequest, match="'redfish' is not enabled"):
            drivers.power(task("redfish"))
        with pytest.raises(errors.BadRequest, match="raid interface 'fake'"):
            drivers.raid(task(raid="fake"))

    def test_properties_are_those_of_all_enabled_interfaces(self) -> None:
        drivers = load(enabled_hardware_types=["fake-hardware", "ipmi", "redfish"])
        assert "ipmi_address" in drivers.properties("ipmi")
        assert "redfish_address" in drivers.properties("redfish")
        assert "fake_wait" in drivers.properties("fake-hardware")


class TestSteps:
    def test_they_are_ordered_by_priority_and_then_by_kind(self, install: Install) -> None:
        kinds = ("raid", "bios", "deploy", "management", "power", "vendor", "network")
        source = "from holdfast.baremetal.drivers.base import *\n"
        source += "from holdfast.baremetal.drivers import base\n"
        for kind in kinds:
            name = f"{kind.capitalize()}Interface"
            source += f"class Acme{name}(base.{name}):\n"
            source += "    @clean_step(50)\n    def same(self, task): ...\n"
            source += "    @clean_step(0)\n    def asked_for(self, task): ...\n"
        source += "class AcmePowerFirst(AcmePowerInterface):\n"
        source += "    @clean_step(99)\n    def first(self, task): ...\n"
        source += f"class Acme(HardwareType):\n    interfaces = dict.fromkeys({kinds!r}, ('acme',))\n"
        points = {
            f"holdfast.hardware.interfaces.{kind}": {"acme": f"acme_steps:Acme{kind.capitalize()}Interface"}
            for kind in kinds
        }
        points["holdfast.hardware.interfaces.power"] = {"acme": "acme_steps:AcmePowerFirst"}
        install({"holdfast.hardware.types": {"acme": "acme_steps:Acme"}, **points}, acme_steps=source)
        drivers = load(enabled_hardware_types=["acme"])
        ranked = ["vendor", "power", "management", "deploy", "bios", "raid", "network"]
        steps = [(step.interface, step.step, step.priority) for step in drivers.steps(task("acme"), "clean")]
        assert steps == [
            ("power", "first", 99),
            *((kind, "same", 50) for kind in ranked),
            *((kind, "asked_for", 0) for kind in ranked),
        ]
        assert drivers.steps(task("acme"), "deploy") == []

    def test_a_node_without_a_driver_for_it_still_deploys_on_paper(self) -> None:
        drivers = load()
        work = task(deploy="noop", bios="no-bios", raid="no-raid", vendor="no-vendor")
        assert drivers.steps(work, "deploy") == [
            NodeStep("deploy", "deploy", 100, requires_ramdisk=False, argsinfo=None)
        ]
        assert drivers.deploy(work).execute_step(work, {"step": "deploy"}) is Outcome.DONE


class TestThirdPartyDrivers:
    def test_an_installed_plugin_works_like_a_shipped_one(self, install: Install) -> None:
        install(ACME, acme_type=ACME_TYPE, acme_power=ACME_POWER)
        drivers = load(enabled_hardware_types=["acme", "fake-hardware"])
        assert drivers.types() == ["acme", "fake-hardware"]
        assert drivers.power(task("acme")).get_power_state(task("acme")) == "power on"
        assert drivers.properties("acme")["acme_outlet"] == "The outlet."
        assert drivers.enabled("acme", "power") == ["acme-pdu", "fake"]

    def test_kinds_it_does_not_mention_are_generic(self, install: Install) -> None:
        install(ACME, acme_type=ACME_TYPE, acme_power=ACME_POWER)
        defaults = load(enabled_hardware_types=["acme"]).defaults("acme")
        assert defaults == {"power": "acme-pdu", **{kind: names[0] for kind, names in GENERIC.items()}}

    def test_a_type_that_cannot_be_imported_is_logged_and_leaves_the_others_working(
        self, install: Install, caplog: pytest.LogCaptureFixture
    ) -> None:
        install(ACME, acme_type="import no_such_library", acme_power=ACME_POWER)
        drivers = load(enabled_hardware_types=["acme", "fake-hardware"])
        assert drivers.types() == ["fake-hardware"]
        assert "Hardware type acme (acme_type:Acme) cannot be loaded" in caplog.text
        assert drivers.power(task()).get_supported_power_states(task())

    def test_an_interface_that_cannot_be_imported_fails_only_for_its_nodes(
        self, install: Install, caplog: pytest.LogCaptureFixture
    ) -> None:
        install(ACME, acme_type=ACME_TYPE, acme_power="import no_such_library")
        drivers = load(enabled_hardware_types=["acme", "fake-hardware"])
        with pytest.raises(errors.UnsupportedByDriver, match="acme-pdu is installed but cannot be loaded"):
            drivers.power(task("acme"))
        assert "no_such_library" in caplog.text
        assert drivers.power(task("acme", power="fake")).get_supported_power_states(task())

    def test_a_class_of_the_wrong_kind_is_not_handed_out(self, install: Install) -> None:
        wrong = "from holdfast.baremetal.drivers.base import BootInterface as AcmePower"
        install(ACME, acme_type=ACME_TYPE, acme_power=wrong)
        with pytest.raises(errors.UnsupportedByDriver):
            load(enabled_hardware_types=["acme"]).power(task("acme"))

    def test_a_type_that_needs_an_interface_nobody_installed_is_logged_and_left_out(
        self, install: Install, caplog: pytest.LogCaptureFixture
    ) -> None:
        install(
            {"holdfast.hardware.types": ACME["holdfast.hardware.types"]},
            acme_type=ACME_TYPE.replace('"fake"', ""),
        )
        assert load(enabled_hardware_types=["acme", "fake-hardware"]).types() == ["fake-hardware"]
        assert "has no installed power interface" in caplog.text


class TestGenericInterfaces:
    def test_what_a_machine_cannot_do_is_refused(self) -> None:
        drivers = load()
        work = task(**{kind: names[0] for kind, names in GENERIC.items()})
        refused: list[Callable[[], Any]] = [
            lambda: drivers.inspect(work).inspect_hardware(work),
            lambda: drivers.rescue(work).rescue(work),
            lambda: drivers.console(work).get_console(work),
            lambda: drivers.raid(work).validate_raid_config(work, {}),
            lambda: drivers.management(work).inject_nmi(work),
        ]
        for call in refused:
            with pytest.raises(errors.UnsupportedByDriver):
                call()
        assert drivers.bios(work).cache_bios_settings(work) == {}
        assert drivers.vendor(work).methods == ()

    def test_noop_management_grants_the_boot_devices_firmware_has_anyway(self) -> None:
        drivers = load()
        work = task(management="noop")
        management = drivers.management(work)
        for device in management.get_supported_boot_devices(work):
            management.set_boot_device(work, device, persistent=True)
        with pytest.raises(errors.InvalidValue, match="pxe or disk"):
            management.set_boot_device(work, "cdrom")
        assert management.get_boot_device(work) == base.BootDevice(None, None)

    def test_noop_networks_remember_which_vif_sits_where(self) -> None:
        network = load().network(task())
        work = task()
        work.portgroups = [Portgroup(id=1, uuid="g")]
        work.ports = [
            Port(id=1, uuid="a", address="52:54:00:00:00:01", portgroup_id=1),
            Port(id=2, uuid="b", address="52:54:00:00:00:02"),
        ]
        network.vif_attach(work, {"id": "vif-1"})
        network.vif_attach(work, {"id": "vif-2"})
        assert network.get_current_vif(work.portgroups[0]) == "vif-1"
        assert network.get_current_vif(work.ports[1]) == "vif-2"
        network.vif_detach(work, "vif-1")
        assert network.vif_list(work) == [{"id": "vif-2"}]


def test_no_library_of_a_driver_is_loaded_before_a_node_needs_it() -> None:
    script = """
import sys
from holdfast import config
from holdfast.baremetal.drivers.registry import Drivers
drivers = Drivers(config.load(environment={}))
for driver in drivers.types():
    drivers.defaults(driver)
    drivers.check(driver, "network", "noop")
assert "redfish" in drivers.types()
heavy = {"sushy", "requests", "sqlite3", "holdfast.sim.machines"} & sys.modules.keys()
assert not heavy, heavy
drivers.interface("redfish", "power", "redfish")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
