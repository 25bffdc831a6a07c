"""The redfish hardware type and BMCs that are silent, busy, wrong, forgetful or hostile.

A stand-in service plays them: the emulator of `test_redfish.py` is too well-behaved.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal import states
from holdfast.baremetal.drivers.base import BootDevice
from holdfast.baremetal.drivers.redfish import bios as bios_module
from holdfast.baremetal.drivers.redfish.access import read_access
from holdfast.baremetal.drivers.redfish.bios import RedfishBios
from holdfast.baremetal.drivers.redfish.connection import LOGINS, Logins
from holdfast.baremetal.drivers.redfish.inspect import RedfishInspect
from holdfast.baremetal.drivers.redfish.management import RedfishManagement
from holdfast.baremetal.drivers.redfish.power import RedfishPower
from holdfast.baremetal.task import Task
from tests.redfish_bmc import PASSWORD, StandIn, configure, free_port, node, stand_in


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    return configure()


@pytest.fixture(autouse=True)
def _fresh_logins() -> Iterator[None]:
    yield
    LOGINS.close()


def switched(conf: cfg.ConfigOpts, task: Task, state: str) -> None:
    RedfishPower(conf).set_power_state(task, state)


class TestUnreachable:
    def test_a_dead_port_is_told_as_such(self, conf: cfg.ConfigOpts) -> None:
        task = node({"redfish_address": f"http://127.0.0.1:{free_port()}"})
        with pytest.raises(errors.DriverFailed, match="cannot be reached: check redfish_address"):
            RedfishPower(conf).get_power_state(task)

    def test_a_bmc_that_never_answers_is_given_up(self, silent_port: int) -> None:
        task = node({"redfish_address": f"http://127.0.0.1:{silent_port}"})
        with pytest.raises(errors.DriverFailed, match="did not answer within 1 seconds"):
            RedfishPower(configure(connection_timeout=1)).get_power_state(task)

    def test_callers_do_not_queue_for_ever_behind_one_that_hangs(self, silent_port: int) -> None:
        slow, task = (
            RedfishPower(configure(connection_timeout=1)),
            node({"redfish_address": f"http://127.0.0.1:{silent_port}"}),
        )
        failures: list[str] = []

        def ask() -> None:
            with pytest.raises(errors.DriverFailed) as failure:
                slow.get_power_state(task)
            failures.append(failure.value.public)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(failures) == 4
        assert any("busy answering others" in failure for failure in failures)


class TestLogin:
    def test_one_login_serves_all_interfaces(self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn) -> None:
        task = node(redfish_stand_in.driver_info())
        RedfishPower(conf).get_power_state(task)
        RedfishManagement(conf).get_boot_device(task)
        RedfishPower(conf).get_power_state(node(redfish_stand_in.driver_info(redfish_system_id=StandIn.SYSTEM)))
        assert redfish_stand_in.count("POST", StandIn.SESSIONS) == 1

    def test_an_expired_session_is_renewed_unnoticed(self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn) -> None:
        task = node(redfish_stand_in.driver_info())
        RedfishPower(conf).get_power_state(task)
        redfish_stand_in.tokens.clear()
        assert RedfishPower(conf).get_power_state(task) == states.POWER_OFF
        assert redfish_stand_in.count("POST", StandIn.SESSIONS) == 2

    def test_a_renewal_that_fails_once_is_tried_from_the_start(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn
    ) -> None:
        task = node(redfish_stand_in.driver_info(redfish_auth_type="session"))
        RedfishPower(conf).get_power_state(task)
        redfish_stand_in.tokens.clear()
        redfish_stand_in.mishaps["POST", StandIn.SESSIONS] = [(401, {"error": {}})]
        assert RedfishPower(conf).get_power_state(task) == states.POWER_OFF

    def test_another_password_is_another_login(self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn) -> None:
        RedfishPower(conf).get_power_state(node(redfish_stand_in.driver_info()))
        with pytest.raises(errors.DriverFailed, match="refused the login"):
            RedfishPower(conf).get_power_state(node(redfish_stand_in.driver_info(redfish_password="other")))

    def test_sessions_are_ended_on_the_bmc(self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn) -> None:
        RedfishPower(conf).get_power_state(node(redfish_stand_in.driver_info()))
        assert redfish_stand_in.tokens
        LOGINS.close()
        assert not redfish_stand_in.tokens

    def test_the_number_of_logins_kept_is_bounded(self, conf: cfg.ConfigOpts) -> None:
        logins = Logins(most=2)
        one, two, three = (read_access(conf, {"redfish_address": f"https://10.0.0.{n}"}) for n in (1, 2, 3))
        kept = logins.of(two)
        first = logins.of(one)
        assert logins.of(two) is kept
        logins.of(three)
        assert logins.of(two) is kept
        assert logins.of(one) is not first

    def test_no_login_is_made_up_for_a_service_that_asks_for_none(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn
    ) -> None:
        with pytest.raises(errors.DriverFailed, match="refused the login"):
            RedfishPower(conf).get_power_state(node({"redfish_address": redfish_stand_in.url}))
        assert redfish_stand_in.count("POST", StandIn.SESSIONS) == 0

    def test_a_password_the_bmc_quotes_back_is_not_logged(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        quoting = {
            "error": {
                "code": "Base.1.8.GeneralError",
                "message": f"The value {PASSWORD} for Password is too long.",
                "@Message.ExtendedInfo": [{"MessageArgs": [PASSWORD, "Password"], "Severity": "Warning"}],
            }
        }
        redfish_stand_in.mishaps["POST", StandIn.SESSIONS] = [(400, quoting), (401, quoting)]
        redfish_stand_in.mishaps["GET", "/redfish/v1/Systems"] = [(401, quoting), (401, quoting)]
        for auth_type in ("session", "auto"):
            task = node(redfish_stand_in.driver_info(redfish_auth_type=auth_type))
            with pytest.raises(errors.DriverFailed) as refusal:
                RedfishPower(conf).get_power_state(task)
            assert PASSWORD not in str(refusal.value)
        assert "for Password is too long" in caplog.text
        assert PASSWORD not in caplog.text


class TestOddBmcs:
    RESET = f"{StandIn.SYSTEM}/Reset"

    def test_trouble_inside_the_bmc_is_asked_again(self, redfish_stand_in: StandIn) -> None:
        # sushy asks twice by itself
        redfish_stand_in.mishaps["GET", StandIn.SYSTEM] = [(503, {})] * 4
        task = node(redfish_stand_in.driver_info())
        assert RedfishPower(configure(connection_attempts=3)).get_power_state(task) == states.POWER_OFF

    def test_trouble_that_stays_is_told(self, redfish_stand_in: StandIn) -> None:
        redfish_stand_in.mishaps["GET", StandIn.SYSTEM] = [(503, {})] * 20
        with pytest.raises(errors.DriverFailed, match=r"failed to tell its power state \(HTTP 503\)"):
            RedfishPower(configure(connection_attempts=2)).get_power_state(node(redfish_stand_in.driver_info()))

    def test_a_command_whose_answer_was_lost_counts_by_its_effect(
        self, redfish_stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        obey = redfish_stand_in.answer

        def obey_silently(method: str, path: str, body: Any, token: str | None) -> Any:
            answer = obey(method, path, body, token)
            return (500, {"error": {}}, {}) if path == self.RESET else answer

        monkeypatch.setattr(redfish_stand_in, "answer", obey_silently)
        switched(configure(connection_attempts=3), node(redfish_stand_in.driver_info()), states.POWER_ON)
        assert redfish_stand_in.count("POST", self.RESET) == 1

    def test_a_refused_command_is_told_without_the_bmcs_own_words(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn
    ) -> None:
        redfish_stand_in.mishaps["POST", self.RESET] = [(409, {"error": {"message": "internal words"}})]
        with pytest.raises(errors.DriverFailed, match=r"refused to change the power state.*HTTP 409") as refusal:
            switched(conf, node(redfish_stand_in.driver_info()), states.POWER_ON)
        assert "internal words" not in str(refusal.value)

    def test_a_machine_that_does_not_change_is_given_up(self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn) -> None:
        redfish_stand_in.system["PowerState"] = "On"
        redfish_stand_in.on_reset["GracefulShutdown"] = "On"
        with pytest.raises(errors.DriverFailed, match=r"not there after 1 seconds.*power it off hard"):
            RedfishPower(conf).set_power_state(node(redfish_stand_in.driver_info()), states.SOFT_POWER_OFF, timeout=1)

    def test_a_machine_on_its_way_down_is_switched_on_only_when_it_has_arrived(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        power, task = RedfishPower(conf), node(redfish_stand_in.driver_info())
        redfish_stand_in.system["PowerState"] = "PoweringOff"
        assert power.get_power_state(task) == states.POWER_ON, "not off yet"

        obey = redfish_stand_in.answer

        def arrive(method: str, path: str, body: Any, token: str | None) -> Any:
            if method == "GET" and redfish_stand_in.count("GET", StandIn.SYSTEM) >= 3:
                if redfish_stand_in.system["PowerState"] == "PoweringOff":
                    redfish_stand_in.system["PowerState"] = "Off"
            elif path == self.RESET:
                assert redfish_stand_in.system["PowerState"] == "Off"
            return obey(method, path, body, token)

        monkeypatch.setattr(redfish_stand_in, "answer", arrive)
        power.set_power_state(task, states.POWER_ON)
        assert redfish_stand_in.count("POST", self.RESET) == 1

    def test_a_shutdown_that_hangs_is_ended_by_a_hard_one(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn
    ) -> None:
        redfish_stand_in.system["PowerState"] = "PoweringOff"
        switched(conf, node(redfish_stand_in.driver_info()), states.POWER_OFF)
        assert ("POST", self.RESET, {"ResetType": "ForceOff"}) in redfish_stand_in.received

    def test_what_the_bmc_does_not_offer_is_unsupported(self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn) -> None:
        task = node(redfish_stand_in.driver_info())
        redfish_stand_in.system["PowerState"] = "On"
        offered = redfish_stand_in.system["Actions"]["#ComputerSystem.Reset"]
        offered["ResetType@Redfish.AllowableValues"] = ["ForceOn", "ForceOff"]
        with pytest.raises(errors.UnsupportedByDriver):
            switched(conf, task, states.SOFT_POWER_OFF)
        with pytest.raises(errors.UnsupportedByDriver):
            RedfishManagement(conf).inject_nmi(task)
        with pytest.raises(errors.UnsupportedByDriver):
            RedfishManagement(conf).get_mac_addresses(task)

        redfish_stand_in.on_reset["ForceOn"] = "On"
        RedfishPower(conf).reboot(task)
        assert ("POST", self.RESET, {"ResetType": "ForceOn"}) in redfish_stand_in.received

    def test_an_nmi_is_never_sent_twice(self, redfish_stand_in: StandIn) -> None:
        offered = redfish_stand_in.system["Actions"]["#ComputerSystem.Reset"]
        offered["ResetType@Redfish.AllowableValues"] = ["Nmi"]
        redfish_stand_in.mishaps["POST", self.RESET] = [(500, {"error": {}})] * 3
        with pytest.raises(errors.DriverFailed):
            RedfishManagement(configure(connection_attempts=3)).inject_nmi(node(redfish_stand_in.driver_info()))
        assert redfish_stand_in.count("POST", self.RESET) == 1

    def test_a_boot_device_for_once_or_for_good_and_not_told_twice(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn
    ) -> None:
        management, task = RedfishManagement(conf), node(redfish_stand_in.driver_info())
        assert management.get_boot_device(task) == BootDevice(None, None)
        for persistent, word in ((False, "Once"), (True, "Continuous")):
            management.set_boot_device(task, "pxe", persistent)
            management.set_boot_device(task, "pxe", persistent)
            told = [body for method, _path, body in redfish_stand_in.received if method == "PATCH"]
            assert told[-1] == {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": word}}
            assert management.get_boot_device(task) == BootDevice("pxe", persistent)
        assert redfish_stand_in.count("PATCH", StandIn.SYSTEM) == 2

    def test_only_enabled_nics_are_inspected(self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn) -> None:
        nics = f"{StandIn.SYSTEM}/EthernetInterfaces"
        redfish_stand_in.system["EthernetInterfaces"] = {"@odata.id": nics}
        members: dict[str, dict[str, Any]] = {
            "1": {"MACAddress": "02:00:00:00:00:01", "Status": {"State": "Enabled", "Health": "OK"}},
            "2": {"MACAddress": "02:00:00:00:00:02", "Status": {"State": "Disabled"}},
            "3": {"PermanentMACAddress": "02:00:00:00:00:03"},
            "4": {"MACAddress": "not an address"},
        }
        redfish_stand_in.documents[nics] = {
            "Name": "NICs",
            "Members": [{"@odata.id": f"{nics}/{n}"} for n in members],
        }
        redfish_stand_in.documents |= {f"{nics}/{n}": {"Id": n, **nic} for n, nic in members.items()}
        task = node(redfish_stand_in.driver_info())
        assert RedfishInspect(conf).inspect_hardware(task).mac_addresses == (
            "02:00:00:00:00:01",
            "02:00:00:00:00:03",
        )
        assert len(RedfishManagement(conf).get_mac_addresses(task)) == 3

    def test_a_link_to_another_host_is_not_followed(self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn) -> None:
        with stand_in() as thief:
            action = redfish_stand_in.system["Actions"]["#ComputerSystem.Reset"]
            action["target"] = f"{thief.url}{self.RESET}"
            with pytest.raises(errors.DriverFailed, match="refers its callers to another address"):
                switched(conf, node(redfish_stand_in.driver_info()), states.POWER_ON)
            assert thief.received == []

    @pytest.mark.parametrize("document", [{}, [], "hello", None, {"Id": 1, "Systems": []}])
    def test_something_else_than_redfish_is_not_understood(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn, document: Any
    ) -> None:
        redfish_stand_in.documents["/redfish/v1/"] = document
        with pytest.raises(errors.DriverFailed, match=r"cannot be understood.*Check redfish_address"):
            RedfishPower(conf).get_power_state(node(redfish_stand_in.driver_info()))

    def test_bios_settings_that_are_never_taken_in_are_told(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bios_module, "START_TIMEOUT", 0)
        bios, pending = f"{StandIn.SYSTEM}/Bios", f"{StandIn.SYSTEM}/Bios/Settings"
        redfish_stand_in.system["Bios"] = {"@odata.id": bios}
        redfish_stand_in.documents[bios] = {
            "Id": "Bios",
            "Attributes": {"NumLock": "On"},
            "@Redfish.Settings": {"SettingsObject": {"@odata.id": pending}},
        }
        # The change waits there already, from an attempt whose answer was lost.
        redfish_stand_in.documents[pending] = {"Id": "Settings", "Attributes": {"NumLock": "Off"}}
        with pytest.raises(errors.DriverFailed, match="not taken in its BIOS settings NumLock"):
            RedfishBios(conf).apply_configuration(
                node(redfish_stand_in.driver_info()), [{"name": "NumLock", "value": "Off"}]
            )
        assert redfish_stand_in.count("PATCH", pending) == 0
        assert redfish_stand_in.count("POST", self.RESET) == 1, "it was off: one start"

    @pytest.mark.parametrize("settings", [None, "NumLock", [{"name": "NumLock"}], [7]])
    def test_malformed_bios_arguments_are_refused(
        self, conf: cfg.ConfigOpts, redfish_stand_in: StandIn, settings: Any
    ) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="a list of objects with `name` and `value`"):
            RedfishBios(conf).apply_configuration(node(redfish_stand_in.driver_info()), settings)


def test_a_request_that_is_no_state_is_refused(conf: cfg.ConfigOpts) -> None:
    with pytest.raises(errors.UnsupportedByDriver):
        switched(conf, node({"redfish_address": "https://10.0.0.5"}), states.REBOOT)
