"""Deploying, cleaning, inspecting and rescuing through an agent: a simulated one that speaks real HTTP."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors
from holdfast.baremetal.drivers.fake.power import FakePower
from holdfast.baremetal.task import Task
from holdfast.sim.agent import Agent, Faults
from tests.application import Application, running
from tests.ramdisk import Ramdisk, make_certificate

IMAGE = b"not much of an operating system".ljust(4096, b".")
AGENT = {"deploy_interface": "direct", "inspect_interface": "agent", "rescue_interface": "agent"}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    where = tmp_path_factory.mktemp("agent")
    (where / "images").mkdir()
    (where / "images" / "disk.raw").write_bytes(IMAGE)
    (where / "secret").write_text("not an image")
    with running(
        where / "state",
        agent__callback_networks=["127.0.0.0/8"],
        agent__image_roots=[str(where / "images")],
        agent__power_off_wait=0,
        agent__command_timeout=5,
        agent__command_attempts=2,
        flows__step_attempts=1,
    ) as application:
        application.images = where / "images"  # type: ignore[attr-defined]
        yield application


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent() as running_agent:
        yield running_agent


def instance(house: Application, **more: Any) -> dict[str, Any]:
    images: Path = house.images  # type: ignore[attr-defined]
    return {
        "image_source": f"file://{images / 'disk.raw'}",
        "image_checksum": hashlib.sha256(IMAGE).hexdigest(),
        **more,
    }


def until(true: Callable[[], Any], seconds: float = 30) -> Any:
    """What it returns, once that is something."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


def deploying(house: Application, **info: Any) -> str:
    """A node whose machine boots the deployment ramdisk."""
    (node,) = house.enrol(state="manageable", **AGENT, automated_clean=False, instance_info=instance(house, **info))
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "provide"})
    house.settle(node, "available")
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    house.settle(node, "wait call-back")
    return node


def cleaning(house: Application, *steps: dict[str, Any]) -> str:
    (node,) = house.enrol(state="manageable", **AGENT)
    request = {"target": "clean", "clean_steps": list(steps)} if steps else {"target": "provide"}
    house.send("PUT", f"/v1/nodes/{node}/states/provision", request)
    house.settle(node, "clean wait")
    return node


def test_a_deploy_writes_the_image_and_boots_it(house: Application, agent: Agent) -> None:
    node = deploying(house, configdrive="Y2FuYXJ5")
    assert house.send("GET", f"/v1/nodes/{node}")["power_state"] == "power on"
    Ramdisk(house.send, node, agent).boot()
    settled = house.settle(node, "active")
    (image,) = agent.machine.images
    assert image["os_hash_value"] == hashlib.sha256(IMAGE).hexdigest()
    assert (image["os_hash_algo"], image["disk_format"]) == ("sha256", "raw")
    assert agent.machine.configdrives == ["Y2FuYXJ5"]
    assert agent.machine.is_off
    assert settled["power_state"] == "power on"
    info = settled["driver_internal_info"]
    marks = ["power_on", "lookup", "heartbeat", "image_started", "image_written", "powered_off", "rebooted"]
    assert list(info["boot_progress"]) == marks
    assert not {"agent_url", "agent_secret_token", "agent_commands_done"} & set(info)


def test_a_flow_tells_what_it_waits_for_and_how_far_the_boot_came(house: Application, agent: Agent) -> None:
    agent.seconds = 60
    node = deploying(house)
    Ramdisk(house.send, node, agent).boot()
    until(lambda: agent.commands and house.settle(node, "wait call-back")["deploy_step"]["step"] == "write_image")
    flows = json.loads(house.call("GET", f"/flows?subject={node}").content)["flows"]
    newest = next(flow["id"] for flow in flows if flow["kind"] == "continue_deploy")
    steps = json.loads(house.call("GET", f"/flows/{newest}").content)["steps"]
    (note,) = [step["note"] for step in steps if step["note"]]
    assert note == (
        "Waits for the ramdisk in deploy.write_image. Its boot has reached: power_on, lookup, heartbeat, image_started."
    )
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    house.settle(node)


def test_an_image_of_ours_is_fetched_with_the_url_the_agent_got_and_no_other(house: Application, agent: Agent) -> None:
    agent.seconds = 60
    node = deploying(house)
    Ramdisk(house.send, node, agent).boot()
    (begun,) = until(lambda: [b for p, b in agent.received if b and b["name"] == "deploy.execute_deploy_step"])
    house.settle(node, "wait call-back")
    path = begun["params"]["step"]["args"]["image_info"]["urls"][0].partition("/images/")[2]
    assert house.call("GET", f"/images/{path}").content == IMAGE
    assert house.call("GET", f"/images/{path[:-4]}junk").status == 404
    assert house.call("GET", f"/images/{node}/None").status == 404
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    house.settle(node)
    assert house.call("GET", f"/images/{path}").status == 404


def test_a_deploy_runs_further_steps_of_the_ramdisk_where_asked_for(house: Application, agent: Agent) -> None:
    (node,) = house.enrol(state="manageable", **AGENT, automated_clean=False, instance_info=instance(house))
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "provide"})
    house.settle(node, "available")
    steps = [
        {"interface": "deploy", "step": "burn_in", "args": {}, "priority": 150},
        {"interface": "raid", "step": "polish", "args": {"shine": 1}, "priority": 70},
    ]
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active", "deploy_steps": steps})
    house.settle(node, "wait call-back")
    Ramdisk(house.send, node, agent).boot()
    house.settle(node, "active")
    assert agent.machine.steps == ["burn_in", "write_image", "polish"]


def test_a_step_of_the_ramdisk_cannot_come_after_it_is_gone(house: Application, agent: Agent) -> None:
    (node,) = house.enrol(state="manageable", **AGENT, automated_clean=False, instance_info=instance(house))
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "provide"})
    house.settle(node, "available")
    late = {"interface": "deploy", "step": "burn_in", "args": {}, "priority": 10}
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active", "deploy_steps": [late]})
    house.settle(node, "wait call-back")
    Ramdisk(house.send, node, agent).boot()
    assert "tear_down_agent" in house.settle(node, "deploy failed")["last_error"]


def test_uefi_machines_get_an_entry_for_what_was_written(house: Application, agent: Agent) -> None:
    (node,) = house.enrol(
        state="manageable",
        **AGENT,
        automated_clean=False,
        properties={"capabilities": "boot_mode:uefi"},
        instance_info=instance(house),
    )
    for verb, state in (("provide", "available"), ("active", "wait call-back")):
        house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb})
        house.settle(node, state)
    Ramdisk(house.send, node, agent).boot()
    house.settle(node, "active")
    assert agent.machine.bootloaders == 1


def test_what_the_agent_says_went_wrong_is_told(house: Application, agent: Agent) -> None:
    agent.faults = Faults(failing={"write_image": "ImageChecksumError: the checksums differ, password=hush"})
    node = deploying(house)
    Ramdisk(house.send, node, agent).boot()
    settled = house.settle(node, "deploy failed")
    assert "failed at deploy step deploy.write_image" in settled["last_error"]
    assert "the checksums differ" in settled["last_error"]
    assert "hush" not in settled["last_error"]
    assert settled["power_state"] == "power off"


def test_a_command_whose_answer_is_lost_is_not_sent_twice(house: Application, agent: Agent) -> None:
    agent.faults = Faults(lost_answers=1)
    node = deploying(house)
    Ramdisk(house.send, node, agent).boot()
    house.settle(node, "active")
    assert agent.machine.steps == ["write_image"]


@pytest.mark.parametrize("faults", [Faults(garbage=True), Faults(redirect_to="http://127.0.0.1:1/v1/commands/")])
def test_an_agent_that_answers_nonsense_fails_the_deploy(house: Application, agent: Agent, faults: Faults) -> None:
    agent.faults = faults
    node = deploying(house)
    Ramdisk(house.send, node, agent).boot()
    assert "The ramdisk of node" in house.settle(node, "deploy failed")["last_error"]


def test_the_agent_sees_no_secret_and_logs_see_no_token(
    house: Application, agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (node,) = house.enrol(
        state="manageable", **AGENT, driver_info={"redfish_password": "canary-bmc", "agent_hint": "kept"}
    )
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "provide"})
    house.settle(node, "clean wait")
    ramdisk = Ramdisk(house.send, node, agent)
    ramdisk.boot()
    house.settle(node, "available")
    (asked, *_) = [b for p, b in agent.received if b and b["name"] == "clean.get_clean_steps"]
    assert asked["params"]["node"]["driver_info"] == {"agent_hint": "kept"}
    assert "canary" not in str(agent.received)
    if agent.token:
        assert agent.token not in caplog.text


def test_cleaning_runs_the_steps_of_the_ramdisk_highest_priority_first(house: Application, agent: Agent) -> None:
    node = cleaning(house)
    Ramdisk(house.send, node, agent).boot()
    settled = house.settle(node, "available")
    assert agent.machine.steps == ["erase_devices_metadata", "erase_devices"]
    assert settled["power_state"] == "power off"
    assert "agent_url" not in settled["driver_internal_info"]


def test_cleaning_by_hand_runs_what_was_asked_for(house: Application, agent: Agent) -> None:
    node = cleaning(house, {"interface": "deploy", "step": "check_disks"})
    Ramdisk(house.send, node, agent).boot()
    house.settle(node, "manageable")
    assert agent.machine.steps == ["check_disks"]


def test_a_step_the_ramdisk_does_not_have_fails_with_those_it_has(house: Application, agent: Agent) -> None:
    node = cleaning(house, {"interface": "deploy", "step": "polish"})
    Ramdisk(house.send, node, agent).boot()
    assert "check_disks" in house.settle(node, "clean failed")["last_error"]


def test_a_step_that_needs_a_restart_gets_one_before_the_next(house: Application, agent: Agent) -> None:
    flash = {"interface": "management", "step": "flash_firmware"}
    node = cleaning(house, flash, {"interface": "deploy", "step": "check_disks"})
    ramdisk = Ramdisk(house.send, node, agent)
    agent.done = lambda: None
    ramdisk.boot()
    until(lambda: agent.machine.steps)
    house.settle(node, "clean wait")
    ramdisk.beat()
    until(lambda: "agent_url" not in house.settle(node, "clean wait")["driver_internal_info"])
    agent.done = ramdisk.call
    ramdisk.boot()
    house.settle(node, "manageable")
    assert agent.machine.steps == ["flash_firmware", "check_disks"]


def test_inspection_takes_the_report_and_switches_the_machine_off(house: Application) -> None:
    (node,) = house.enrol(state="manageable", **AGENT)
    mac = "52:54:00:99:00:01"
    house.send("POST", "/v1/ports", {"node_uuid": node, "address": mac})
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "inspect"})
    house.settle(node, "inspect wait")
    report = {
        "inventory": {
            "interfaces": [{"mac_address": mac.upper()}, {"mac_address": "52:54:00:99:00:02"}, {"name": "lo"}],
            "cpu": {"count": 8, "architecture": "amd64", "flags": ["aes", "vmx"]},
            "memory": {"physical_mb": 16384},
            "boot": {"current_boot_mode": "uefi"},
            "system_vendor": {"manufacturer": "Acme"},
            "iscsi_initiator": "iqn.2026-01.org.example:agent",
        },
        "root_disk": {"name": "/dev/sda", "size": 100 * 1024**3},
        "logs": "x" * 1000,
    }
    answer = house.request("POST", "/v1/continue_inspection", report, version=None)
    assert (answer.status, answer.json) == (202, {"uuid": node})
    settled = house.settle(node, "manageable")
    assert settled["last_error"] is None
    shown = settled["properties"]
    assert {k: shown[k] for k in ("cpus", "cpu_arch", "memory_mb", "local_gb", "vendor")} == {
        "cpus": 8,
        "cpu_arch": "x86_64",
        "memory_mb": 16384,
        "local_gb": 99,
        "vendor": "Acme",
    }
    assert "boot_mode:uefi" in shown["capabilities"]
    ports = house.send("GET", f"/v1/nodes/{node}/ports")["ports"]
    assert {port["address"] for port in ports} == {mac, "52:54:00:99:00:02"}
    assert settled["power_state"] == "power off"
    again = house.request("POST", "/v1/continue_inspection", report, version=None)
    assert again.status == 404


def test_a_report_is_taken_only_for_a_node_that_waits_for_one(house: Application) -> None:
    (node,) = house.enrol(state="manageable", **AGENT)
    house.send("POST", "/v1/ports", {"node_uuid": node, "address": "52:54:00:99:00:11"})
    idle = {"inventory": {"interfaces": [{"mac_address": "52:54:00:99:00:11"}]}}
    unknown = {"inventory": {"interfaces": [{"mac_address": "52:54:00:99:ff:ff"}]}}
    answers = [house.request("POST", "/v1/continue_inspection", report, version=None) for report in (idle, unknown)]
    assert [answer.status for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert house.request("POST", "/v1/continue_inspection", idle, version="1.50").status == 404
    for junk in ({}, {"inventory": []}, {"inventory": {"interfaces": [1]}}):
        assert house.request("POST", "/v1/continue_inspection", junk, version=None).status == 400


def test_a_rescue_password_leaves_hashed_and_over_tls_only(house: Application, tmp_path: Path) -> None:
    (node,) = house.enrol(state="active", deploy_interface="fake", rescue_interface="agent")
    request = {"target": "rescue", "rescue_password": "canary"}
    certificate = make_certificate(tmp_path)
    house.send("PUT", f"/v1/nodes/{node}/states/provision", request)
    house.settle(node, "rescue wait")
    with Agent() as plain:
        Ramdisk(house.send, node, plain).boot()
        assert "not told a password" in house.settle(node, "rescue failed")["last_error"]
        assert plain.machine.rescue_password is None
    house.send("PUT", f"/v1/nodes/{node}/states/provision", request)
    house.settle(node, "rescue wait")
    with Agent(certificate=certificate) as private:
        Ramdisk(house.send, node, private, Path(certificate[0]).read_text()).boot()
        house.settle(node, "rescue")
        assert (private.machine.rescue_password or "").startswith("$6$")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"image_source": None}, "image_source is missing"),
        ({"image_source": "file:///etc/shadow"}, "image_roots"),
        ({"image_source": "ftp://images/x"}, "http://, https:// or file://"),
        ({"image_checksum": None}, "no checksum"),
        ({"image_checksum": "0" * 32}, "SHA-256"),
        ({"image_type": "partition"}, "whole-disk"),
        ({"image_disk_format": "vmdk"}, "image_disk_format"),
    ],
)
def test_an_image_that_cannot_be_written_is_refused_beforehand(
    house: Application, change: dict[str, Any], words: str
) -> None:
    info = {key: value for key, value in {**instance(house), **change}.items() if value is not None}
    (node,) = house.enrol(**AGENT, instance_info=info)
    result = house.send("GET", f"/v1/nodes/{node}/validate")["deploy"]
    assert result["result"] is False
    assert words in result["reason"]


def netbooted(house: Application, mac: str, **fields: Any) -> str:
    info = {"deploy_kernel": "http://images/agent.kernel", "deploy_ramdisk": "http://images/agent.ramdisk"}
    (node,) = house.enrol(boot_interface="ipxe", automated_clean=False, driver_info=info, **fields)
    house.send("POST", "/v1/ports", {"node_uuid": node, "address": mac})
    for verb, state in (("manage", "manageable"), ("provide", "available")):
        house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb})
        house.settle(node, state)
    return node


def test_a_machine_that_boots_over_the_network_is_told_where_to_ask(house: Application, agent: Agent) -> None:
    mac = "52:54:00:99:01:01"
    node = netbooted(house, mac, **AGENT, instance_info=instance(house))
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    house.settle(node, "wait call-back")
    assert house.call("POST", f"/boot/dhcp/{mac}").status == 204
    script = house.call("GET", f"/boot/ipxe/{mac.replace(':', '-')}").content.decode()
    assert "http://images/agent.kernel" in script
    assert "ipa-api-url=http://127.0.0.1:6385/baremetal" in script
    progress = house.send("GET", f"/v1/nodes/{node}")["driver_internal_info"]["boot_progress"]
    assert list(progress) == ["power_on", "dhcp", "script_fetched"]
    Ramdisk(house.send, node, agent).boot()
    house.settle(node, "active")
    assert house.call("GET", f"/boot/ipxe/{mac.replace(':', '-')}").status == 404


def test_a_machine_that_does_not_start_again_after_its_image_fails_with_those_words(
    house: Application, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = deploying(house)
    change = FakePower.set_power_state

    def stays_off(self: FakePower, task: Task, power_state: str, timeout: int | None = None) -> None:
        if task.node.uuid == node and power_state == "power on":
            raise errors.DriverFailed("The BMC says no.")
        change(self, task, power_state, timeout)

    monkeypatch.setattr(FakePower, "set_power_state", stays_off)
    Ramdisk(house.send, node, agent).boot()
    failed = house.settle(node, "deploy failed")
    assert (
        "The image was written, but the machine could not be started from it. The BMC says no."
        in (failed["last_error"])
    )
    assert "rebooted" not in failed["driver_internal_info"]["boot_progress"]


def test_an_instance_may_itself_be_a_ramdisk(house: Application) -> None:
    mac = "52:54:00:99:01:02"
    info = {"kernel": "http://images/live.kernel", "ramdisk": "http://images/live.ramdisk"}
    node = netbooted(house, mac, deploy_interface="ramdisk", instance_info=info)
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    assert house.settle(node, "active")["power_state"] == "power on"
    for _boot in range(2):
        assert "http://images/live.ramdisk" in house.call("GET", f"/boot/ipxe/{mac.replace(':', '-')}").content.decode()


@pytest.mark.parametrize(
    ("verb", "wait", "failed"),
    [("provide", "clean wait", "clean failed"), ("inspect", "inspect wait", "inspect failed")],
)
def test_an_aborted_wait_switches_the_machine_off(house: Application, verb: str, wait: str, failed: str) -> None:
    (node,) = house.enrol(state="manageable", **AGENT)
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb})
    assert house.settle(node, wait)["power_state"] == "power on"
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "abort"})
    assert house.settle(node, failed)["power_state"] == "power off"


def test_a_deploy_that_is_given_up_leaves_a_machine_that_is_off(house: Application, agent: Agent) -> None:
    agent.seconds = 60
    node = deploying(house)
    Ramdisk(house.send, node, agent).boot()
    until(lambda: agent.commands)
    house.settle(node, "wait call-back")
    house.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    settled = until(lambda: (shown := house.settle(node)) and shown["provision_state"] == "available" and shown)
    assert settled["power_state"] == "power off"
    assert not {"agent_url", "agent_secret_token", "boot_progress", "image_secret"} & set(
        settled["driver_internal_info"]
    )
