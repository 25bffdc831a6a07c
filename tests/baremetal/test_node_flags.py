"""Fields of nodes that change what may happen to them: automated_clean, protected, retired; and those that
describe them: owner, lessee, description, network_data."""

from __future__ import annotations

from typing import Any

import pytest

from tests.application import Application
from tests.baremetal.wiring import put, replace

CLEANED = "erase"


def erased(api: Application, node: str) -> int:
    """How often the machine's disks were erased."""
    counts: dict[str, int] = api.send("GET", f"/v1/nodes/{node}/vendor_passthru/effects")["counts"]
    return counts.get(CLEANED, 0)


@pytest.mark.parametrize(("field", "count"), [(None, 1), (True, 1), (False, 0)])
def test_a_node_may_refuse_to_be_cleaned_by_itself(api: Application, field: bool | None, count: int) -> None:
    (node,) = api.enrol(state="available", automated_clean=field)
    assert api.send("GET", f"/v1/nodes/{node}")["automated_clean"] is field
    assert erased(api, node) == count


def test_the_nodes_word_counts_more_than_the_option(api: Application) -> None:
    api.services.conf.set_override("automated_clean", False, group="conductor")
    (unasked,) = api.enrol(state="available")
    (asked,) = api.enrol(state="available", automated_clean=True)
    assert (erased(api, unasked), erased(api, asked)) == (0, 1)


def test_automated_clean_may_be_unset(api: Application) -> None:
    (node,) = api.enrol(automated_clean=True)
    patch = [{"op": "remove", "path": "/automated_clean"}]
    assert api.send("PATCH", f"/v1/nodes/{node}", patch)["automated_clean"] is None


# -- protected


def protect(api: Application, node: str, value: Any = True, reason: Any = None) -> int:
    patch = [{"op": "add", "path": "/protected", "value": value}]
    if reason is not None:
        patch.append({"op": "add", "path": "/protected_reason", "value": reason})
    return api.request("PATCH", f"/v1/nodes/{node}", patch).status


def test_a_protected_instance_stays(api: Application) -> None:
    (node,) = api.enrol(state="active")
    assert protect(api, node, reason="production") == 200
    for verb in ("deleted", "rebuild"):
        refused = api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb})
        assert (refused.status, refused.json["code"]) == (403, "node-protected")
        assert "production" in refused.text
    api.send("PUT", f"/v1/nodes/{node}/maintenance", {})
    assert api.request("DELETE", f"/v1/nodes/{node}").status == 403
    assert api.send("GET", f"/v1/nodes/{node}")["provision_state"] == "active"
    api.send("DELETE", f"/v1/nodes/{node}/maintenance")
    assert protect(api, node, False) == 200
    assert api.send("GET", f"/v1/nodes/{node}")["protected_reason"] is None
    assert api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"}).status == 202
    api.settle(node, "available")


def test_only_an_instance_can_be_protected_and_a_reason_needs_protection(api: Application) -> None:
    (node,) = api.enrol(state="available")
    assert protect(api, node) == 409
    assert api.request("PATCH", f"/v1/nodes/{node}", replace("/protected_reason", "x")).status == 400
    assert api.request("POST", "/v1/nodes", {"driver": "fake-hardware", "protected": True}).status == 400
    put(api, node, provision_state="rescue")
    assert protect(api, node, "yes") == 200


# -- retired


def test_a_retired_node_is_not_offered_again(api: Application) -> None:
    (node,) = api.enrol(state="active")
    retire = [*replace("/retired", True), *replace("/retired_reason", "worn out")]
    assert api.request("PATCH", f"/v1/nodes/{node}", retire).status == 200
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    assert api.settle(node)["provision_state"] == "manageable"
    refused = api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": "provide"})
    assert refused.status == 400
    assert "worn out" in refused.text
    shown = api.send("PATCH", f"/v1/nodes/{node}", replace("/retired", False))
    assert (shown["retired"], shown["retired_reason"]) == (False, None)
    assert api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": "provide"}).status == 202
    api.settle(node, "available")


def test_an_available_node_cannot_retire_and_a_reason_needs_retirement(api: Application) -> None:
    (node,) = api.enrol(state="available")
    assert api.request("PATCH", f"/v1/nodes/{node}", replace("/retired", True)).status == 409
    assert api.request("PATCH", f"/v1/nodes/{node}", replace("/retired_reason", "x")).status == 400


@pytest.mark.parametrize("version", ["1.1", "1.60", "1.61"])
def test_retired_nodes_are_listed_apart_in_every_version(api: Application, version: str) -> None:
    (old,) = api.enrol(retired=True)
    (new,) = api.enrol()
    for query, expected in (("true", old), ("false", new)):
        found = api.request("GET", f"/v1/nodes?retired={query}", version=version).json["nodes"]
        assert [node["uuid"] for node in found] == [expected]


# -- what describes them


def test_nodes_are_found_by_owner_lessee_project_and_words(either_api: Application) -> None:
    api = either_api
    owned = api.send("POST", "/v1/nodes", {"driver": "fake-hardware", "owner": "p1", "description": "100%_Rack A"})
    leased = api.send("POST", "/v1/nodes", {"driver": "fake-hardware", "owner": "p2", "lessee": "p1"})
    for query, expected in (
        ("owner=p1", [owned]),
        ("owner=p2", [leased]),
        ("lessee=p1", [leased]),
        ("project=p1", [owned, leased]),
        ("description_contains=rack", [owned]),
        ("description_contains=100%25_", [owned]),
        ("description_contains=1%25A", []),
    ):
        found = api.send("GET", f"/v1/nodes?{query}")["nodes"]
        assert [node["uuid"] for node in found] == [node["uuid"] for node in expected], query


def test_a_description_has_4096_characters_at_most(api: Application) -> None:
    (node,) = api.enrol(description="x" * 4096)
    assert api.request("PATCH", f"/v1/nodes/{node}", replace("/description", "x" * 4097)).status == 400


CARD = {"id": "eth0", "type": "phy", "ethernet_mac_address": "52:54:00:12:34:56", "mtu": 1500}
NETWORK = {
    "id": "net0",
    "type": "ipv4",
    "link": "eth0",
    "network_id": "99e88329-f20d-4741-9593-25bf07847b16",
    "ip_address": "192.0.2.10",
    "netmask": "255.255.255.0",
    "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}],
}
DNS = {"type": "dns", "address": "2001:db8::53"}
WHOLE = {"links": [CARD], "networks": [NETWORK], "services": [DNS]}
BOND = {**CARD, "type": "bond", "bond_mode": "802.3ad", "bond_links": ["eth0", "eth1"]}
VLAN = {"id": "v", "type": "vlan", "vlan_mac_address": "52:54:00:12:34:56", "vlan_id": 7, "vlan_link": "eth0"}


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({}, 200),
        (WHOLE, 200),
        ({**WHOLE, "links": [CARD, BOND, VLAN]}, 200),
        ({**WHOLE, "more": 1}, 200),
        ({"links": [], "networks": [], "services": []}, 200),
        ({"links": [], "networks": []}, 400),
        ({**WHOLE, "links": {}}, 400),
        ({**WHOLE, "links": [{**CARD, "ethernet_mac_address": "x"}]}, 400),
        ({**WHOLE, "links": [{"id": "eth0", "type": "phy"}]}, 400),
        ({**WHOLE, "links": [{**CARD, "type": ["phy"]}]}, 400),
        ({**WHOLE, "links": [{**CARD, "mtu": 0}]}, 400),
        ({**WHOLE, "links": [{**BOND, "bond_mode": "x"}]}, 400),
        ({**WHOLE, "networks": [{**NETWORK, "ip_address": "2001:db8::1"}]}, 400),
        ({**WHOLE, "networks": [{**NETWORK, "type": "ipv5"}]}, 400),
        ({**WHOLE, "networks": [{**NETWORK, "routes": [{"network": "0.0.0.0"}]}]}, 400),
        ({**WHOLE, "services": [{"type": "dns"}]}, 400),
        ("text", 400),
    ],
)
def test_network_data_describes_a_network(shared_api: Application, document: Any, status: int) -> None:
    (node,) = shared_api.enrol()
    answer = shared_api.request("PATCH", f"/v1/nodes/{node}", replace("/network_data", document))
    assert answer.status == status, answer
    if status == 200:
        assert answer.json["network_data"] == document
