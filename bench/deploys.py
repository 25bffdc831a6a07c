"""Whole flows on simulated machines: deploy to `active`, tear down to `available`, without cleaning in between.

Every node is asked for at once, 16 requests under way; the work behind the answers then goes on side by side, as far
as the service lets it. That it is done is read from the service's own table, because asking the service would
cost it more than the flow. A flow counts if it reaches its state; what does not move any more has failed.
"""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Engine, create_engine

from bench import BenchError, fleet
from bench.load import Request, fire
from bench.report import Part
from bench.services import Service
from bench.stage import housed, progress
from bench.tables import number

NODES = 32
AT_ONCE = 16
PROBES = 12
POLL_SECONDS = 0.02
STALLED_SECONDS = 10.0
CLASS = "bench.flows"
COUNT = (
    "SELECT count(*) FROM nodes WHERE resource_class = '"  # noqa: S608
    + CLASS
    + "' AND provision_state = '{state}' AND reservation IS NULL"
)


@dataclass(frozen=True)
class Flows:
    """What came of deploying and tearing down every node; a flow is one of the two."""

    per_second: float
    cpu_ms: float
    answer_p50_ms: float
    answer_p99_ms: float
    done: int
    asked: int
    first_step_ms: float | None


def measure_flows(database: str, names: Sequence[str], rounds: int) -> Part:
    """Every service in turn, the best round of each."""
    rows = []
    with housed(database, tuple(names)) as services:
        for service in services:
            progress(f"{database}: deploy and tear down in {service.name}")
            service.start()
            with_nodes = sorted((_round(service) for _ in range(rounds)), key=lambda flows: flows.cpu_ms)
            service.stop()
            rows.append([service.name, *_cells(with_nodes)])
    header = ["deploy and tear down", "flows/s", "CPU ms a flow", "answer p50 ms", "p99 ms", "first step ms", "done"]
    notes = [
        f"{NODES} nodes of fake-hardware, deployed and torn down, {AT_ONCE} requests under way; no cleaning.",
        "First step: from the request to the start of the flow's first step, one deploy at a time, by the flow's"
        " timeline. Ironic keeps none.",
    ]
    return Part(f"Deploy and tear down, {database}", [header, *rows], notes)


def _cells(rounds: Sequence[Flows]) -> list[str]:
    first_steps = [flows.first_step_ms for flows in rounds if flows.first_step_ms is not None]
    return [
        number(max(flows.per_second for flows in rounds)),
        number(min(flows.cpu_ms for flows in rounds)),
        number(min(flows.answer_p50_ms for flows in rounds)),
        number(min(flows.answer_p99_ms for flows in rounds)),
        number(min(first_steps, default=None)),
        f"{sum(flows.done for flows in rounds)} of {sum(flows.asked for flows in rounds)}",
    ]


def _round(service: Service) -> Flows:
    """With nodes of its own, gone afterwards."""
    engine = create_engine(service.settings.database_url)
    nodes = [str(uuid.uuid4()) for _ in range(NODES)]
    fire(service.job([_enrol(node) for node in nodes]))
    for verb, state in (("manage", "manageable"), ("provide", "available")):
        fire(service.job([_ask(node, verb) for node in nodes]))
        if _settled(engine, state, len(nodes)) < len(nodes):
            raise BenchError(f"{service.name} does not get {len(nodes)} nodes to {state}")
    service.wait_until_quiet()

    before, began = service.cpu_seconds(), time.perf_counter()
    deploys = fire(service.job([_ask(node, "active") for node in nodes], AT_ONCE), tolerant=True)
    active = _settled(engine, "active", len(deploys.latencies))
    removals = fire(service.job([_ask(node, "deleted") for node in nodes], AT_ONCE), tolerant=True)
    freed = _settled(engine, "available", NODES) - (NODES - active)
    seconds = time.perf_counter() - began
    service.wait_until_quiet()
    cpu = service.cpu_seconds() - before

    first_step = _first_step_ms(service, engine, nodes[:PROBES]) if service.name == "holdfast" else None
    fire(service.job([Request("DELETE", f"/v1/nodes/{node}") for node in nodes]), tolerant=True)
    engine.dispose()
    done = active + max(freed, 0)
    deploys.latencies += removals.latencies
    return Flows(
        done / seconds,
        cpu * 1000 / max(done, 1),
        deploys.percentile(50) * 1000,
        deploys.percentile(99) * 1000,
        done,
        2 * NODES,
        first_step,
    )


def _first_step_ms(service: Service, engine: Engine, nodes: Sequence[str]) -> float:
    """The median time from a request to the first step of its flow."""
    times = []
    for node in nodes:
        asked = time.time()
        service.put(f"/v1/nodes/{node}/states/provision", {"target": "active"})
        (flow,) = service.get_beside(f"/flows?subject={node}&kind=deploy_node&limit=1").json()["flows"]
        steps = service.get_beside(f"/flows/{flow['id']}").json()["steps"]
        times.append(datetime.fromisoformat(steps[0]["started_at"]).timestamp() - asked)
    _settled(engine, "active", len(nodes))
    fire(service.job([_ask(node, "deleted") for node in nodes]))
    _settled(engine, "available", NODES)
    return statistics.median(times) * 1000


def _settled(engine: Engine, state: str, wanted: int) -> int:
    """Wait until so many nodes rest in a state, or nothing has moved for a while; how many do."""
    seen, moved = -1, time.monotonic()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while seen < wanted and time.monotonic() - moved < STALLED_SECONDS:
            found = int(connection.exec_driver_sql(COUNT.format(state=state)).scalar_one())
            if found != seen:
                seen, moved = found, time.monotonic()
            else:
                time.sleep(POLL_SECONDS)
    return seen


def _enrol(node: str) -> Request:
    body = {
        **fleet.node_body(node, f"flow-{node}", 0),
        "deploy_interface": "fake",
        "resource_class": CLASS,
    }
    return Request("POST", "/v1/nodes", json.dumps(body))


def _ask(node: str, verb: str) -> Request:
    return Request("PUT", f"/v1/nodes/{node}/states/provision", json.dumps({"target": verb}))
