"""Nodes in the database, on both kinds: what is unique, what goes with a node, what a list costs."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.application import Application


@pytest.mark.parametrize("field", ["uuid", "name", "instance_uuid"])
def test_what_must_be_unique_is(either_api: Application, field: str) -> None:
    value = "taken" if field == "name" else str(uuid4())
    given: dict[str, Any] = {field: value}
    either_api.enrol(**given)
    (other,) = either_api.enrol()
    answer = either_api.request("POST", "/v1/nodes", {"driver": "fake-hardware", **given})
    assert answer.status == 409
    assert value in answer.text
    if field != "uuid":
        operations = [{"op": "add", "path": f"/{field}", "value": value}]
        assert either_api.request("PATCH", f"/v1/nodes/{other}", operations).status == 409
        assert either_api.send("GET", f"/v1/nodes/{other}")[field] is None


def test_with_a_node_goes_what_belongs_to_it(either_api: Application) -> None:
    (uuid,) = either_api.enrol(name="gone")
    group = either_api.send("POST", "/v1/portgroups", {"node_uuid": uuid})["uuid"]
    port = {"node_uuid": uuid, "address": "52:54:00:00:00:01", "portgroup_uuid": group}
    either_api.send("POST", "/v1/ports", port)
    either_api.send("PUT", f"/v1/nodes/{uuid}/traits", {"traits": ["CUSTOM_A"]})
    connector = {"node_uuid": uuid, "type": "iqn", "connector_id": "iqn.2024-01.test:1"}
    either_api.send("POST", "/v1/volume/connectors", connector)
    target = {"node_uuid": uuid, "volume_type": "iscsi", "boot_index": 0, "volume_id": "v"}
    either_api.send("POST", "/v1/volume/targets", target)
    assert either_api.request("DELETE", "/v1/nodes/gone").status == 204
    for collection in ("nodes", "ports", "portgroups", "volume/connectors", "volume/targets"):
        assert list(either_api.send("GET", f"/v1/{collection}").values()) == [[]]
    with either_api.services.db.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM node_traits").scalar() == 0


@pytest.mark.parametrize(
    "path", ["/v1/nodes", "/v1/nodes/detail", "/v1/nodes?fields=uuid,traits", "/v1/nodes?associated=false"]
)
def test_a_list_of_two_hundred_takes_the_queries_of_a_list_of_one(either_api: Application, path: str) -> None:
    either_api.enrol()
    counts = []
    for more in (0, 199):
        either_api.enrol(more)
        with either_api.counted() as statements:
            either_api.send("GET", path)
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 3
