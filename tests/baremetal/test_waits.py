"""Waiting for a ramdisk: the heartbeat goes on with the work, silence ends it, an operator may abort it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import update

from holdfast.baremetal import provision, ramdisk, upkeep
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


def beat(api: Application, node: str, **more: Any) -> int:
    """The status of a heartbeat of the node's ramdisk, which has looked its node up before."""
    if node not in TOKENS:
        TOKENS[node] = api.send("GET", f"/v1/lookup?node_uuid={node}")["config"]["agent_token"]
    token = {"agent_token": TOKENS[node]} if TOKENS[node] else {}
    return api.request("POST", f"/v1/heartbeat/{node}", {**BEAT, **token, **more}).status


# What each ramdisk remembers: node: token
TOKENS: dict[str, str | None] = {}


@pytest.mark.parametrize("phase", PHASES)
def test_a_heartbeat_goes_on_with_what_waited(api: Application, phase: str) -> None:
    node = waiting(api, phase)
    assert beat(api, node) == 202
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
    assert [beat(api, node) for _ in range(2)] == [202, 202]
    api.settle(node, "available")


@pytest.mark.parametrize("phase", PHASES)
def test_a_heartbeat_that_meets_a_busy_node_is_acted_on_when_that_ends(api: Application, phase: str) -> None:
    """It is not dropped, and it does not wait: whoever has the node finds it on record."""
    node = waiting(api, phase)
    with api.services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.uuid == node).values(reservation="somebody/else"))
    assert beat(api, node) == 202
    state = api.send("GET", f"/v1/nodes/{node}")["provision_state"]
    assert state == PHASES[phase][2]
    with api.services.db.write() as connection:
        connection.execute(
            update(nodes).where(nodes.c.uuid == node).values(reservation=None, heartbeat_pending=ago(60))
        )
    ramdisk.act_on_pending(api.services)
    api.settle(node, PHASES[phase][4])


def test_a_flow_that_would_wait_goes_on_if_the_ramdisk_has_called_meanwhile(api: Application) -> None:
    (node,) = api.enrol(state="manageable", driver_info={"fake_wait": ["clean"]})
    clean = provision.begin(api.services.db, node, "clean_node/1", "provide", target="available")
    assert clean == "manageable"
    with api.services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.uuid == node).values(heartbeat_pending=ago(0)))
    state = provision.finish(api.services.db, node, "clean_node/1", "wait", resume="continue_cleaning/2")
    shown = api.send("GET", f"/v1/nodes/{node}")
    assert (state, shown["provision_state"], shown["reservation"]) == ("cleaning", "cleaning", "continue_cleaning/2")
    state = provision.finish(api.services.db, node, "continue_cleaning/2", "wait", resume="continue_cleaning/3")
    assert state == "clean wait"


def test_a_heartbeat_is_one_read_and_one_write(api: Application) -> None:
    node = waiting(api, "clean")
    with api.services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.uuid == node).values(reservation="somebody/else"))
    assert beat(api, node) == 202
    with api.counted() as statements:
        assert beat(api, node) == 202
    assert [text.split()[0] for text in statements if not text.startswith("BEGIN")] == ["SELECT", "UPDATE"]


def test_a_second_lookup_is_one_read(api: Application) -> None:
    node = waiting(api, "clean")
    api.send("GET", f"/v1/lookup?node_uuid={node}")
    with api.counted() as statements:
        api.send("GET", f"/v1/lookup?node_uuid={node}")
    assert [text.split()[0] for text in statements] == ["SELECT"]


@pytest.mark.parametrize(
    ("since", "marks", "words"),
    [
        ("power_on", {"ipxe": {}}, "was switched on, but did not fetch its boot script within 600 seconds"),
        ("dhcp", {"ipxe": {}}, "was lent an address by DHCP, but did not fetch its boot script within 600 seconds"),
        ("power_on", {}, "no ramdisk looked its node up within 1200 seconds"),
        ("lookup", {}, "sent no heartbeat within 300 seconds"),
        ("image_started", {}, "did not finish writing the image within 7200 seconds"),
    ],
)
def test_a_boot_that_gets_stuck_says_where(api: Application, since: str, marks: dict[str, Any], words: str) -> None:
    node = waiting(api, "deploy")
    order = ("power_on", "dhcp", "script_fetched", "lookup", "heartbeat", "image_started")
    reached = order[: order.index(since) + 1]
    info = {**marks, "boot_progress": {mark: ago(100) for mark in reached} | {since: ago(10_000)}}
    values = {"driver_internal_info": json.dumps(info), "provision_updated_at": ago(0)}
    with api.services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.uuid == node).values(values))
    upkeep.end_overdue_waits(api.services)
    assert words in api.settle(node, "deploy failed")["last_error"]


def test_a_machine_without_an_address_fails_sooner_where_leases_are_reported(api: Application) -> None:
    node = waiting(api, "deploy")
    api.services.conf.set_override("dhcp_timeout", 60, group="agent")
    api.services.conf.set_override("script_timeout", 70, group="agent")  # from the lease on

    def look_at(**marks: str) -> dict[str, Any]:
        info = {"ipxe": {}, "boot_progress": {"power_on": ago(100), **marks}}
        with api.services.db.write() as connection:
            connection.execute(update(nodes).where(nodes.c.uuid == node).values(driver_internal_info=json.dumps(info)))
        upkeep.end_overdue_waits(api.services)
        return api.settle(node)

    # Whoever comes further has got an address, reported or not.
    for mark in ("dhcp", "script_fetched", "lookup"):
        assert look_at(**{mark: ago(50)})["provision_state"] == "wait call-back"
    failed = look_at()
    assert failed["provision_state"] == "deploy failed"
    assert "was lent no address by DHCP within 60 seconds" in failed["last_error"]


def test_a_boot_within_its_times_goes_on(api: Application) -> None:
    node = waiting(api, "deploy")
    info = {"ipxe": {}, "boot_progress": {"power_on": ago(10)}}
    with api.services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.uuid == node).values(driver_internal_info=json.dumps(info)))
    upkeep.end_overdue_waits(api.services)
    assert api.settle(node)["provision_state"] == "wait call-back"
