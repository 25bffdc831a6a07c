"""What docs/drivers.md promises about rehearsing on fake-hardware, done through the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.sim.machines import Machines
from tests.application import Application


def difficult(api: Application, node: str, **switches: Any) -> None:
    patch = [{"op": "add", "path": f"/driver_info/{name}", "value": value} for name, value in switches.items()]
    api.send("PATCH", f"/v1/nodes/{node}", patch)


def ask(api: Application, node: str, verb: str, **more: Any) -> dict[str, Any]:
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb, **more})
    return api.settle(node)


@pytest.fixture
def fleet(api: Application, tmp_path: Path) -> Machines:
    return Machines(tmp_path / "state" / "fake-hardware.sqlite")


def test_a_deploy_fails_as_told_and_works_once_it_is_not_told_any_more(api: Application, fleet: Machines) -> None:
    [node] = api.enrol(state="available")
    difficult(api, node, fake_fail="deploy.deploy")
    failed = ask(api, node, "active")
    assert failed["provision_state"] == "deploy failed"
    assert "fake_fail" in failed["last_error"]
    assert "install" not in fleet.counts(node)
    api.send("PATCH", f"/v1/nodes/{node}", [{"op": "remove", "path": "/driver_info/fake_fail"}])
    assert ask(api, node, "active")["provision_state"] == "active"
    assert fleet.counts(node)["install"] == 1
    assert fleet.get(node).power_state == "power on"


@pytest.mark.parametrize(
    ("phase", "start", "verb", "more", "waiting", "end"),
    [
        ("deploy", "available", "active", {}, "wait call-back", "active"),
        ("clean", "manageable", "provide", {}, "clean wait", "available"),
        ("rescue", "active", "rescue", {"rescue_password": "x1"}, "rescue wait", "rescue"),
        ("inspect", "manageable", "inspect", {}, "inspect wait", "manageable"),
    ],
)
def test_a_phase_told_to_wait_goes_on_with_the_heartbeat(
    api: Application, phase: str, start: str, verb: str, more: dict[str, Any], waiting: str, end: str
) -> None:
    [node] = api.enrol(state=start)
    difficult(api, node, fake_wait=phase)
    assert ask(api, node, verb, **more)["provision_state"] == waiting
    token = api.send("GET", f"/v1/lookup?node_uuid={node}")["config"]["agent_token"]
    api.send("POST", f"/v1/heartbeat/{node}", {"callback_url": "http://192.0.2.7:9999", "agent_token": token})
    api.settle(node, end)


def test_a_wait_that_is_aborted_waits_anew_the_next_time(api: Application) -> None:
    [node] = api.enrol(state="manageable")
    difficult(api, node, fake_wait="clean")
    assert ask(api, node, "provide")["provision_state"] == "clean wait"
    assert ask(api, node, "abort")["provision_state"] == "clean failed"
    ask(api, node, "manage")
    assert ask(api, node, "provide")["provision_state"] == "clean wait"


def test_a_machine_tells_what_happened_to_it(api: Application) -> None:
    [node] = api.enrol(state="active")
    told = api.send("GET", f"/v1/nodes/{node}/vendor_passthru/effects")
    assert told["machine"]["power_state"] == "power on"
    assert told["counts"]["install"] == told["counts"]["erase"] == 1
