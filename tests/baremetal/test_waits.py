"""Waiting for a ramdisk: the heartbeat goes on with the work, silence ends it, an operator may abort it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from holdfast.baremetal import upkeep
from holdfast.db.engine import ago
from holdfast.db.tables import nodes
from tests.application import Application

BEAT = {"callback_url": "http://192.0.2.7:9999", "agent_version": "13.0.0"}

# phase: the state a node is brought to first, what is asked for, where it waits, where it fails, where it ends
PHASES: dict[str, tuple[str, dict[str, Any], str, str, str]] = {
    "clean": ("manageable", {"target": "provide"}, "clean wait", "clean failed", "available"),
    "deploy": ("available", {"target": "active"}, "wait call-back", "deploy failed", "active"),
    "inspect": ("manageable", {"target": "inspect"}, "inspect wait", "inspect failed", "manageable"),
    "rescue": ("active", {"target": "rescue", "rescue_password": "pw"}, "rescue wait", "rescue failed", "rescue"),
}


def waiting(api: Application, phase: str) -> str:
    """A node that waits for its ramdisk in that phase."""
    start, request, wait, _failed, _end = PHASES[phase]
    (node,) = api.enrol(state=start)
    api.send("PATCH", f"/v1/nodes/{node}", [{"op": "add", "path": "/driver_info/fake_wait", "value": [phase]}])
    api.send("PUT", f"/v1/nodes/{node}/states/provision", request)
    api.settle(node, wait)
    return node


@pytest.mark.parametrize("phase", PHASES)
def test_a_heartbeat_goes_on_with_what_waited(api: Application, phase: str) -> None:
    node = waiting(api, phase)
    assert api.request("POST", f"/v1/heartbeat/{node}", BEAT).status == 202
    assert api.settle(node, PHASES[phase][4])["last_error"] is None


@pytest.mark.parametrize("phase", PHASES)
def test_a_silent_ramdisk_fails_the_wait_with_a_reason(api: Application, phase: str) -> None:
    node = waiting(api, phase)
    with api.services.db.write() as connection:
        connection.execute(update(nodes).values(provision_updated_at=ago(10_000)))
    upkeep.end_overdue_waits(api.services)
    settled = api.settle(node, PHASES[phase][3])
    assert "not heard of for 1800 seconds" in settled["last_error"]


def test_a_wait_that_is_not_overdue_goes_on(api: Application) -> None:
    node = waiting(api, "clean")
    upkeep.end_overdue_waits(api.services)
    assert api.settle(node)["provision_state"] == "clean wait"


@pytest.mark.parametrize("phase", ["clean", "inspect", "rescue"])
def test_an_operator_may_abort_the_wait(api: Application, phase: str) -> None:
    node = waiting(api, phase)
    assert api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": "abort"}).status == 202
    assert api.settle(node, PHASES[phase][3])["last_error"] == "Aborted by request."


def test_two_heartbeats_at_once_go_on_once(api: Application) -> None:
    node = waiting(api, "clean")
    assert [api.request("POST", f"/v1/heartbeat/{node}", BEAT).status for _ in range(3)] == [202, 202, 202]
    api.settle(node, "available")
