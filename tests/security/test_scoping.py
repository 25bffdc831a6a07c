"""What belongs to a project: its owner and its lessee see it, for a third party it does not exist.

The walk is generated from the route tables: every list and every item below a node, a port, a port group, a
volume connector or target, an allocation. A new route is walked without a line here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from holdfast import app, config
from holdfast.baremetal import policies
from holdfast.web import edge
from holdfast.web.auth import ADMIN, CALLER, Caller
from holdfast.web.policy import Policy
from holdfast.web.resources import REDACTED
from holdfast.web.routes import Route
from tests.application import VERSION_HEADER, Answer, Application, running
from tests.baremetal.wiring import mac

ROLES = frozenset({"admin", "manager", "member", "reader"})
OWNER, LESSEE, STRANGER = (
    Caller(user_id="u", project_id=p, project_name=p, roles=ROLES) for p in ("own", "let", "not")
)
READER = Caller(user_id="r", project_id="let", project_name="let", roles=frozenset({"reader"}))

# Path elements that belong to a project; whatever is below one of them is, too.
OWNED = ("node", "port", "portgroup", "connector", "target", "allocation")
BAREMETAL = next(api for api in app.APIS if api.name == "baremetal")


def is_owned(route: Route) -> bool:
    return route.policy is not None and any(f"{{{name}}}" in route.path for name in OWNED)


ITEMS = [route for route in BAREMETAL.routes if is_owned(route)]
# Lists of what projects own. Chassis, conductors and templates are nobody's: their rules want a system token.
LISTS = [
    route
    for route in BAREMETAL.routes
    if route.lists is not None and "{" not in route.path and (route.policy or "").endswith(":list_all")
]


@dataclass
class House:
    """The service with Keystone's rules, two owners, and one of everything that belongs to the first."""

    application: Application
    idents: dict[str, str]

    def call(self, caller: Caller, method: str, path: str, document: Any = None) -> Answer:
        body = None if document is None else msgspec.json.encode(document)
        headers = {VERSION_HEADER: "latest"}
        return self.application.call(method, f"/baremetal{path}", body, headers, **{CALLER: caller})

    def send(self, caller: Caller, method: str, path: str, document: Any = None) -> Any:
        answer = self.call(caller, method, path, document)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.content!r}"
        return answer.json if answer.content else None

    def path(self, route: Route) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self.idents.get(found[1], "something"), route.path)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with running(tmp_path_factory.mktemp("scoping")) as application:
        (node,) = application.enrol(
            state="active", owner="own", lessee="let", name="owned", resource_class="big", driver_info={"a": 1}
        )
        idents = {"node": node, "driver": "fake-hardware"}
        post = application.send
        idents["allocation"] = post("POST", "/v1/allocations", {"node": node, "owner": "own"})["uuid"]
        group = post("POST", "/v1/portgroups", {"node_uuid": node, "name": "bond"})["uuid"]
        idents["portgroup"] = group
        member = {"node_uuid": node, "address": mac(), "portgroup_uuid": group}
        idents["port"] = post("POST", "/v1/ports", member)["uuid"]
        initiator = {"node_uuid": node, "type": "ip", "connector_id": "192.0.2.1"}
        idents["connector"] = post("POST", "/v1/volume/connectors", initiator)["uuid"]
        volume = {"node_uuid": node, "volume_type": "iscsi", "volume_id": "v", "boot_index": 0}
        idents["target"] = post("POST", "/v1/volume/targets", volume)["uuid"]
        post("PUT", f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_A"]})
        conf = config.load(environment={}, overrides={("DEFAULT", "auth_strategy"): "keystone"})
        application.services.policy = Policy(conf, policies.RULES)
        application._wsgi = edge.build(application.services, app.APIS)
        yield House(application, idents)


def label(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", LISTS, ids=label)
def test_lists_show_a_project_what_it_owns_or_leases_and_a_third_party_nothing(house: House, route: Route) -> None:
    assert route.lists is not None
    key, path = route.lists.key, house.path(route)
    assert len(house.send(OWNER, "GET", path)[key]) == 1
    # An allocation belongs to who asked for it.
    assert len(house.send(LESSEE, "GET", path)[key]) == (0 if key == "allocations" else 1)
    assert house.send(STRANGER, "GET", path)[key] == []


@pytest.mark.parametrize("route", ITEMS, ids=label)
def test_for_a_third_party_no_item_exists(house: House, route: Route) -> None:
    body = None if route.body is None else [] if route.body is list else {}
    answer = house.call(STRANGER, route.method, house.path(route), body)
    assert answer.status == 404, answer
    missing = dict.fromkeys(OWNED, "1be26c0b-03f2-4d2e-ae87-c02d7f33c123")
    unknown = House(house.application, missing)
    other = unknown.call(STRANGER, route.method, unknown.path(route), body)
    for name in OWNED:
        assert house.idents[name] not in other.text
    shown = answer.text
    for ident in house.idents.values():
        shown = shown.replace(ident, "X")
    assert shown == other.text.replace(missing["node"], "X")


@pytest.mark.parametrize("route", [route for route in ITEMS if route.method == "GET"], ids=label)
def test_owner_and_lessee_see_what_an_administrator_sees(house: House, route: Route) -> None:
    path = house.path(route)
    for caller in (OWNER, LESSEE):
        seen = house.call(caller, "GET", path).status
        if caller is LESSEE and "allocation" in route.path:
            assert seen == 404
        else:
            assert seen in (house.call(ADMIN, "GET", path).status, 403)


@pytest.mark.parametrize(
    "query",
    [
        "/v1/ports?node=owned",
        "/v1/portgroups?node=owned",
        "/v1/ports?portgroup=bond",
        "/v1/volume/targets?node=owned",
        "/v1/volume/connectors?node=owned",
        "/v1/allocations?node=owned",
    ],
)
def test_a_list_about_something_hidden_is_about_nothing(house: House, query: str) -> None:
    hidden = house.call(STRANGER, "GET", query)
    unknown = house.call(STRANGER, "GET", query.replace("owned", "no-such").replace("bond", "no-such"))
    assert hidden.status == unknown.status == 404
    assert hidden.text.replace("owned", "X").replace("bond", "X") == unknown.text.replace("no-such", "X")
    assert house.call(OWNER, "GET", query).status == 200


def test_a_lessee_sees_the_node_without_its_inner_life(house: House) -> None:
    path = f"/v1/nodes/{house.idents['node']}"
    fields = "driver_info,last_error,reservation,driver_internal_info"
    for document in (
        house.send(READER, "GET", path),
        house.send(READER, "GET", "/v1/nodes/detail")["nodes"][0],
        house.send(READER, "GET", f"/v1/nodes?fields={fields}")["nodes"][0],
        house.send(READER, "GET", f"{path}?fields={fields}"),
    ):
        assert document["driver_info"] == document["driver_internal_info"] == {"content": REDACTED}
        assert document["last_error"] == document["reservation"] == REDACTED
    assert house.send(READER, "GET", f"{path}/states")["last_error"] == REDACTED
    assert house.send(OWNER, "GET", path)["driver_info"] == {"a": 1}
    assert house.send(ADMIN, "GET", path)["driver_info"] == {"a": 1}


def test_a_project_adds_parts_to_its_own_nodes_only(house: House) -> None:
    body = {"node_uuid": house.idents["node"], "address": mac()}
    created = house.call(OWNER, "POST", "/v1/ports", body)
    assert created.status == 201
    assert house.call(OWNER, "DELETE", f"/v1/ports/{created.json['uuid']}").status == 204
    assert house.call(LESSEE, "POST", "/v1/ports", body).status == 403
    refused = house.call(STRANGER, "POST", "/v1/ports", body)
    unknown = house.call(STRANGER, "POST", "/v1/ports", {**body, "node_uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"})
    assert refused.status == unknown.status == 400
    assert refused.text.replace(body["node_uuid"], "X") == unknown.text.replace(
        "1be26c0b-03f2-4d2e-ae87-c02d7f33c123", "X"
    )


@pytest.mark.parametrize("thing", ["ports", "portgroups", "volume/connectors", "volume/targets"])
def test_nothing_moves_to_a_node_of_another_owner(house: House, thing: str) -> None:
    elsewhere = house.send(ADMIN, "POST", "/v1/nodes", {"driver": "fake-hardware", "owner": "not"})["uuid"]
    fields: dict[str, dict[str, Any]] = {
        "ports": {"address": mac()},
        "portgroups": {},
        "volume/connectors": {"type": "ip", "connector_id": "192.0.2.9"},
        "volume/targets": {"volume_type": "iscsi", "volume_id": "w", "boot_index": 1},
    }
    home = house.send(ADMIN, "POST", "/v1/nodes", {"driver": "fake-hardware", "owner": "own"})["uuid"]
    with house.application.services.db.write() as connection:
        connection.exec_driver_sql("UPDATE nodes SET power_state = 'power off' WHERE provision_state = 'enroll'")
    made = house.send(ADMIN, "POST", f"/v1/{thing}", {"node_uuid": home, **fields[thing]})["uuid"]
    patch = [{"op": "replace", "path": "/node_uuid", "value": elsewhere}]
    for caller in (ADMIN, OWNER):
        refused = house.call(caller, "PATCH", f"/v1/{thing}/{made}", patch)
        assert refused.status == 400, refused
    assert "different owners" in house.call(ADMIN, "PATCH", f"/v1/{thing}/{made}", patch).text
    house.send(ADMIN, "DELETE", f"/v1/{thing}/{made}")
    for node in (home, elsewhere):
        house.send(ADMIN, "DELETE", f"/v1/nodes/{node}")


def test_an_allocation_is_its_projects_own(house: House) -> None:
    made = house.send(STRANGER, "POST", "/v1/allocations", {"resource_class": "none"})
    assert made["owner"] == "not"
    assert house.call(OWNER, "GET", f"/v1/allocations/{made['uuid']}").status == 404
    assert house.call(STRANGER, "POST", "/v1/allocations", {"resource_class": "none", "owner": "own"}).status == 403
    assert house.call(ADMIN, "POST", "/v1/allocations", {"resource_class": "none", "owner": "own"}).status == 201
    candidate = {"resource_class": "big", "candidate_nodes": [house.idents["node"]]}
    assert house.call(STRANGER, "POST", "/v1/allocations", candidate).status == 400
    assert house.call(STRANGER, "POST", "/v1/allocations", {"node": house.idents["node"]}).status == 400
    for allocation in house.send(ADMIN, "GET", "/v1/allocations")["allocations"]:
        if allocation["resource_class"] == "none":
            house.call(ADMIN, "DELETE", f"/v1/allocations/{allocation['uuid']}")


def test_the_owner_of_an_active_node_is_changed_by_administrators_only(house: House) -> None:
    patch = [{"op": "replace", "path": "/owner", "value": "other"}]
    path = f"/v1/nodes/{house.idents['node']}"
    member = Caller(user_id="m", roles=frozenset({"member", "reader"}), system_scope="all")
    assert house.call(OWNER, "PATCH", path, patch).status == 403
    assert house.call(member, "PATCH", path, patch).status == 409
    lease = [{"op": "replace", "path": "/lessee", "value": "let"}]
    assert house.call(OWNER, "PATCH", path, lease).status == 200
    assert house.call(LESSEE, "PATCH", path, lease).status == 403
