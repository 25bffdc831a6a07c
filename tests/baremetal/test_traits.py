"""Traits of a node: /v1/nodes/<node>/traits, the field `traits`, and deploys that ask for traits."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from holdfast.baremetal import locks, nodes
from holdfast.baremetal.drivers.base import Inspection
from holdfast.baremetal.drivers.fake.inspect import FakeInspect
from holdfast.db import tables
from tests.application import Application

LONGEST = "CUSTOM_" + "X" * 248


@pytest.fixture
def node(shared_api: Application) -> str:
    return shared_api.enrol()[0]


def many(count: int, prefix: str = "CUSTOM_N") -> list[str]:
    return [f"{prefix}{number:03}" for number in range(count)]


# The sub-resource


def test_new_node_has_no_traits(shared_api: Application, node: str) -> None:
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == {"traits": []}


def test_put_replaces_the_list_and_answers_with_it(shared_api: Application, node: str) -> None:
    shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_OLD", "CUSTOM_KEPT"]})
    wanted = ["HW_CPU_X86_VMX", "CUSTOM_KEPT", "CUSTOM_KEPT", "CUSTOM_NEW"]
    answer = shared_api.request("PUT", f"/v1/nodes/{node}/traits", {"traits": wanted})
    expected = {"traits": ["CUSTOM_KEPT", "CUSTOM_NEW", "HW_CPU_X86_VMX"]}
    assert (answer.status, answer.json) == (200, expected)
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == expected


def test_put_of_an_empty_list_clears(shared_api: Application, node: str) -> None:
    shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_A"]})
    assert shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": []}) == {"traits": []}
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == {"traits": []}


def test_one_trait_is_added_without_a_body_and_twice_is_no_error(shared_api: Application, node: str) -> None:
    for body in (None, {}):
        answer = shared_api.request("PUT", f"/v1/nodes/{node}/traits/CUSTOM_FOO", body)
        assert (answer.status, answer.content) == (204, b"")
        assert answer.headers["location"].endswith(f"/baremetal/v1/nodes/{node}/traits/CUSTOM_FOO")
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == {"traits": ["CUSTOM_FOO"]}


def test_adding_a_trait_takes_no_body(shared_api: Application, node: str) -> None:
    assert shared_api.request("PUT", f"/v1/nodes/{node}/traits/CUSTOM_FOO", {"x": 1}).status == 400


def test_one_trait_is_removed(shared_api: Application, node: str) -> None:
    shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_A", "CUSTOM_B"]})
    answer = shared_api.request("DELETE", f"/v1/nodes/{node}/traits/CUSTOM_A")
    assert (answer.status, answer.content) == (204, b"")
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == {"traits": ["CUSTOM_B"]}


def test_removing_a_trait_the_node_lacks_is_404(shared_api: Application, node: str) -> None:
    answer = shared_api.request("DELETE", f"/v1/nodes/{node}/traits/CUSTOM_A")
    assert answer.status == 404
    assert "CUSTOM_A" in answer.text


def test_all_traits_are_removed_also_when_there_are_none(shared_api: Application, node: str) -> None:
    shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_A", "CUSTOM_B"]})
    for _ in range(2):
        answer = shared_api.request("DELETE", f"/v1/nodes/{node}/traits")
        assert (answer.status, answer.content) == (204, b"")
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == {"traits": []}


def test_nodes_are_addressed_by_name_too(shared_api: Application) -> None:
    shared_api.enrol(name="trait-by-name")
    shared_api.send("PUT", "/v1/nodes/trait-by-name/traits/CUSTOM_A")
    assert shared_api.send("GET", "/v1/nodes/trait-by-name/traits") == {"traits": ["CUSTOM_A"]}


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/traits"), ("GET", "/traits/CUSTOM_A"), ("PATCH", "/traits/CUSTOM_A")],
)
def test_other_methods_are_not_offered(shared_api: Application, node: str, method: str, path: str) -> None:
    assert shared_api.request(method, f"/v1/nodes/{node}{path}", {}).status == 405


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/traits", None),
        ("PUT", "/traits", {"traits": []}),
        ("DELETE", "/traits", None),
        ("PUT", "/traits/CUSTOM_A", None),
        ("DELETE", "/traits/CUSTOM_A", None),
    ],
)
def test_unknown_nodes_and_older_versions_are_404(
    shared_api: Application, node: str, method: str, path: str, body: Any
) -> None:
    assert shared_api.request(method, f"/v1/nodes/no-such-node{path}", body).status == 404
    assert shared_api.request(method, f"/v1/nodes/{node}{path}", body, version="1.36").status == 404


@pytest.mark.parametrize("name", ["CUSTOM_A", "CUSTOM_0_9", "HW_CPU_X86_VMX", "MISC_SHARES_VIA_AGGREGATE", LONGEST])
def test_names_that_are_traits(shared_api: Application, node: str, name: str) -> None:
    assert shared_api.request("PUT", f"/v1/nodes/{node}/traits/{name}").status == 204


@pytest.mark.parametrize(
    "name",
    [
        "CUSTOM_",
        "CUSTOM_a",
        "custom_A",
        "CUSTOM-A",
        "CUSTOM_Ä",
        "HW_CPU_X86_NOPE",
        "A",
        "",
        LONGEST + "X",
        "CUSTOM_A\n",
    ],
)
def test_names_that_are_no_traits_are_400(shared_api: Application, node: str, name: str) -> None:
    before = ["CUSTOM_BEFORE"]
    shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": before})
    answer = shared_api.request("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_FINE", name]})
    assert answer.status == 400
    assert "CUSTOM_" in answer.text
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == {"traits": before}


@pytest.mark.parametrize(
    "body",
    [None, {}, [], {"traits": None}, {"traits": "CUSTOM_A"}, {"traits": [1]}, {"traits": [], "more": 1}],
)
def test_bodies_that_are_not_a_list_of_traits_are_400(shared_api: Application, node: str, body: Any) -> None:
    assert shared_api.request("PUT", f"/v1/nodes/{node}/traits", body).status == 400


# Fifty


def test_a_node_has_fifty_traits_at_most(shared_api: Application, node: str) -> None:
    fifty = many(50)
    assert shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": fifty}) == {"traits": fifty}
    for method, path, body in [
        ("PUT", "/traits/CUSTOM_ONE_MORE", None),
        ("PUT", "/traits", {"traits": many(51)}),
    ]:
        answer = shared_api.request(method, f"/v1/nodes/{node}{path}", body)
        assert answer.status == 400
        assert "50" in answer.text
    assert shared_api.request("PUT", f"/v1/nodes/{node}/traits/{fifty[0]}").status == 204
    other_fifty = many(50, "CUSTOM_OTHER")
    assert shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": other_fifty}) == {"traits": other_fifty}


# Any time


def test_traits_change_in_every_state_and_while_a_flow_holds_the_node(shared_api: Application) -> None:
    node = shared_api.enrol(state="active")[0]
    with shared_api.services.db.write() as connection:
        locks.take(connection, nodes.find(connection, node).id, "deploy_node/some-flow", node)
    assert shared_api.request("PATCH", f"/v1/nodes/{node}", []).status == 409
    shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_A", "CUSTOM_B"]})
    shared_api.send("PUT", f"/v1/nodes/{node}/traits/CUSTOM_C")
    shared_api.send("DELETE", f"/v1/nodes/{node}/traits/CUSTOM_A")
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == {"traits": ["CUSTOM_B", "CUSTOM_C"]}
    shared_api.send("DELETE", f"/v1/nodes/{node}/traits")


def test_traits_stay_when_the_instance_goes_and_go_with_the_node(shared_api: Application) -> None:
    node = shared_api.enrol(state="active")[0]
    shared_api.send("PUT", f"/v1/nodes/{node}/traits/CUSTOM_A")
    shared_api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    shared_api.settle(node, "available")
    assert shared_api.send("GET", f"/v1/nodes/{node}/traits") == {"traits": ["CUSTOM_A"]}
    shared_api.send("DELETE", f"/v1/nodes/{node}")
    with shared_api.services.db.read() as connection:
        orphans = select(tables.node_traits).where(tables.node_traits.c.node_id.not_in(select(tables.nodes.c.id)))
        assert connection.execute(orphans).all() == []


# The field `traits` of nodes


def test_nodes_show_their_traits_from_1_37(shared_api: Application, node: str) -> None:
    shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_B", "CUSTOM_A"]})
    both = ["CUSTOM_A", "CUSTOM_B"]
    assert shared_api.send("GET", f"/v1/nodes/{node}")["traits"] == both
    assert shared_api.send("GET", f"/v1/nodes/{node}?fields=traits")["traits"] == both
    for path in ("/v1/nodes/detail", "/v1/nodes?detail=true", "/v1/nodes?fields=uuid,traits"):
        shown = {n["uuid"]: n["traits"] for n in shared_api.send("GET", path)["nodes"]}
        assert shown[node] == both
    assert "traits" not in shared_api.request("GET", f"/v1/nodes/{node}", version="1.36").json
    for path in ("/v1/nodes?fields=traits", f"/v1/nodes/{node}?fields=traits"):
        assert shared_api.request("GET", path, version="1.36").status == 406


def test_traits_are_not_set_by_post_or_patch_nor_sorted_by(shared_api: Application, node: str) -> None:
    body = {"driver": "fake-hardware", "traits": ["CUSTOM_A"]}
    assert shared_api.request("POST", "/v1/nodes", body).status == 400
    patch = [{"op": "add", "path": "/traits", "value": ["CUSTOM_A"]}]
    assert shared_api.request("PATCH", f"/v1/nodes/{node}", patch).status == 400
    assert shared_api.request("GET", "/v1/nodes?sort_key=traits").status == 400


# Deploys that ask for traits


def test_validate_and_deploy_refuse_traits_the_node_lacks(shared_api: Application) -> None:
    node = shared_api.enrol(state="available", instance_info={"traits": ["CUSTOM_A", "CUSTOM_B"]})[0]
    shared_api.send("PUT", f"/v1/nodes/{node}/traits/CUSTOM_A")
    verdict = shared_api.send("GET", f"/v1/nodes/{node}/validate")["deploy"]
    assert verdict["result"] is False
    assert "CUSTOM_B" in verdict["reason"]
    assert "CUSTOM_A" not in verdict["reason"]
    answer = shared_api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    assert answer.status == 400
    assert "CUSTOM_B" in answer.text
    shared_api.send("PUT", f"/v1/nodes/{node}/traits/CUSTOM_B")
    assert shared_api.send("GET", f"/v1/nodes/{node}/validate")["deploy"]["result"] is True
    shared_api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    shared_api.settle(node, "active")


@pytest.mark.parametrize("wanted", ["CUSTOM_A", {"CUSTOM_A": True}, [1], [["CUSTOM_A"]]])
def test_instance_traits_must_be_a_list_of_names(shared_api: Application, wanted: Any) -> None:
    node = shared_api.enrol(instance_info={"traits": wanted})[0]
    verdict = shared_api.send("GET", f"/v1/nodes/{node}/validate")["deploy"]
    assert verdict["result"] is False
    assert "list" in verdict["reason"]


# Inspection


def test_inspection_adds_the_traits_it_finds(
    shared_api: Application, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = shared_api.enrol(state="manageable")[0]
    shared_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": [*many(47), "HW_CPU_X86_VMX"]})
    found = ("HW_CPU_X86_VMX", "not a trait", "HW_CPU_X86_AESNI", "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2")
    monkeypatch.setattr(FakeInspect, "inspect_hardware", lambda *_: Inspection(traits=found))
    shared_api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "inspect"})
    shared_api.settle(node, "manageable")
    kept = set(shared_api.send("GET", f"/v1/nodes/{node}/traits")["traits"]) - set(many(47))
    assert kept == {"HW_CPU_X86_VMX", "HW_CPU_X86_AESNI", "HW_CPU_X86_AVX"}
    assert "left out: not a trait, HW_CPU_X86_AVX2" in caplog.text
