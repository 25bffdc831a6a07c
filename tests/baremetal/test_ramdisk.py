"""Lookup and heartbeat: open to everybody, so they give little and believe nothing (spec 004)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from holdfast.db.tables import nodes
from tests.application import Application
from tests.baremetal.test_waits import BEAT, beat, waiting

MAC = "52:54:00:aa:bb:01"


@pytest.fixture
def node(api: Application) -> str:
    """Waits for its ramdisk while being cleaned."""
    uuid = waiting(api, "clean")
    api.send("POST", "/v1/ports", {"node_uuid": uuid, "address": MAC})
    return uuid


def test_a_ramdisk_finds_its_node_by_any_of_its_addresses_in_any_case(api: Application, node: str) -> None:
    answer = api.request("GET", f"/v1/lookup?addresses=00:00:00:00:00:01,{MAC.upper()}", version="1.22")
    assert answer.status == 200
    assert answer.json["node"]["uuid"] == node
    assert answer.json["config"]["heartbeat_timeout"] == 300


def test_only_listed_fields_leave_and_secrets_are_masked(api: Application, node: str) -> None:
    patch = [
        {"op": "add", "path": "/instance_info/rescue_password", "value": "canary"},
        {"op": "add", "path": "/driver_info/redfish_password", "value": "canary"},
    ]
    api.request("PATCH", f"/v1/nodes/{node}", patch)
    answer = api.request("GET", f"/v1/lookup?node_uuid={node}")
    assert set(answer.json["node"]) == {"uuid", "properties", "instance_info", "driver_internal_info", "links"}
    assert b"canary" not in answer.content


def test_node_uuid_wins_over_addresses(api: Application, node: str) -> None:
    answer = api.request("GET", f"/v1/lookup?node_uuid={node}&addresses=00:00:00:00:00:01")
    assert answer.json["node"]["uuid"] == node


@pytest.mark.parametrize("query", ["", "?addresses=", "?addresses=junk", "?node_uuid=junk", "?nonsense=1"])
def test_a_lookup_without_anything_usable_is_refused(api: Application, query: str) -> None:
    assert api.request("GET", f"/v1/lookup{query}").status == 400


def test_unknown_and_unexpected_nodes_get_the_same_answer(api: Application) -> None:
    (idle,) = api.enrol()
    unknown = api.request("GET", "/v1/lookup?node_uuid=11111111-1111-4111-8111-111111111111")
    unexpected = api.request("GET", f"/v1/lookup?node_uuid={idle}")
    assert unknown.status == unexpected.status == 404
    assert unknown.content == unexpected.content


def test_addresses_of_two_nodes_find_none(api: Application, node: str) -> None:
    (other,) = api.enrol()
    api.send("POST", "/v1/ports", {"node_uuid": other, "address": "52:54:00:aa:bb:02"})
    assert api.request("GET", f"/v1/lookup?addresses={MAC},52:54:00:aa:bb:02").status == 404


def test_the_callback_url_is_pinned_by_the_first_heartbeat(api: Application, node: str) -> None:
    """As it is between two heartbeats of a ramdisk that works on a long step."""
    with api.services.db.write() as connection:
        pinned = json.dumps({"agent_url": BEAT["callback_url"]})
        connection.execute(update(nodes).where(nodes.c.uuid == node).values(driver_internal_info=pinned))
    refused = api.request("POST", f"/v1/heartbeat/{node}", {**BEAT, "callback_url": "http://192.0.2.66:9999"})
    assert refused.status == 400
    shown = api.send("GET", f"/v1/nodes/{node}")
    assert shown["driver_internal_info"] == {"agent_url": BEAT["callback_url"]}
    assert shown["provision_state"] == "clean wait"


@pytest.mark.parametrize(
    "url", ["ftp://192.0.2.7", "http://", "junk", "http://user:pw@192.0.2.7", "http://192.0.2.7:junk", ""]
)
def test_a_callback_url_that_is_none_is_refused(api: Application, node: str, url: str) -> None:
    assert api.request("POST", f"/v1/heartbeat/{node}", {"callback_url": url}).status == 400


def test_a_heartbeat_nobody_expects_changes_nothing(api: Application) -> None:
    (idle,) = api.enrol()
    refused = api.request("POST", f"/v1/heartbeat/{idle}", BEAT)
    unknown = api.request("POST", "/v1/heartbeat/11111111-1111-4111-8111-111111111111", BEAT)
    nameless = api.request("POST", "/v1/heartbeat/no-such-name", BEAT)
    assert refused.status == 404
    assert refused.content == unknown.content == nameless.content
    assert api.send("GET", f"/v1/nodes/{idle}")["driver_internal_info"] == {}


def test_agent_version_needs_1_36(api: Application, node: str) -> None:
    assert api.request("POST", f"/v1/heartbeat/{node}", BEAT, version="1.35").status == 400
    assert (
        api.request("POST", f"/v1/heartbeat/{node}", {"callback_url": BEAT["callback_url"]}, version="1.22").status
        == 202
    )


def test_both_are_missing_before_1_22(api: Application, node: str) -> None:
    assert api.request("GET", f"/v1/lookup?node_uuid={node}", version="1.21").status == 404
    assert api.request("POST", f"/v1/heartbeat/{node}", BEAT, version="1.21").status == 404


def test_the_deploy_interface_hears_of_heartbeats_and_one_without_a_ramdisk_says_so(
    api: Application, caplog: pytest.LogCaptureFixture
) -> None:
    (node,) = api.enrol(state="manageable", deploy_interface="noop", driver_info={"fake_wait": ["inspect"]})
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "inspect"})
    api.settle(node, "inspect wait")
    assert beat(api, node) == 202
    assert (
        f"Got heartbeat message from node {node}, but the driver fake-hardware does not support heartbeating"
        in caplog.text
    )
    api.settle(node, "manageable")


def test_of_many_who_look_up_at_the_same_moment_one_gets_the_token(either_api: Application) -> None:
    api = either_api
    node = waiting(api, "clean")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.request("GET", f"/v1/lookup?node_uuid={node}"), range(24)))
    assert {answer.status for answer in answers} == {200}
    tokens = [answer.json["config"]["agent_token"] for answer in answers]
    assert len([token for token in tokens if token != "******"]) == 1


def test_heartbeats_of_one_node_from_many_threads_are_all_taken(either_api: Application) -> None:
    """They meet each other, and the flows they start; none is refused."""
    api = either_api
    node = waiting(api, "clean")
    token = api.send("GET", f"/v1/lookup?node_uuid={node}")["config"]["agent_token"]
    table = nodes
    with api.services.db.write() as connection:
        connection.execute(update(table).where(table.c.uuid == node).values(reservation="somebody/else"))
    body = {**BEAT, "agent_token": token}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: api.request("POST", f"/v1/heartbeat/{node}", body), range(40)))
    assert {answer.status for answer in answers} == {202}
