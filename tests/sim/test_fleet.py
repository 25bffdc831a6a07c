"""A planned fleet is the same whenever it is planned, and nothing in it collides."""

from __future__ import annotations

from itertools import chain
from typing import Any

import os_traits
import pytest

from holdfast.sim import fleet


def test_a_larger_fleet_contains_the_smaller() -> None:
    assert fleet.plan(65)[:30] == fleet.plan(30)


def test_names_say_where_a_server_stands() -> None:
    names = [server.node["name"] for server in fleet.plan(21, prefix="row3-")]
    assert names[:2] == ["row3-01-u01", "row3-01-u03"]
    assert names[20] == "row3-02-u01"


def test_names_uuids_and_addresses_are_unique_in_and_between_fleets() -> None:
    servers = fleet.plan(500) + fleet.plan(500, prefix="hall")
    things: list[dict[str, Any]] = [s.node for s in servers]
    things += chain.from_iterable(s.ports for s in servers)
    things += [s.portgroup for s in servers if s.portgroup]
    for key in ("uuid", "name", "address"):
        values = [thing[key] for thing in things if key in thing]
        assert len(values) == len(set(values)), key


def test_ports_and_racks_belong_together() -> None:
    for server in fleet.plan(40):
        assert len(server.ports) == 2
        assert fleet.chassis(server)["uuid"] == server.node["chassis_uuid"]
        for port in server.ports:
            assert port["node_uuid"] == server.node["uuid"]
            assert port.get("portgroup_uuid") == (server.portgroup or {}).get("uuid")
    assert {bool(server.portgroup) for server in fleet.plan(20)} == {True, False}


def test_traits_are_known_or_custom() -> None:
    known = set(os_traits.get_traits())
    for trait in chain.from_iterable(server.traits for server in fleet.plan(20)):
        assert trait in known or trait.startswith("CUSTOM_")


@pytest.mark.parametrize(("driver", "key"), [("redfish", "redfish_address"), ("ipmi", "ipmi_address")])
def test_servers_of_a_real_driver_can_be_reached(driver: str, key: str) -> None:
    addresses = [server.node["driver_info"][key] for server in fleet.plan(40, driver=driver)]
    assert len(set(addresses)) == 40
