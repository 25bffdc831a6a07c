"""The ipmi hardware type against OpenIPMI's simulator, and against a scripted ipmitool for odder BMCs."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from holdfast import config, errors
from holdfast.baremetal import states
from holdfast.baremetal.drivers.base import BootDevice
from holdfast.baremetal.drivers.ipmi import tool
from holdfast.baremetal.drivers.ipmi.access import read_access
from holdfast.baremetal.drivers.ipmi.management import IpmitoolManagement
from holdfast.baremetal.drivers.ipmi.power import IpmitoolPower
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.task import Node, Task
from tests.ipmi_bmc import KG_KEY, PASSWORD, Simulator, simulator

# Writes down how it was called, then is ipmitool.
SPY = """#!/bin/sh
{{ echo "argv: $*"; echo "pid argv: $(tr '\\0' ' ' < /proc/$$/cmdline)"; env; }} >> {journal}
exec ipmitool "$@"
"""

# An ipmitool that answers from a file: one line of "exit code|what it prints" for each call.
SCRIPT = """#!/bin/sh
for last; do :; done
echo "$*" | sed 's/.*\\/dev\\/fd\\/[0-9]* //' >> {journal}
line=$(head -n 1 {answers}); sed -i 1d {answers}
code=${{line%%|*}}; text=${{line#*|}}
if [ "$code" = 0 ]; then printf '%b\\n' "$text"; else printf '%b\\n' "$text" >&2; fi
exit "$code"
"""


def configure(**ipmi: Any) -> cfg.ConfigOpts:
    return config.load(environment={}, overrides={("ipmi", name): value for name, value in ipmi.items()})


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    return configure(command_attempts=1)


@pytest.fixture(autouse=True)
def _forget_bmcs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "BMCS", tool.Bmcs())
    monkeypatch.setattr(tool, "RETRY_PAUSE", 0)


def node(driver_info: dict[str, Any], **fields: Any) -> Task:
    return Task(
        Node(id=1, uuid="6f8f5b3e-0000-4000-8000-000000000002", driver="ipmi", driver_info=driver_info, **fields)
    )


class Scripted:
    """A scripted ipmitool: `says` queues answers, `calls` are the commands it was asked to run."""

    def __init__(self, directory: Path) -> None:
        self._answers, self._journal = directory / "answers", directory / "journal"
        self._answers.touch()
        self.program = _executable(directory / "ipmitool", SCRIPT.format(journal=self._journal, answers=self._answers))

    def says(self, *answers: tuple[int, str]) -> None:
        with self._answers.open("a") as queue:
            queue.writelines(f"{code}|{text}\n" for code, text in answers)

    def calls(self) -> list[str]:
        return self._journal.read_text().splitlines() if self._journal.exists() else []


def _executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


class TestWhatDriverInfoMustBe:
    GOOD = {"ipmi_address": "10.0.0.6", "ipmi_username": "admin", "ipmi_password": PASSWORD}

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("ipmi_address", None),
            ("ipmi_address", ""),
            ("ipmi_address", ["10.0.0.6"]),
            ("ipmi_address", "-Hevil"),
            ("ipmi_address", "10.0.0.6; reboot"),
            ("ipmi_port", 0),
            ("ipmi_port", "http"),
            ("ipmi_port", True),
            ("ipmi_username", "x" * 17),
            ("ipmi_password", f"{PASSWORD}-and-far-too-long"),
            ("ipmi_password", "two\nlines"),
            ("ipmi_password", 123456),
            ("ipmi_priv_level", "ROOT"),
            ("ipmi_protocol_version", "3.0"),
            ("ipmi_cipher_suite", 0),
            ("ipmi_cipher_suite", "strong"),
            ("ipmi_hex_kg_key", "abc"),
            ("ipmi_hex_kg_key", "zz" * 20),
            ("ipmi_hex_kg_key", "aa" + "00" + "bb" * 18),
            ("ipmi_bridging", "triple"),
            ("ipmi_force_boot_device", "perhaps"),
            ("ipmi_disable_boot_timeout", "perhaps"),
        ],
    )
    def test_a_bad_value_is_refused_by_the_name_of_its_key(self, conf: cfg.ConfigOpts, key: str, value: Any) -> None:
        with pytest.raises(errors.DriverDataInvalid, match=key) as refusal:
            IpmitoolManagement(conf).validate(node({**self.GOOD, key: value}))
        assert PASSWORD not in refusal.value.public

    @pytest.mark.parametrize(
        ("info", "key"),
        [
            ({"ipmi_protocol_version": "1.5", "ipmi_cipher_suite": 3}, "ipmi_cipher_suite"),
            ({"ipmi_protocol_version": 1.5, "ipmi_hex_kg_key": "ab" * 20}, "ipmi_hex_kg_key"),
            ({"ipmi_protocol_version": "1.5", "ipmi_password": "x" * 17}, "ipmi_password"),
            ({"ipmi_bridging": "single", "ipmi_target_channel": 0}, "ipmi_target_address"),
            (
                {"ipmi_bridging": "dual", "ipmi_target_channel": 0, "ipmi_target_address": "0x72"},
                "ipmi_transit_channel",
            ),
            (
                {"ipmi_bridging": "single", "ipmi_target_channel": "-K", "ipmi_target_address": "0x72"},
                "ipmi_target_channel",
            ),
        ],
    )
    def test_values_that_do_not_go_together_are_refused(
        self, conf: cfg.ConfigOpts, info: dict[str, Any], key: str
    ) -> None:
        with pytest.raises(errors.DriverDataInvalid, match=key):
            IpmitoolPower(conf).validate(node({**self.GOOD, **info}))

    def test_good_values_are_accepted_without_asking_the_hardware(self, conf: cfg.ConfigOpts) -> None:
        for interface in (IpmitoolPower, IpmitoolManagement):
            interface(conf).validate(node(self.GOOD))
            interface(conf).validate(node({"ipmi_address": "fe80::1%eth0", "ipmi_port": "6230"}))

    def test_secrets_are_not_in_the_text_of_the_record(self) -> None:
        text = repr(read_access({**self.GOOD, "ipmi_hex_kg_key": KG_KEY.ljust(20, b"\0").hex()}))
        assert PASSWORD not in text
        assert KG_KEY.decode() not in text

    def test_options_become_ipmitools(self) -> None:
        access = read_access(
            {
                **self.GOOD,
                "ipmi_priv_level": "operator",
                "ipmi_bridging": "dual",
                "ipmi_local_address": "0x20",
                "ipmi_transit_channel": "7",
                "ipmi_transit_address": "0x82",
                "ipmi_target_channel": 0,
                "ipmi_target_address": "0x72",
            }
        )
        words = " ".join(tool._options(access, 17))
        assert "-I lanplus -H 10.0.0.6 -p 623" in words
        assert "-L OPERATOR -U admin -C 17 -m 0x20 -B 7 -T 0x82 -b 0 -t 0x72" in words


def test_the_hardware_type_offers_its_interfaces() -> None:
    drivers = Drivers(configure())
    assert drivers.defaults("ipmi")["power"] == "ipmitool"
    assert drivers.enabled("ipmi", "management") == ["ipmitool", "noop"]
    assert set(drivers.properties("ipmi")) >= {"ipmi_address", "ipmi_password", "ipmi_force_boot_device"}


@pytest.mark.real
class TestOnTheSimulator:
    def test_power_is_switched_and_waited_for(self, conf: cfg.ConfigOpts, ipmi_simulator: Simulator) -> None:
        task, power = node(ipmi_simulator.driver_info()), IpmitoolPower(conf)
        assert power.get_power_state(task) == states.POWER_OFF
        for request, state in (
            (states.POWER_ON, states.POWER_ON),
            (states.POWER_ON, states.POWER_ON),
            (states.SOFT_POWER_OFF, states.POWER_OFF),
            (states.POWER_OFF, states.POWER_OFF),
        ):
            power.set_power_state(task, request)
            assert power.get_power_state(task) == state
        assert ipmi_simulator.commands() == ["power 1", "shutdown 1"], "what is so is not asked for"

    def test_a_reboot_goes_through_off_and_a_soft_one_through_a_shutdown(
        self, conf: cfg.ConfigOpts, ipmi_simulator: Simulator
    ) -> None:
        task, power = node(ipmi_simulator.driver_info()), IpmitoolPower(conf)
        power.reboot(task)
        power.reboot(task)
        power.reboot(task, soft=True)
        assert ipmi_simulator.commands() == ["power 1", "power 0", "power 1", "shutdown 1", "power 1"]

    def test_a_machine_that_ignores_a_shutdown_is_given_up(
        self, conf: cfg.ConfigOpts, ipmi_simulator: Simulator
    ) -> None:
        task, power = node(ipmi_simulator.driver_info()), IpmitoolPower(conf)
        power.set_power_state(task, states.POWER_ON)
        (ipmi_simulator.state / "hangs").touch()
        with pytest.raises(errors.DriverFailed, match=r"not there after 1 seconds.*power it off hard"):
            power.set_power_state(task, states.SOFT_POWER_OFF, timeout=1)
        power.set_power_state(task, states.POWER_OFF)

    @pytest.mark.parametrize("device", ["pxe", "cdrom", "bios"])
    def test_the_boot_device_is_set_and_told(
        self, conf: cfg.ConfigOpts, ipmi_simulator: Simulator, device: str
    ) -> None:
        task, management = node(ipmi_simulator.driver_info()), IpmitoolManagement(conf)
        management.set_boot_device(task, device)
        assert ipmi_simulator.commands() == [f"boot {device}"]
        assert management.get_boot_device(task) == BootDevice(device, False)

    def test_an_nmi_the_bmc_does_not_know_is_unsupported(self, conf: cfg.ConfigOpts, ipmi_simulator: Simulator) -> None:
        with pytest.raises(errors.UnsupportedByDriver, match="does not support that"):
            IpmitoolManagement(conf).inject_nmi(node(ipmi_simulator.driver_info()))

    @pytest.mark.parametrize("info", [{"ipmi_password": "wrong"}, {"ipmi_username": "nobody"}])
    @pytest.mark.parametrize("protocol", ["2.0", "1.5"])
    def test_a_refused_login_says_what_to_check_and_is_not_repeated(
        self, tmp_path: Path, ipmi_simulator: Simulator, info: dict[str, str], protocol: str
    ) -> None:
        journal = tmp_path / "journal"
        spy = configure(ipmitool=_executable(tmp_path / "spy", SPY.format(journal=journal)), command_attempts=3)
        task = node(ipmi_simulator.driver_info(**info, ipmi_protocol_version=protocol, **_suite(protocol)))
        with pytest.raises(errors.DriverFailed, match="refused the login: check ipmi_username and ipmi_password"):
            IpmitoolPower(spy).get_power_state(task)
        assert journal.read_text().count("pid argv:") == 1

    def test_the_older_protocol_works_too(self, conf: cfg.ConfigOpts, ipmi_simulator: Simulator) -> None:
        task = node(ipmi_simulator.driver_info(ipmi_protocol_version="1.5"))
        assert IpmitoolPower(conf).get_power_state(task) == states.POWER_OFF

    def test_a_weaker_cipher_suite_is_used_where_the_bmc_has_no_better_and_remembered(
        self, tmp_path: Path, ipmi_simulator: Simulator
    ) -> None:
        journal = tmp_path / "journal"
        spy = configure(ipmitool=_executable(tmp_path / "spy", SPY.format(journal=journal)), command_attempts=1)
        for _ in range(2):
            assert IpmitoolPower(spy).get_power_state(node(ipmi_simulator.driver_info())) == states.POWER_OFF
        calls = [line for line in journal.read_text().splitlines() if line.startswith("argv:")]
        assert ["-C 17" in call for call in calls] == [True, False, False]
        assert all("-C 3" in call for call in calls[1:])

    def test_a_cipher_suite_the_bmc_lacks_says_what_to_check(
        self, conf: cfg.ConfigOpts, ipmi_simulator: Simulator
    ) -> None:
        with pytest.raises(errors.DriverFailed, match="set ipmi_cipher_suite"):
            IpmitoolPower(conf).get_power_state(node(ipmi_simulator.driver_info(ipmi_cipher_suite=17)))

    def test_a_bmc_with_a_kg_key_is_reached_with_that_key_only(self, conf: cfg.ConfigOpts, tmp_path: Path) -> None:
        key = KG_KEY.ljust(20, b"\0").hex()
        with simulator(tmp_path, KG_KEY) as keyed:
            power = IpmitoolPower(conf)
            assert power.get_power_state(node(keyed.driver_info(ipmi_hex_kg_key=key))) == states.POWER_OFF
            for wrong in ({}, {"ipmi_hex_kg_key": "ab" * 20}):
                with pytest.raises(errors.DriverFailed, match="check ipmi_hex_kg_key"):
                    power.get_power_state(node(keyed.driver_info(**wrong)))

    def test_a_dead_bmc_is_told_as_such(self, ipmi_simulator: Simulator, silent_bmc: int) -> None:
        task = node(ipmi_simulator.driver_info(ipmi_port=silent_bmc, ipmi_cipher_suite=3))
        with pytest.raises(errors.DriverFailed, match="did not finish in time"):
            IpmitoolPower(configure(command_timeout=1, command_attempts=1)).get_power_state(task)

    def test_threads_ask_a_bmc_one_after_the_other(self, conf: cfg.ConfigOpts, ipmi_simulator: Simulator) -> None:
        power, told = IpmitoolPower(conf), []

        def ask() -> None:
            told.append(power.get_power_state(node(ipmi_simulator.driver_info())))

        _together(ask, 6)
        assert told == [states.POWER_OFF] * 6

    def test_no_secret_in_arguments_logs_and_errors(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        caplog.set_level(logging.DEBUG)
        monkeypatch.setenv("HOLDFAST_DATABASE__CONNECTION", "postgresql://u:c4nary-database@h/d")
        journal, bmc = tmp_path / "journal", tmp_path / "bmc"
        bmc.mkdir()
        spy = configure(ipmitool=_executable(tmp_path / "spy", SPY.format(journal=journal)), command_attempts=1)
        with simulator(bmc, KG_KEY) as keyed:
            key = KG_KEY.ljust(20, b"\0").hex()
            task = node(keyed.driver_info(ipmi_hex_kg_key=key))
            IpmitoolPower(spy).set_power_state(task, states.POWER_ON)
            IpmitoolManagement(spy).set_boot_device(task, "pxe")
            with pytest.raises(errors.DriverFailed) as refusal:
                IpmitoolPower(spy).get_power_state(node(keyed.driver_info(ipmi_hex_kg_key=key, ipmi_username="x")))
        seen = journal.read_text()
        arguments = "\n".join(line for line in seen.splitlines() if "argv:" in line)
        assert "chassis power on" in arguments
        assert caplog.records, "something was logged at all"
        for secret in (PASSWORD, KG_KEY.decode(), key):
            assert secret not in arguments
            assert secret not in caplog.text
            assert secret not in str(refusal.value)
        assert PASSWORD not in seen, "nor in the environment"
        assert "c4nary-database" not in seen, "our own environment is not ipmitool's"


class TestOddBmcs:
    INFO = {"ipmi_address": "10.0.0.6", "ipmi_cipher_suite": 3}
    LOST = (1, "Get Auth Capabilities error\\nError: Unable to establish IPMI v2 / RMCP+ session")
    ON, OFF, DONE = (0, "Chassis Power is on"), (0, "Chassis Power is off"), (0, "")

    @pytest.mark.parametrize(
        "passing", ["Unable to establish IPMI v2", "… failed: Node busy", "insufficient resources"]
    )
    def test_what_may_pass_is_tried_again(self, scripted: Scripted, passing: str) -> None:
        scripted.says((1, passing), (1, passing), self.ON)
        conf = configure(ipmitool=scripted.program, command_attempts=3)
        assert IpmitoolPower(conf).get_power_state(node(self.INFO)) == states.POWER_ON

    def test_what_stays_is_told(self, scripted: Scripted) -> None:
        scripted.says(*[self.LOST] * 3, self.ON)
        conf = configure(ipmitool=scripted.program, command_attempts=3)
        with pytest.raises(errors.DriverFailed, match="does not answer: check the BMC, ipmi_address"):
            IpmitoolPower(conf).get_power_state(node(self.INFO))
        assert len(scripted.calls()) == 3

    def test_a_command_whose_answer_was_lost_counts_by_its_effect(self, scripted: Scripted) -> None:
        scripted.says(self.OFF, self.LOST, self.ON)
        conf = configure(ipmitool=scripted.program, command_attempts=1)
        IpmitoolPower(conf).set_power_state(node(self.INFO), states.POWER_ON)
        assert [call.rpartition(" ")[2] for call in scripted.calls()] == ["status", "on", "status"]

    def test_an_nmi_is_never_sent_twice(self, scripted: Scripted) -> None:
        scripted.says(self.LOST, self.DONE)
        conf = configure(ipmitool=scripted.program, command_attempts=3)
        with pytest.raises(errors.DriverFailed):
            IpmitoolManagement(conf).inject_nmi(node(self.INFO))
        assert scripted.calls() == ["chassis power diag"]

    def test_an_nmi_is_sent(self, scripted: Scripted) -> None:
        scripted.says((0, "Chassis Power Control: Diag"))
        IpmitoolManagement(configure(ipmitool=scripted.program)).inject_nmi(node(self.INFO))
        assert scripted.calls() == ["chassis power diag"]

    def test_a_state_the_bmc_cannot_tell_is_unknown(self, scripted: Scripted) -> None:
        scripted.says((0, "Chassis Power is confused"))
        assert IpmitoolPower(configure(ipmitool=scripted.program)).get_power_state(node(self.INFO)) is None

    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            ("8004000000", BootDevice("pxe", False)),
            ("c008000000", BootDevice("disk", True)),
            ("e018000000", BootDevice("bios", True)),
            ("8000000000", BootDevice(None, None)),
            ("802c000000", BootDevice(None, None)),
        ],
    )
    def test_boot_flags_are_understood(self, scripted: Scripted, flags: str, expected: BootDevice) -> None:
        scripted.says((0, f"Boot parameter version: 1\\nBoot parameter data: {flags}\\n Boot Flags :"))
        conf = configure(ipmitool=scripted.program)
        assert IpmitoolManagement(conf).get_boot_device(node(self.INFO)) == expected

    @pytest.mark.parametrize(
        ("fields", "persistent", "commands"),
        [
            ({}, False, ["raw 0x00 0x08 0x03 0x08", "chassis bootdev disk"]),
            ({}, True, ["raw 0x00 0x08 0x03 0x08", "chassis bootdev disk options=persistent"]),
            (
                {"properties": {"capabilities": "boot_mode:uefi"}},
                True,
                ["raw 0x00 0x08 0x03 0x08", "chassis bootdev disk options=persistent,efiboot"],
            ),
            (
                {"driver_info": {**INFO, "ipmi_disable_boot_timeout": "false"}},
                False,
                ["chassis bootdev disk"],
            ),
        ],
    )
    def test_a_boot_device_is_set_with_its_options(
        self, scripted: Scripted, fields: dict[str, Any], persistent: bool, commands: list[str]
    ) -> None:
        scripted.says(self.DONE, self.DONE)
        task = node(**{"driver_info": self.INFO, **fields})
        IpmitoolManagement(configure(ipmitool=scripted.program)).set_boot_device(task, "disk", persistent)
        assert scripted.calls() == commands

    def test_a_bmc_without_the_boot_timer_is_no_obstacle(self, scripted: Scripted) -> None:
        scripted.says((1, "Unable to send RAW command (cmd=0x8 rsp=0xcc): Invalid data field in request"), self.DONE)
        IpmitoolManagement(configure(ipmitool=scripted.program)).set_boot_device(node(self.INFO), "pxe")
        assert scripted.calls()[-1] == "chassis bootdev pxe"

    def test_an_unknown_boot_device_is_refused(self, conf: cfg.ConfigOpts) -> None:
        with pytest.raises(errors.InvalidValue, match="Use one of: pxe, disk"):
            IpmitoolManagement(conf).set_boot_device(node(self.INFO), "wanboot")

    def test_a_forgetful_bmc_is_reminded_of_its_boot_device_at_every_power_on(self, scripted: Scripted) -> None:
        conf = configure(ipmitool=scripted.program)
        task = node({**self.INFO, "ipmi_force_boot_device": True, "ipmi_disable_boot_timeout": False})
        scripted.says(self.DONE, self.OFF, self.DONE, self.DONE, self.ON)
        IpmitoolManagement(conf).set_boot_device(task, "disk", persistent=True)
        IpmitoolPower(conf).set_power_state(task, states.POWER_ON)
        assert scripted.calls().count("chassis bootdev disk options=persistent") == 2
        assert IpmitoolManagement(conf).get_boot_device(task) == BootDevice("disk", True)

        # A device for one start is left alone at that start, and only there.
        scripted.says(self.DONE, self.OFF, self.DONE, self.ON)
        IpmitoolManagement(conf).set_boot_device(task, "pxe", persistent=False)
        IpmitoolPower(conf).set_power_state(task, states.POWER_ON)
        assert scripted.calls()[-3:] == ["chassis power status", "chassis power on", "chassis power status"]
        scripted.says(self.OFF, self.DONE, self.DONE, self.ON)
        IpmitoolPower(conf).set_power_state(task, states.POWER_ON)
        assert scripted.calls().count("chassis bootdev disk options=persistent") == 3

    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            ("RAKP 2 message indicates an error : unauthorized role or privilege level requested", "ipmi_priv_level"),
            ("Set Session Privilege Level to ADMINISTRATOR failed", "ipmi_priv_level"),
            ("Error in open session response message : no matching cipher suite", "ipmi_cipher_suite"),
            ("Address lookup for bmc-1 failed\\nCould not open socket!", "ipmi_address"),
            ("Segmentation fault", "log may explain"),
        ],
    )
    def test_each_failure_says_what_to_check(self, scripted: Scripted, said: str, expected: str) -> None:
        scripted.says((1, said))
        with pytest.raises(errors.DriverFailed, match=expected):
            IpmitoolPower(configure(ipmitool=scripted.program)).get_power_state(node(self.INFO))
        assert len(scripted.calls()) == 1

    def test_a_missing_ipmitool_is_told(self) -> None:
        with pytest.raises(errors.DriverFailed, match="install it"):
            IpmitoolPower(configure(ipmitool="/nowhere/ipmitool")).get_power_state(node(self.INFO))

    def test_one_command_at_a_time(self, tmp_path: Path) -> None:
        busy = tmp_path / "busy"
        program = _executable(
            tmp_path / "ipmitool",
            f"#!/bin/sh\nmkdir {busy} || {{ echo two at once >&2; exit 1; }}\nsleep 0.1\nrmdir {busy}\n"
            "echo Chassis Power is on\n",
        )
        power, told = IpmitoolPower(configure(ipmitool=program)), []
        _together(lambda: told.append(power.get_power_state(node(self.INFO))), 5)
        assert told == [states.POWER_ON] * 5


def _together(work: Callable[[], None], count: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _suite(protocol: str) -> dict[str, int]:
    return {"ipmi_cipher_suite": 3} if protocol == "2.0" else {}


@pytest.fixture
def silent_bmc() -> Iterator[int]:
    """A UDP port that takes everything and never says a word."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]
