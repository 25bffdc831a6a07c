"""What operators see of flows: the list, one flow with its timeline, and what to do next."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, and_, delete, or_, select

from holdfast import errors
from holdfast.db.engine import Database, ago
from holdfast.db.tables import flow_steps, flows
from holdfast.secrets import mask_json

STATES = ("running", "done", "unwound", "stuck", "abandoned")
FINISHED = ("done", "unwound", "abandoned")
PURGE_BATCH = 500

NEXT_ACTIONS = {
    "running": ("Nothing: step {step} is under way. To give the flow up: holdfast flow abandon {id} --reason WHY"),
    "done": "Nothing: it is done.",
    "unwound": "Everything was undone. Mend the cause, then make the same request again.",
    "stuck": (
        "Mend the cause, then: holdfast flow retry {id}. To give the flow up: holdfast flow abandon {id} --reason WHY"
    ),
    "abandoned": "Look at {subject} by hand: the flow was given up half way.",
}

_COLUMNS = [column for column in flows.c if column.name not in ("params", "executor")]


def listing(
    connection: Connection,
    *,
    state: str | None = None,
    kind: str | None = None,
    subject: str | None = None,
    marker: str | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Flows, newest first; `marker` is the id of the last one of the page before."""
    query = select(*_COLUMNS).order_by(flows.c.created_at.desc(), flows.c.id.desc()).limit(limit)
    for column, value in ((flows.c.state, state), (flows.c.kind, kind), (flows.c.subject, subject)):
        if value is not None:
            query = query.where(column == value)
    if marker is not None:
        last = connection.execute(select(flows.c.created_at).where(flows.c.id == marker)).scalar()
        if last is None:
            raise errors.BadRequest(f"There is no flow {marker} to go on from.")
        older = and_(flows.c.created_at == last, flows.c.id < marker)
        query = query.where(or_(flows.c.created_at < last, older))
    return [_flow(row) for row in connection.execute(query)]


def show(connection: Connection, flow_id: str) -> dict[str, Any]:
    """One flow with its parameters and the timeline of its steps."""
    row = connection.execute(select(flows).where(flows.c.id == flow_id)).first()
    if row is None:
        raise errors.NotFound(f"There is no flow {flow_id}.")
    steps = select(flow_steps).where(flow_steps.c.flow_id == flow_id).order_by(flow_steps.c.position)
    return {
        **_flow(row),
        "executor": row.executor,
        "params": msgspec.json.decode(mask_json(row.params)),
        "steps": [_step(step) for step in connection.execute(steps)],
    }


def purge(db: Database, days: int) -> int:
    """Forgets flows that finished more than `days` days ago; how many. Stuck ones stay until repaired."""
    total = 0
    while True:
        old = select(flows.c.id).where(flows.c.state.in_(FINISHED), flows.c.finished_at < ago(days * 86400))
        with db.write() as connection:
            ids = list(connection.execute(old.limit(PURGE_BATCH)).scalars())
            if ids:
                connection.execute(delete(flows).where(flows.c.id.in_(ids)))
        total += len(ids)
        if len(ids) < PURGE_BATCH:
            return total


def _flow(row: Any) -> dict[str, Any]:
    shown = {
        "id": row.id,
        "kind": row.kind,
        "subject": row.subject,
        "state": row.state,
        "step": row.step,
        "error": row.error,
        "reason": row.reason,
        "runs": row.runs,
        "generation": row.generation,
        "request_id": row.request_id,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "finished_at": row.finished_at,
    }
    return {**shown, "next_action": NEXT_ACTIONS[row.state].format(**shown)}


def _step(row: Any) -> dict[str, Any]:
    """`note` is what a step has to say to who looks: the key of that name in its result."""
    result = None if row.result is None else msgspec.json.decode(row.result)
    return {
        "name": row.name,
        "direction": row.direction,
        "attempts": row.attempts,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "error": row.error,
        "note": result.get("note") if isinstance(result, dict) else None,
    }
