"""Many allocations at the same moment: no node is given twice, none is left over while somebody wants it."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import update

from holdfast import invariants
from holdfast.db.tables import nodes
from tests.application import Application

NODES, ASKED, AT_ONCE = 50, 200, 16


def fleet(api: Application, count: int) -> None:
    """Free nodes, without the road there."""
    for _ in range(count):
        api.send("POST", "/v1/nodes", {"driver": "fake-hardware", "resource_class": "big"})
    with api.services.db.write() as connection:
        connection.execute(update(nodes).values(provision_state="available", power_state="power off"))


def all_settled(api: Application) -> list[dict[str, Any]]:
    until = time.monotonic() + 120
    while True:
        found: list[dict[str, Any]] = api.send("GET", "/v1/allocations")["allocations"]
        if all(allocation["state"] != "allocating" for allocation in found):
            return found
        assert time.monotonic() < until
        time.sleep(0.1)


def test_two_hundred_ask_for_fifty_nodes(either_api: Application) -> None:
    api = either_api
    fleet(api, NODES)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        body = {"resource_class": "big"}
        answers = list(pool.map(lambda _: api.request("POST", "/v1/allocations", body).status, range(ASKED)))
    assert set(answers) == {201}
    found = all_settled(api)
    states = Counter(allocation["state"] for allocation in found)
    assert states == {"active": NODES, "error": ASKED - NODES}
    given = [allocation["node_uuid"] for allocation in found if allocation["node_uuid"]]
    assert len(given) == len(set(given)) == NODES
    reasons = {allocation["last_error"] for allocation in found if allocation["state"] == "error"}
    assert all("resource class big is free" in reason for reason in reasons)
    assert invariants.violations(api.services) == []


@pytest.mark.parametrize("ways", [4])
def test_asking_and_letting_go_at_once_loses_no_node(either_api: Application, ways: int) -> None:
    api = either_api
    fleet(api, 2)

    def use(_number: int) -> None:
        for _ in range(5):
            uuid = api.send("POST", "/v1/allocations", {"resource_class": "big"})["uuid"]
            # Whether it has its node already or not yet.
            assert api.request("DELETE", f"/v1/allocations/{uuid}").status == 204

    with ThreadPoolExecutor(ways) as pool:
        list(pool.map(use, range(ways)))
    assert all_settled(api) == []
    until = time.monotonic() + 30
    while api.send("GET", "/v1/nodes?associated=true")["nodes"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert invariants.violations(api.services) == []
