"""What must hold of every flow, whatever it does: the tools of `test_every_flow.py` and the kill matrix.

The yardstick is the flow itself, undisturbed: a flow that was disturbed and carried on must leave the
same picture (node, machine, flows and what their steps returned), and break no invariant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import select

from holdfast import app, config, errors, invariants
from holdfast.baremetal import nodes, ramdisk, states
from holdfast.baremetal.flows import FLOWS
from holdfast.baremetal.flows.node_work import NodeParams
from holdfast.db import schema, tables
from holdfast.db.engine import Database
from holdfast.flows.faults import WHERE
from holdfast.flows.flow import THEN, Flow
from holdfast.services import Services
from tests.flows import agent, scenarios, storage
from tests.flows.network import RehearsedNetwork
from tests.flows.scenarios import Scenario
from tests.flows.toy import settle

# Columns that differ between two runs that did the same.
VOLATILE = ("id", "uuid", "created_at", "updated_at", "provision_updated_at", "power_sync_due_at")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:\+00:00|Z)?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")


def build(state_dir: Path, *, database: str | None = None, machines: Path | None = None) -> Services:
    """The service without HTTP: database, drivers and flows, not launched."""
    overrides: dict[tuple[str, str], Any] = {
        ("DEFAULT", "state_dir"): str(state_dir),
        ("database", "connection"): database,
        ("flows", "retry_delay"): 0.0,
        ("flows", "step_attempts"): 1,
        ("conductor", "heartbeat_interval"): 1,
        ("fake", "state_file"): str(machines) if machines else None,
    }
    conf = config.load(environment={}, overrides=overrides)
    if not (state_dir / "holdfast.sqlite").exists():
        db = Database(config.database_url(conf), pool_size=2)
        schema.upgrade(db)
        db.close()
    services = app.build_services(conf)
    # Nodes with this interface are on a network service that needs nothing but a file.
    services.drivers._instances["network", "neutron"] = RehearsedNetwork(conf)
    services.drivers._instances["storage", "cinder"] = storage.rehearsed(conf, services.drivers)
    services.drivers._instances["deploy", "direct"] = agent.rehearsed(conf, services.drivers)
    return services


def close(services: Services) -> None:
    services.flows.close()
    services.db.close()


def picture(services: Services, node: str, subject: str | None = None) -> dict[str, Any]:
    """Everything about a node that a disturbance must not change, with times and ids made alike.

    `subject` is what the flow works on, where that is not the node.
    """
    table, flows, steps = tables.nodes, tables.flows, tables.flow_steps
    with services.db.read() as connection:
        found = connection.execute(select(table).where(table.c.uuid == node)).mappings().first()
        row: Mapping[Any, Any] = found or {"id": 0, "provision_state": None, "reservation": None}
        ports = connection.execute(
            select(tables.ports.c.address, tables.ports.c.internal_info).where(tables.ports.c.node_id == row["id"])
        ).all()
        allocated = select(
            tables.allocations.c.state, tables.allocations.c.last_error, tables.allocations.c.reservation
        )
        allocations = connection.execute(allocated.where(tables.allocations.c.uuid == (subject or node))).all()
        on = flows.c.subject.in_({node, subject or node})
        worked = connection.execute(select(flows).where(on).order_by(flows.c.created_at)).all()
        done = [
            (flow.kind, step.name, step.direction, step.result, step.error)
            for flow in worked
            for step in connection.execute(select(steps).where(steps.c.flow_id == flow.id).order_by(steps.c.position))
        ]
    machine = msgspec.to_builtins(services.drivers.interface("fake-hardware", "power", "fake").machines.get(node))
    # A repeated reboot boots once more, and a repeated step may use up "boot once" again.
    del machine["boots"]
    drawn = {
        "node": {name: value for name, value in row.items() if name not in VOLATILE},
        "ports": sorted(map(list, ports)),
        "bindings": services.drivers._instances["network", "neutron"].bindings(node),
        "allocations": list(map(list, allocations)),
        "machine": machine,
        "flows": [(flow.kind, flow.state, flow.error) for flow in worked],
        "steps": done,
    }
    text = msgspec.json.encode(drawn).decode()
    for pattern, word in ((_TIME, "TIME"), (_UUID, "UUID"), (_MAC, "MAC")):
        text = pattern.sub(word, text)
    result: dict[str, Any] = msgspec.json.decode(text)
    return result


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """What differs between two pictures, one line each."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            line
            for key in sorted(expected.keys() | found.keys())
            for line in differences(expected.get(key), found.get(key), f"{where}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for i, (a, b) in enumerate(zip(expected, found, strict=True))
            for line in differences(a, b, f"{where}[{i}]")
        ]
    return [] if expected == found else [f"{where}: {expected!r} became {found!r}"]


def problems(services: Services, node: str) -> list[str]:
    """Broken promises about this node."""
    broken = [*invariants.violations(services), *_left_of_the_last_instance(services)]
    return [problem for problem in broken if node in problem]


def _left_of_the_last_instance(services: Services) -> Iterator[str]:
    """A node that is free again carries nothing. Not a promise `holdfast doctor` could check: operators may put
    `instance_info` or volume targets on a free node before they deploy it. Nobody does in these tests."""
    table, targets = tables.nodes, tables.volume_targets
    free = select(table.c.uuid).where(
        table.c.provision_state == states.AVAILABLE, table.c.instance_info != "{}", table.c.instance_uuid.is_(None)
    )
    cleaned = (
        select(table.c.uuid)
        .distinct()
        .join_from(table, targets)
        .where(table.c.provision_state.in_((states.CLEANING, states.CLEANWAIT)))
    )
    with services.db.read() as connection:
        for uuid in connection.execute(free).scalars():
            yield f"Node {uuid} is available but still has the last instance's information."
        for uuid in connection.execute(cleaned).scalars():
            yield f"Node {uuid} is being cleaned and still has volume targets."


def rest(services: Services, node: str) -> None:
    """Waits until nothing works on the node, playing its ramdisk: one that waits for a heartbeat gets it.

    A step that was repeated may ask for one heartbeat more than it did the first time.
    """
    for _ in range(5):
        settle(services.flows)
        try:
            with services.db.read() as connection:
                row = nodes.find(connection, node)
        except errors.NotFound:
            return
        flow = ramdisk.CONTINUES.get(row.provision_state)
        if flow is None or row.reservation is not None:
            return
        scenarios.hear(services, node)
        services.flows.start(flow, NodeParams(node=node))
    raise AssertionError(f"Node {node} waits for ever in {row.provision_state!r}.")


def names(flow: Flow[Any]) -> list[str]:
    return [step.name for step in flow.steps] + ([THEN] if flow.then is not None else [])


def unwinding_fault(flow: Flow[Any]) -> str | None:
    """A failure of the last step that still unwinds: every undo there is runs."""
    return f"{flow.kind}.{flow.steps[flow.pivot - 1].name}.do.inside=error" if flow.pivot else None


def forward_points(scenario: Scenario, calm: Mapping[str, Any]) -> list[str]:
    """Every point at which the flow can die on its way, and the first step of those that follow it.

    `calm` is the picture of an undisturbed run: it tells which do.
    """
    kinds = [kind for kind, _state, _error in calm["flows"]]
    follow = kinds[len(kinds) - kinds[::-1].index(scenario.flow.kind) :]
    return [
        f"{kind}.{name}.do.{where}"
        for kind, steps in ((scenario.flow.kind, names(scenario.flow)), *((kind, ["begin"]) for kind in follow))
        for name in steps
        for where in WHERE
    ]


def unwinding_points(scenario: Scenario) -> list[str]:
    return [
        f"{scenario.flow.kind}.{step.name}.undo.{where}"
        for step in scenario.flow.steps[: scenario.flow.pivot]
        if callable(step.undo)
        for where in WHERE
    ]


def unscripted() -> list[str]:
    """Kinds of flows that no scenario runs."""
    known = {scenario.flow.kind for scenario in scenarios.SCENARIOS}
    return [flow.kind for flow in FLOWS.all() if flow.kind not in known]
