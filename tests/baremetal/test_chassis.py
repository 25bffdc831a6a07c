"""/v1/chassis: what nodes are mounted in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.application import Application
from tests.baremetal.wiring import remove, replace

UNKNOWN = "7f6d3c1e-0d6b-4c57-8f0b-1f1a4d1c9b11"


@pytest.fixture(scope="module")
def api(shared_either_api: Application) -> Application:
    return shared_either_api


def add(api: Application, **fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = api.send("POST", "/v1/chassis", fields)
    return document


def test_a_chassis_is_created_and_shown(api: Application) -> None:
    answer = api.request("POST", "/v1/chassis", {"description": "Rack 7, blades 1 to 8", "extra": {"row": "B"}})
    assert answer.status == 201
    chassis = answer.json
    base, path = "http://127.0.0.1:6385/baremetal", f"chassis/{chassis['uuid']}"
    assert answer.headers["location"] == f"{base}/v1/{path}"
    assert chassis.pop("created_at")
    assert chassis == {
        "uuid": chassis["uuid"],
        "description": "Rack 7, blades 1 to 8",
        "extra": {"row": "B"},
        "updated_at": None,
        "links": [
            {"href": f"{base}/v1/{path}", "rel": "self"},
            {"href": f"{base}/{path}", "rel": "bookmark"},
        ],
        "nodes": [
            {"href": f"{base}/v1/{path}/nodes", "rel": "self"},
            {"href": f"{base}/{path}/nodes", "rel": "bookmark"},
        ],
    }
    assert api.send("GET", f"/v1/{path}")["description"] == "Rack 7, blades 1 to 8"


def test_every_field_is_optional_and_a_uuid_is_used_once(api: Application) -> None:
    chassis = add(api)
    assert (chassis["description"], chassis["extra"]) == (None, {})
    again = api.request("POST", "/v1/chassis", {"uuid": chassis["uuid"]})
    assert (again.status, again.json["code"]) == (409, "duplicate")


@pytest.mark.parametrize(
    "body",
    [{"description": "x" * 256}, {"description": 7}, {"extra": []}, {"uuid": "rack"}, {"colour": "red"}, []],
)
def test_malformed_chassis_are_refused(api: Application, body: Any) -> None:
    assert api.request("POST", "/v1/chassis", body).status == 400


def test_lists_are_short_unless_detail_is_asked_for(api: Application) -> None:
    chassis = add(api, description="listed")

    def mine(path: str) -> list[dict[str, Any]]:
        return [entry for entry in api.send("GET", path)["chassis"] if entry.get("uuid") == chassis["uuid"]]

    assert mine("/v1/chassis") == [{name: chassis[name] for name in ("uuid", "description", "links")}]
    assert mine("/v1/chassis/detail") == mine("/v1/chassis?detail=yes") == [chassis]
    assert mine("/v1/chassis?fields=uuid,extra") == [{"uuid": chassis["uuid"], "extra": {}, "links": chassis["links"]}]
    assert api.send("GET", f"/v1/chassis/{chassis['uuid']}?fields=extra") == {"extra": {}, "links": chassis["links"]}
    assert api.request("GET", "/v1/chassis?detail=yes", version="1.42").status == 400
    assert api.request("GET", "/v1/chassis?fields=uuid", version="1.7").status == 406
    assert api.request("GET", "/v1/chassis?sort_key=extra").status == 400


def test_pages_are_followed_in_any_order(api: Application) -> None:
    created = {add(api, description=f"page {number}")["uuid"] for number in range(4)}
    seen: list[str] = []
    path = "/v1/chassis?limit=3&sort_key=description&sort_dir=desc"
    while path:
        page = api.send("GET", path)
        assert len(page["chassis"]) <= 3
        seen += [entry["uuid"] for entry in page["chassis"]]
        path = page.get("next", "").partition("/baremetal")[2]
    assert created <= set(seen)
    assert len(seen) == len(set(seen))


def test_a_list_of_any_length_takes_one_query(api: Application) -> None:
    for _ in range(50):
        add(api)
    for limit in (1, 50):
        with api.counted() as statements:
            assert len(api.send("GET", f"/v1/chassis/detail?limit={limit}")["chassis"]) == limit
        assert len(statements) == 1


@pytest.mark.parametrize("tail", ["nodes", "nodes/detail"])
def test_a_chassis_lists_its_nodes(api: Application, tail: str) -> None:
    chassis = add(api)["uuid"]
    nodes = api.enrol(3, chassis_uuid=chassis)
    api.enrol()
    page = api.send("GET", f"/v1/chassis/{chassis}/{tail}?limit=2")
    assert f"/v1/chassis/{chassis}/{tail}?limit=2&marker=" in page["next"]
    rest = api.send("GET", page["next"].partition("/baremetal")[2])
    assert [node["uuid"] for node in page["nodes"] + rest["nodes"]] == nodes
    assert ("driver" in rest["nodes"][0]) is ("detail" in tail)
    assert api.request("GET", f"/v1/chassis/{UNKNOWN}/{tail}").status == 404
    assert api.request("POST", f"/v1/chassis/{chassis}/nodes", {"driver": "fake-hardware"}).status == 405


def test_the_nodes_of_a_chassis_take_the_same_queries_however_many(api: Application) -> None:
    counts = []
    for length in (1, 50):
        chassis = add(api)["uuid"]
        api.enrol(length, chassis_uuid=chassis)
        with api.counted() as statements:
            assert len(api.send("GET", f"/v1/chassis/{chassis}/nodes/detail")["nodes"]) == length
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 4


def test_a_chassis_can_be_changed(api: Application) -> None:
    path = f"/v1/chassis/{add(api, description='before', extra={'a': 1})['uuid']}"
    changed = api.send("PATCH", path, [*replace("/description", "after"), *remove("/extra/a")])
    assert (changed["description"], changed["extra"]) == ("after", {})
    assert changed["updated_at"] is not None
    assert api.send("PATCH", path, remove("/description"))["description"] is None
    moved = api.send("PATCH", path, replace("/uuid", "3f0a5c1c-78f2-4f0b-8f0e-0d8f2a1f9a01"))
    assert moved["uuid"] == "3f0a5c1c-78f2-4f0b-8f0e-0d8f2a1f9a01"
    assert api.request("GET", path).status == 404


@pytest.mark.parametrize(
    "patch",
    [
        remove("/uuid"),
        replace("/uuid", "rack"),
        replace("/nodes", []),
        replace("/created_at", None),
        replace("/description", "x" * 256),
        replace("/extra/missing", 1),
    ],
)
def test_a_wrong_patch_changes_nothing(api: Application, patch: Any) -> None:
    chassis = add(api)
    path = f"/v1/chassis/{chassis['uuid']}"
    assert api.request("PATCH", path, patch).status == 400
    assert api.send("GET", path) == chassis


def test_a_chassis_with_nodes_is_not_deleted(api: Application) -> None:
    chassis = add(api)["uuid"]
    node = api.enrol(chassis_uuid=chassis)[0]
    answer = api.request("DELETE", f"/v1/chassis/{chassis}")
    assert (answer.status, answer.json["code"]) == (400, "not-empty")
    api.send("PATCH", f"/v1/nodes/{node}", remove("/chassis_uuid"))
    deleted = api.request("DELETE", f"/v1/chassis/{chassis}")
    assert (deleted.status, deleted.content) == (204, b"")
    assert api.request("DELETE", f"/v1/chassis/{chassis}").status == 404


@pytest.mark.parametrize(("ident", "status"), [(UNKNOWN, 404), ("rack-7", 400)])
def test_unknown_chassis(api: Application, ident: str, status: int) -> None:
    for method, body in (("GET", None), ("PATCH", []), ("DELETE", None)):
        assert api.request(method, f"/v1/chassis/{ident}", body).status == status


def test_a_node_created_while_its_chassis_is_deleted_leaves_no_dangling_link(api: Application) -> None:
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            chassis = add(api)["uuid"]
            body = {"driver": "fake-hardware", "chassis_uuid": chassis}
            created = pool.submit(api.request, "POST", "/v1/nodes", body)
            deleted = pool.submit(api.request, "DELETE", f"/v1/chassis/{chassis}")
            answers = created.result().status, deleted.result().status
            assert answers in ((201, 400), (400, 204))
            assert api.request("GET", f"/v1/chassis/{chassis}").status == (404 if answers[1] == 204 else 200)
