"""The redfish hardware type against the sushy-tools emulator."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal import states
from holdfast.baremetal.drivers.base import BootDevice, Indicator, Outcome
from holdfast.baremetal.drivers.redfish.access import read_access
from holdfast.baremetal.drivers.redfish.bios import RedfishBios
from holdfast.baremetal.drivers.redfish.connection import LOGINS
from holdfast.baremetal.drivers.redfish.inspect import RedfishInspect
from holdfast.baremetal.drivers.redfish.management import RedfishManagement
from holdfast.baremetal.drivers.redfish.power import RedfishPower
from holdfast.baremetal.drivers.registry import Drivers
from tests.redfish_bmc import PASSWORD, PLAIN, RICH, Emulator, configure, node


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    return configure()


@pytest.fixture(autouse=True)
def _fresh_logins() -> Iterator[None]:
    yield
    LOGINS.close()


class TestWhatDriverInfoMustBe:
    GOOD = {
        "redfish_address": "https://10.0.0.5",
        "redfish_system_id": "/redfish/v1/Systems/1",
        "redfish_username": "admin",
        "redfish_password": PASSWORD,
    }

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("redfish_address", None),
            ("redfish_address", ""),
            ("redfish_address", 7),
            ("redfish_address", "ftp://10.0.0.5"),
            ("redfish_address", "https://"),
            ("redfish_address", "https://10.0.0.5:notaport"),
            ("redfish_address", "https://10.0.0.5/redfish/v1/Systems/1"),
            ("redfish_address", f"https://admin:{PASSWORD}@10.0.0.5"),
            ("redfish_address", "https://10.0.0.5 evil"),
            ("redfish_system_id", "1"),
            ("redfish_system_id", "/"),
            ("redfish_system_id", "https://10.0.0.5/redfish/v1/Systems/1"),
            ("redfish_system_id", "//evil.example.org/redfish/v1/Systems/1"),
            ("redfish_system_id", "/redfish/v1/Systems/1?x=y"),
            ("redfish_username", None),
            ("redfish_password", 12345),
            ("redfish_verify_ca", "/nowhere/ca.pem"),
            ("redfish_verify_ca", "perhaps"),
            ("redfish_auth_type", "kerberos"),
        ],
    )
    def test_a_bad_value_is_refused_by_the_name_of_its_key(self, conf: cfg.ConfigOpts, key: str, value: Any) -> None:
        task = node({**self.GOOD, key: value})
        for interface in (RedfishPower, RedfishManagement, RedfishInspect, RedfishBios):
            with pytest.raises(errors.DriverDataInvalid, match=key) as refusal:
                interface(conf).validate(task)
            assert PASSWORD not in refusal.value.public

    def test_good_values_are_accepted_without_asking_the_hardware(self, conf: cfg.ConfigOpts) -> None:
        for interface in (RedfishPower, RedfishManagement, RedfishInspect, RedfishBios):
            interface(conf).validate(node(self.GOOD))

    def test_https_is_meant_where_the_scheme_is_left_out(self, conf: cfg.ConfigOpts) -> None:
        assert read_access(conf, {"redfish_address": "BMC-1.example.org:8443"}).address == (
            "https://bmc-1.example.org:8443"
        )

    def test_certificates_are_verified_unless_the_node_says_otherwise(
        self, conf: cfg.ConfigOpts, tmp_path: Path
    ) -> None:
        bundle = tmp_path / "ca.pem"
        bundle.touch()

        def verify(**more: Any) -> bool | str:
            return read_access(conf, {**self.GOOD, **more}).verify

        assert verify() is True
        assert verify(redfish_verify_ca=False) is False
        assert verify(redfish_verify_ca="False") is False
        assert verify(redfish_verify_ca=str(bundle)) == str(bundle)

    def test_a_prefix_before_the_standard_root_is_kept(self, conf: cfg.ConfigOpts) -> None:
        access = read_access(conf, {**self.GOOD, "redfish_system_id": "/rack7/redfish/v1/Systems/9/"})
        assert (access.root_prefix, access.system_id) == ("/rack7/redfish/v1/", "/rack7/redfish/v1/Systems/9")

    def test_the_password_is_not_in_the_text_of_the_record(self, conf: cfg.ConfigOpts) -> None:
        assert PASSWORD not in repr(read_access(conf, self.GOOD))


def test_the_hardware_type_offers_its_interfaces() -> None:
    drivers = Drivers(configure())
    ours = {kind: drivers.defaults("redfish")[kind] for kind in ("power", "management", "inspect", "bios")}
    assert ours == dict.fromkeys(ours, "redfish")
    assert set(drivers.properties("redfish")) >= {
        "redfish_address",
        "redfish_system_id",
        "redfish_username",
        "redfish_password",
        "redfish_verify_ca",
        "redfish_auth_type",
    }


@pytest.mark.real
class TestOnTheEmulator:
    def test_power_is_switched_and_waited_for(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        task, power = node(redfish_emulator.driver_info()), RedfishPower(conf)

        power.set_power_state(task, states.POWER_ON)
        assert power.get_power_state(task) == states.POWER_ON
        commands = redfish_emulator.power_commands()
        power.set_power_state(task, states.POWER_ON)
        assert redfish_emulator.power_commands() == commands, "it was on already"

        power.reboot(task)
        assert power.get_power_state(task) == states.POWER_ON
        power.reboot(task, soft=True)
        assert power.get_power_state(task) == states.POWER_ON

        power.set_power_state(task, states.SOFT_POWER_OFF)
        assert power.get_power_state(task) == states.POWER_OFF
        commands = redfish_emulator.power_commands()
        power.set_power_state(task, states.POWER_OFF)
        assert redfish_emulator.power_commands() == commands, "it was off already"

    def test_a_reboot_switches_on_what_was_off(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        task = node(redfish_emulator.driver_info())
        RedfishPower(conf).set_power_state(task, states.POWER_OFF)
        RedfishPower(conf).reboot(task)
        assert RedfishPower(conf).get_power_state(task) == states.POWER_ON

    def test_the_boot_device_is_set_and_told(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        task, management = node(redfish_emulator.driver_info()), RedfishManagement(conf)
        assert management.get_supported_boot_devices(task) == ["pxe", "disk", "cdrom", "uefihttp"]
        for device in ("cdrom", "pxe", "disk"):
            management.set_boot_device(task, device, persistent=True)
            # The emulator calls every override persistent.
            assert management.get_boot_device(task) == BootDevice(device, True)
        management.set_boot_device(task, "pxe", persistent=False)
        assert redfish_emulator.get(f"/redfish/v1/Systems/{PLAIN}")["Boot"]["BootSourceOverrideTarget"] == "Pxe"
        with pytest.raises(errors.InvalidValue, match="Use one of: pxe, disk, cdrom, uefihttp"):
            management.set_boot_device(task, "bios")

    def test_mac_addresses_are_told_in_our_form(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        assert RedfishManagement(conf).get_mac_addresses(node(redfish_emulator.driver_info(RICH))) == [
            "52:54:00:aa:00:02",
            "52:54:00:aa:00:03",
        ]

    def test_inspection_finds_properties_and_nics(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        found = RedfishInspect(conf).inspect_hardware(
            node(redfish_emulator.driver_info(RICH), properties={"capabilities": "secure_boot:true"})
        )
        assert found.properties == {
            "cpus": 32,
            "cpu_arch": "x86_64",
            "memory_mb": 48 * 1024,
            "local_gb": 200,
            "vendor": "Sushy Emulator",
            "capabilities": "secure_boot:true,boot_mode:uefi",
        }
        assert found.mac_addresses == ("52:54:00:aa:00:02", "52:54:00:aa:00:03")

    def test_inspection_leaves_out_what_the_bmc_does_not_know(
        self, conf: cfg.ConfigOpts, redfish_emulator: Emulator
    ) -> None:
        found = RedfishInspect(conf).inspect_hardware(
            node(redfish_emulator.driver_info(PLAIN), properties={"capabilities": "boot_mode:bios"})
        )
        assert found.properties == {"vendor": "Sushy Emulator"}, "the operator's boot mode stays"
        assert found.mac_addresses == ("52:54:00:aa:00:01",)

    def test_bios_settings_are_listed_without_secrets(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        listed = RedfishBios(conf).cache_bios_settings(node(redfish_emulator.driver_info(RICH)))
        assert listed["BootRetries"] == "3"
        assert listed["NumLock"] == "true"
        assert listed["SetupPassword"] == "******"

    def test_bios_settings_take_a_restart_and_are_then_in_force(
        self, conf: cfg.ConfigOpts, redfish_emulator: Emulator
    ) -> None:
        task, bios = node(redfish_emulator.driver_info(RICH)), RedfishBios(conf)
        wanted = [{"name": "NumLock", "value": "false"}, {"name": "BootRetries", "value": "5"}]
        step = {"interface": "bios", "step": "apply_configuration", "args": {"settings": wanted}}
        assert [offered.step for offered in bios.steps("clean")] == ["apply_configuration", "factory_reset"]

        assert bios.execute_step(task, step) is Outcome.DONE
        stored = redfish_emulator.get(f"/redfish/v1/Systems/{RICH}/BIOS")["Attributes"]
        assert (stored["NumLock"], stored["BootRetries"]) == (False, 5), "in the types the BMC keeps"

        commands = redfish_emulator.power_commands()
        bios.execute_step(task, step)
        assert redfish_emulator.power_commands() == commands, "nothing to change, nothing restarted"

        bios.execute_step(task, {"interface": "bios", "step": "factory_reset"})
        assert bios.cache_bios_settings(task)["BootRetries"] == "3"

    def test_an_unknown_bios_setting_changes_nothing(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        task, bios = node(redfish_emulator.driver_info(RICH)), RedfishBios(conf)
        with pytest.raises(errors.DriverDataInvalid, match="no BIOS setting Turbo"):
            bios.apply_configuration(task, [{"name": "Turbo", "value": 1}, {"name": "QuietBoot", "value": "Off"}])
        assert bios.cache_bios_settings(task)["QuietBoot"] == "Enabled"

    def test_a_machine_without_bios_resource_shows_none_and_changes_none(
        self, conf: cfg.ConfigOpts, redfish_emulator: Emulator
    ) -> None:
        task, bios = node(redfish_emulator.driver_info(PLAIN)), RedfishBios(conf)
        assert bios.cache_bios_settings(task) == {}
        with pytest.raises(errors.UnsupportedByDriver):
            bios.apply_configuration(task, [{"name": "NumLock", "value": True}])

    def test_the_lamp_of_a_machine_is_switched(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        management, task = RedfishManagement(conf), node(redfish_emulator.driver_info(RICH))
        assert management.get_supported_indicators(task) == {"system": {"led": Indicator()}}
        for state in ("blinking", "on", "off"):
            management.set_indicator_state(task, "system", "led", state)
            assert management.get_indicator_state(task, "system", "led") == state

    def test_an_nmi_is_injected_where_the_bmc_can(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        RedfishManagement(conf).inject_nmi(node(redfish_emulator.driver_info(RICH)))
        with pytest.raises(errors.UnsupportedByDriver, match="no way to inject an NMI"):
            RedfishManagement(conf).inject_nmi(node(redfish_emulator.driver_info(PLAIN)))

    @pytest.mark.parametrize("auth_type", ["auto", "basic"])
    def test_a_wrong_password_says_what_to_check_and_a_right_one_works_at_once(
        self, conf: cfg.ConfigOpts, redfish_emulator: Emulator, auth_type: str
    ) -> None:
        info = {**redfish_emulator.driver_info(), "redfish_auth_type": auth_type}
        with pytest.raises(errors.DriverFailed, match="refused the login: check redfish_username"):
            RedfishPower(conf).get_power_state(node({**info, "redfish_password": "wrong"}))
        assert RedfishPower(conf).get_power_state(node(info)) is not None

    def test_an_unknown_system_says_what_to_check(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        task = node({**redfish_emulator.driver_info(), "redfish_system_id": "/redfish/v1/Systems/none"})
        with pytest.raises(errors.DriverFailed, match=r"knows no /redfish/v1/Systems/none.*redfish_system_id"):
            RedfishPower(conf).get_power_state(task)

    def test_one_of_several_systems_has_to_be_named(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        info = redfish_emulator.driver_info()
        del info["redfish_system_id"]
        with pytest.raises(errors.DriverDataInvalid, match=f"manages 2 systems.*{PLAIN}"):
            RedfishPower(conf).get_power_state(node(info))

    def test_many_threads_share_a_bmc(self, conf: cfg.ConfigOpts, redfish_emulator: Emulator) -> None:
        power = RedfishPower(conf)
        tasks = [node(redfish_emulator.driver_info(system)) for system in (PLAIN, RICH) * 4]
        with ThreadPoolExecutor(len(tasks)) as pool:
            told = list(pool.map(power.get_power_state, tasks))
        assert len(told) == len(tasks)
        assert None not in told

    def test_no_password_in_logs_and_errors(
        self, conf: cfg.ConfigOpts, redfish_emulator: Emulator, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        task = node(redfish_emulator.driver_info(RICH))
        RedfishPower(conf).get_power_state(task)
        RedfishManagement(conf).set_boot_device(task, "pxe")
        wrong = node({**redfish_emulator.driver_info(), "redfish_password": f"{PASSWORD}-wrong"})
        with pytest.raises(errors.DriverFailed) as refusal:
            RedfishPower(conf).get_power_state(wrong)
        assert caplog.records, "something was logged at all"
        assert PASSWORD not in caplog.text
        assert PASSWORD not in str(refusal.value)
