"""Traits under contention, and what they cost, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import errors
from holdfast.baremetal import instances, traits
from tests.application import Application


def many(count: int) -> list[str]:
    return [f"CUSTOM_N{number:03}" for number in range(count)]


def test_writers_at_the_same_moment_cannot_exceed_fifty(either_api: Application) -> None:
    node = either_api.enrol()[0]
    either_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": many(45)})
    db = either_api.services.db
    refused: list[Exception] = []

    def add(name: str) -> Callable[[], None]:
        def work() -> None:
            gate.wait()
            try:
                traits.add(db, node, [name])
            except errors.InvalidValue as error:
                refused.append(error)

        return work

    gate = threading.Barrier(12)
    threads = [threading.Thread(target=add(f"CUSTOM_EXTRA_{number}")) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(either_api.send("GET", f"/v1/nodes/{node}/traits")["traits"]) == 50
    assert len(refused) == 7


def test_a_page_reads_its_nodes_and_all_their_traits_in_one_query(either_api: Application) -> None:
    def statements(limit: int) -> int:
        with either_api.counted() as sent:
            nodes = either_api.send("GET", f"/v1/nodes?fields=uuid,traits&limit={limit}")["nodes"]
        assert len(nodes) == limit
        assert all(len(n["traits"]) == 3 for n in nodes)
        return len(sent)

    for node in either_api.enrol(50):
        either_api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": many(3)})
    assert statements(1) == statements(50) == 1


def test_a_trait_removed_after_the_first_check_still_stops_the_deploy(
    either_api: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the handler's check and the flow's first step somebody takes the trait away."""
    api = either_api
    node = api.enrol(state="available", instance_info={"traits": ["CUSTOM_A"]})[0]
    api.send("PUT", f"/v1/nodes/{node}/traits/CUSTOM_A")
    check = instances.require_deployable

    def check_then_lose_the_trait(*arguments: Any) -> None:
        check(*arguments)
        traits.remove(api.services.db, node, "CUSTOM_A")

    monkeypatch.setattr(instances, "require_deployable", check_then_lose_the_trait)
    answer = api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    assert answer.status == 400
    assert "CUSTOM_A" in answer.text
    document = api.send("GET", f"/v1/nodes/{node}")
    assert (document["provision_state"], document["reservation"]) == ("available", None)
