"""The power watch: the record follows the hardware, gently, and never in anybody's way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from holdfast.baremetal import power
from holdfast.baremetal.drivers.fake.power import FakePower
from holdfast.db.engine import ago
from holdfast.db.tables import nodes
from tests.application import Application, running


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as workers:
        yield workers


def switch(api: Application, node: str, state: str) -> None:
    """Somebody presses the button of the simulated machine."""
    interface = api.services.drivers.interface("fake-hardware", "power", "fake")
    assert isinstance(interface, FakePower)
    interface.machines.set_power(node, state, generation=0)


def make_due(api: Application) -> None:
    with api.services.db.write() as connection:
        connection.execute(update(nodes).values(power_sync_due_at=ago(1)))


def shown(api: Application, node: str) -> dict[str, Any]:
    document: dict[str, Any] = api.send("GET", f"/v1/nodes/{node}")
    return document


def test_a_machine_switched_on_by_hand_is_recorded_as_on(api: Application, pool: ThreadPoolExecutor) -> None:
    (node,) = api.enrol(state="manageable")
    switch(api, node, "power on")
    make_due(api)
    assert power.watch(api.services, pool, 10) == 1
    assert shown(api, node)["power_state"] == "power on"


def test_each_node_is_looked_at_once_per_interval(api: Application, pool: ThreadPoolExecutor) -> None:
    api.enrol(3, state="manageable")
    make_due(api)
    assert power.watch(api.services, pool, 2) == 2
    assert power.watch(api.services, pool, 2) == 1
    assert power.watch(api.services, pool, 2) == 0


def test_new_nodes_and_nodes_in_maintenance_are_left_alone(api: Application, pool: ThreadPoolExecutor) -> None:
    api.enrol()
    (node,) = api.enrol(state="manageable")
    api.send("PUT", f"/v1/nodes/{node}/maintenance", {"reason": "disk swap"})
    make_due(api)
    assert power.watch(api.services, pool, 10) == 0


def test_a_silent_bmc_ends_in_maintenance_and_comes_back_by_itself(api: Application, pool: ThreadPoolExecutor) -> None:
    (node,) = api.enrol(state="manageable")
    fail = [{"op": "add", "path": "/driver_info/fake_fail", "value": ["power.get_power_state"]}]
    api.send("PATCH", f"/v1/nodes/{node}", fail)
    for _ in range(4):
        make_due(api)
        power.watch(api.services, pool, 10)
    node_now = shown(api, node)
    assert (node_now["maintenance"], node_now["fault"], node_now["power_state"]) == (True, "power failure", None)
    assert "4 times in a row" in node_now["maintenance_reason"]

    api.send("PATCH", f"/v1/nodes/{node}", [{"op": "remove", "path": "/driver_info/fake_fail"}])
    make_due(api)
    power.watch(api.services, pool, 10)
    node_now = shown(api, node)
    assert (node_now["maintenance"], node_now["fault"], node_now["power_state"]) == (False, None, "power off")


def test_the_recorded_state_is_forced_where_the_operator_wants_that(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with running(tmp_path, conductor__force_power_state_during_sync=True) as api:
        (node,) = api.enrol(state="manageable")
        switch(api, node, "power on")
        make_due(api)
        power.watch(api.services, pool, 10)
        assert api.settle(node)["power_state"] == "power off"
        interface = api.services.drivers.interface("fake-hardware", "power", "fake")
        assert isinstance(interface, FakePower)
        assert interface.machines.get(node).power_state == "power off"
