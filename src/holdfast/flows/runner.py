"""One execution of one flow: forward to the end, or backward after a failure.

Every step is one DBOS step, so a step whose outcome is in the journal is never run again. Before each
try of a step there is one transaction in our own database, the boundary: it checks the fence, writes
down how the previous step ended, and that this one has begun. What an action raises becomes data
(`Outcome`) before DBOS sees it.

The fence: an execution owns its flow as long as `flows.generation` is the number it was given. Whoever
takes the flow over raises that number, and the older execution stops at its next boundary.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from dbos import DBOS, SetWorkflowID
from dbos import error as dbos_errors
from sqlalchemy import Connection, and_, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolExhausted

from holdfast import errors
from holdfast.db.engine import Database, now
from holdfast.db.tables import counters, flow_steps, flows, processes
from holdfast.flows.faults import Faults
from holdfast.flows.flow import NOTHING, THEN, Action, Flow, Registry, Work
from holdfast.secrets import mask_text
from holdfast.services import Services

LOG = logging.getLogger(__name__)

# Rows of `flow_steps` are ordered by position: step i, done, is i; undone, it is UNDO - i.
UNDO = 1000
LONGEST_DELAY = 60.0
# Seconds between tries of a boundary while the database does not answer.
DATABASE_DELAY = 1.0


class Fenced(BaseException):
    """This execution must stop and record nothing: the flow is not its own any more, or the process ends.

    Not an `Exception`, so that neither an action nor DBOS takes it for the failure of a step.
    """


class Over(BaseException):
    """There is nothing to do: the flow has ended, or a later run has taken over."""


class Failure(msgspec.Struct, frozen=True):
    """An error as the journal keeps it: only what may be shown."""

    type: str
    code: str
    status: int
    public: str

    def error(self) -> errors.HoldfastError:
        """The error it was, so that a caller answers with the right status."""
        return _error_types().get(self.type, errors.HoldfastError)(self.public)


class Outcome(msgspec.Struct, omit_defaults=True):
    """How a step ended."""

    at: str
    ok: Any = None
    error: Failure | None = None


class Point(msgspec.Struct):
    """Where a run begins: at the first step, or where an earlier run got stuck."""

    name: str
    direction: str = "do"
    results: dict[str, Any] = {}
    error: Failure | None = None


@dataclass
class Ending:
    state: str  # "done", "unwound", "stuck", or "refused": the first step failed and left nothing
    results: dict[str, Any] = field(default_factory=dict)
    error: Failure | None = None


@dataclass(frozen=True)
class Process:
    """What the executions in one process share."""

    db: Database
    registry: Registry
    services: Services
    executor: str
    faults: Faults
    step_attempts: int
    retry_delay: float
    stopping: threading.Event
    # The DBOS workflow, for chained flows: (flow id, kind, params, run, request id, chained)
    workflow: Callable[[str, str, str, int, str | None, bool], None]


class Runner:
    """Runs one flow in one process, once."""

    def __init__(
        self,
        process: Process,
        flow: Flow[Any],
        flow_id: str,
        params: str,
        *,
        run: int,
        request_id: str | None,
        chained: bool,
    ) -> None:
        self.process = process
        self.flow = flow
        self.params_text = params
        self.params = msgspec.json.decode(params, type=flow.params_type)
        self.run_number = run
        self.request_id = request_id
        self.chained = chained
        # Generation 0: not taken yet. The first boundary takes the flow and learns the real one.
        self.work = Work(flow_id, flow.kind, 0, process.services)
        self._untouched = run == 1
        self._previous: tuple[int, Outcome] | None = None

    def run(self, started: Callable[[], None]) -> Ending:
        """To the end; calls `started` once the first step of this run is durable."""
        point = Point(self.flow.steps[0].name)
        if self.run_number > 1:
            point = self._resume()
            started()
        self.work.results.update(point.results)
        names = [step.name for step in self.flow.steps]
        index = len(names) if point.name == THEN else names.index(point.name)
        if point.direction == "undo":
            failure = point.error or Failure("HoldfastError", "internal", 500, "It was being undone.")
            return self._unwind(index, failure)
        return self._forward(index, started)

    def _forward(self, index: int, started: Callable[[], None]) -> Ending:
        for i in range(index, len(self.flow.steps)):
            step = self.flow.steps[i]
            outcome = self._step(i, step.name, "do", step.action, step.attempts)
            if outcome.error is not None:
                if i >= self.flow.pivot:
                    return self._finish("stuck", outcome.error)
                return self._unwind(i, outcome.error)
            self.work.results[step.name] = outcome.ok
            if i == 0:
                started()
        if self.flow.then is not None:
            outcome = self._step(len(self.flow.steps), THEN, "do", self._choose_next, None)
            if outcome.error is not None:
                return self._finish("stuck", outcome.error)
            if outcome.ok is not None:
                self._start_next(outcome.ok)
        return self._finish("done", None)

    def _unwind(self, index: int, failure: Failure) -> Ending:
        """Undoes step `index`, which may have half happened, and all before it."""
        self.work.error = failure.public
        for i in range(index, -1, -1):
            step = self.flow.steps[i]
            if step.undo is NOTHING or step.undo is None:
                continue
            outcome = self._step(UNDO - i, step.name, "undo", step.undo, step.attempts)
            if outcome.error is not None:
                why = f"{outcome.error.public} This was while undoing, after: {failure.public}"
                return self._finish("stuck", failure, why)
        refused = index == 0 and self.run_number == 1 and not self.chained
        return self._finish("refused" if refused else "unwound", failure)

    # One step

    def _step(self, position: int, name: str, direction: str, action: Action[Any], attempts: int | None) -> Outcome:
        tries = attempts or self.process.step_attempts
        outcome: Outcome = self._journalled(
            f"{name}.{direction}", lambda: self._attempt(position, name, direction, action, tries), Outcome
        )
        self._untouched = False
        self._previous = (position, outcome)
        self.process.faults.kill_at(f"{self.flow.kind}.{name}.{direction}.after")
        return outcome

    def _attempt(self, position: int, name: str, direction: str, action: Action[Any], attempts: int) -> Outcome:
        """Tries the action until it works, fails for good, or has been tried often enough."""
        point = f"{self.flow.kind}.{name}.{direction}"
        failure: Failure | None = None
        delay = self.process.retry_delay
        faults = self.process.faults
        for left in range(attempts - 1, -1, -1):
            faults.kill_at(f"{point}.before")
            self._boundary(partial(self._begin, position, name, direction, failure))
            try:
                faults.fail_at(f"{point}.before")
                # There and back: a result reads the same now and from the journal.
                result = msgspec.json.decode(msgspec.json.encode(action(self.work, self.params)))
                faults.fail_at(f"{point}.inside")
                faults.kill_at(f"{point}.inside")
                return Outcome(now(), ok=result)
            except Exception as error:
                failure = self._describe(error, f"{name} ({direction})", left)
                if not left or not _may_pass(error):
                    break
            if self.process.stopping.wait(min(delay, LONGEST_DELAY)):
                raise Fenced
            delay *= 2
        return Outcome(now(), error=failure)

    def _describe(self, error: Exception, where: str, left: int) -> Failure:
        """The public side of an error; its private side goes to the log."""
        name = f"Flow {self.flow.kind} {self.work.flow_id}, step {where}"
        if isinstance(error, errors.HoldfastError):
            public = mask_text(error.public)
            if _may_pass(error):
                LOG.warning("%s failed, %d more tries: %s", name, left, public)
            else:
                LOG.info("%s refused: %s", name, public)
            return Failure(type(error).__name__, error.code, error.status, public)
        details = "".join(traceback.format_exception(error))
        LOG.error("%s failed, %d more tries: %s", name, left, mask_text(details))
        where_to_look = f"flow {self.work.flow_id}"
        if self.request_id:
            where_to_look += f", request {self.request_id}"
        return Failure(
            "HoldfastError",
            errors.HoldfastError.code,
            errors.HoldfastError.status,
            f"An unexpected error ({type(error).__name__}) in step {where}; see the log, {where_to_look}.",
        )

    def _journalled(self, name: str, function: Callable[[], Any], kind: type[Any]) -> Any:
        """What the journal holds for this step; runs it first if there is nothing yet."""
        try:
            raw = DBOS.run_step({"name": name}, lambda: msgspec.to_builtins(function()))
        except (
            dbos_errors.DBOSWorkflowConflictIDError,
            dbos_errors.DBOSWorkflowCancelledError,
        ) as error:
            # DBOS would keep this thread until whoever owns the workflow now has finished it.
            raise Fenced from error
        return msgspec.convert(raw, kind)

    # The next flow

    def _choose_next(self, work: Work, params: Any) -> dict[str, str] | None:
        assert self.flow.then is not None  # noqa: S101
        chosen = self.flow.then(work, params)
        if chosen is None:
            return None
        if chosen.id != work.next_id:
            raise ValueError("A chained flow must have the id work.next_id.")
        if self.process.registry.get(chosen.flow.kind) is not chosen.flow:
            raise ValueError(f"Flow {chosen.flow.kind!r} is not the registered one.")
        params_text = msgspec.json.encode(chosen.params).decode()
        return {"kind": chosen.flow.kind, "params": params_text, "id": chosen.id}

    def _start_next(self, chosen: dict[str, str]) -> None:
        # The child and the note in our own journal that it exists are one transaction of DBOS.
        with SetWorkflowID(chosen["id"]):
            DBOS.start_workflow(
                self.process.workflow,
                chosen["id"],
                chosen["kind"],
                chosen["params"],
                1,
                self.request_id,
                True,
            )

    # The boundary: everything below writes our own database

    def _boundary(self, write: Callable[[Connection], None]) -> None:
        """One transaction, repeated until the database answers: an outage is no failure of the step."""
        while True:
            if self.process.stopping.is_set():
                raise Fenced
            generation = self.work.generation
            try:
                with self.process.db.write() as connection:
                    write(connection)
                return
            except (OperationalError, InterfaceError, PoolExhausted) as error:
                LOG.warning("Flow %s waits for the database: %s", self.work.flow_id, type(error).__name__)
                # Whether it was committed is unknown; taking the flow again is right either way.
                self.work.generation = generation
                self.process.stopping.wait(DATABASE_DELAY)

    def _begin(self, position: int, name: str, direction: str, failure: Failure | None, connection: Connection) -> None:
        self._hold(connection, step=name)
        self._close_previous(connection)
        insert = sqlite.insert if self.process.db.is_sqlite else postgresql.insert
        error = failure.public if failure else None
        row = insert(flow_steps).values(
            flow_id=self.work.flow_id,
            position=position,
            name=name,
            direction=direction,
            attempts=1,
            started_at=now(),
            error=error,
        )
        connection.execute(
            row.on_conflict_do_update(
                index_elements=[flow_steps.c.flow_id, flow_steps.c.position],
                set_={"attempts": flow_steps.c.attempts + 1, "finished_at": None, "error": error},
            )
        )

    def _hold(self, connection: Connection, **values: Any) -> None:
        """Takes the flow, or makes sure it is still ours; writes `values` on its row."""
        if self.work.generation == 0:
            self._take(connection)
        changed = connection.execute(
            update(flows)
            .where(flows.c.id == self.work.flow_id, flows.c.generation == self.work.generation)
            .values(updated_at=now(), **values)
        )
        if changed.rowcount != 1:
            raise Fenced

    def _take(self, connection: Connection) -> None:
        # The share lock makes declaring this process dead wait for this transaction, or this
        # transaction see that it is: there is no moment in between.
        me = (
            select(processes.c.executor)
            .where(processes.c.executor == self.process.executor, processes.c.dead_at.is_(None))
            .with_for_update(read=True)
        )
        if connection.execute(me).first() is None:
            raise Fenced
        run, moment, generation = self.run_number, now(), next_generation(self.process.db, connection)
        taken = connection.execute(
            update(flows)
            .where(
                flows.c.id == self.work.flow_id,
                or_(
                    and_(flows.c.runs == run, flows.c.state == "running"),
                    and_(flows.c.runs == run - 1, flows.c.state == "stuck"),
                ),
            )
            .values(
                generation=generation,
                runs=run,
                state="running",
                executor=self.process.executor,
                finished_at=None,
            )
            .returning(flows.c.generation)
        ).first()
        if taken is not None:
            self.work.generation = generation
            return
        there = connection.execute(select(flows.c.id).where(flows.c.id == self.work.flow_id)).first()
        if there is not None or not self._untouched:
            raise Over
        row = flows.insert().values(
            id=self.work.flow_id,
            kind=self.flow.kind,
            subject=self.flow.subject(self.params),
            params=self.params_text,
            state="running",
            generation=generation,
            runs=1,
            executor=self.process.executor,
            request_id=self.request_id,
            created_at=moment,
            updated_at=moment,
        )
        try:
            connection.execute(row)
        except IntegrityError:
            # Another execution was a moment faster.
            raise Fenced from None
        self.work.generation = generation

    def _close_previous(self, connection: Connection) -> None:
        if self._previous is None:
            return
        position, outcome = self._previous
        connection.execute(
            update(flow_steps)
            .where(flow_steps.c.flow_id == self.work.flow_id, flow_steps.c.position == position)
            .values(
                finished_at=outcome.at,
                error=outcome.error.public if outcome.error else None,
                result=None if outcome.error else msgspec.json.encode(outcome.ok).decode(),
            )
        )

    def _finish(self, state: str, failure: Failure | None, why: str | None = None) -> Ending:
        moment = now()
        shown = why or (failure.public if failure else None)

        def write(connection: Connection) -> None:
            if state == "refused":
                self._hold(connection)
                connection.execute(delete(flows).where(flows.c.id == self.work.flow_id))
                return
            over = state != "stuck"
            self._hold(
                connection,
                state=state,
                error=shown,
                finished_at=moment if over else None,
                **({"step": None} if over else {}),
            )
            self._close_previous(connection)

        self._boundary(write)
        return Ending(state, dict(self.work.results), failure)

    def _resume(self) -> Point:
        """Takes a stuck flow and reads where it got stuck; journalled, so that a crash replays the same."""

        def read() -> Point:
            found: list[Any] = []

            def write(connection: Connection) -> None:
                self._hold(connection, error=None)
                rows = select(flow_steps).where(flow_steps.c.flow_id == self.work.flow_id)
                found[:] = connection.execute(rows.order_by(flow_steps.c.position)).all()

            self._boundary(write)
            results = {
                row.name: msgspec.json.decode(row.result)
                for row in found
                if row.direction == "do" and row.result is not None
            }
            error = next((row.error for row in found if row.direction == "do" and row.error), None)
            failure = Failure("HoldfastError", "internal", 500, error) if error else None
            return Point(found[-1].name, found[-1].direction, results, failure)

        point: Point = self._journalled("resume", read, Point)
        return point


def next_generation(db: Database, connection: Connection) -> int:
    """Higher than any before it, of this flow or another: hardware compares them across flows."""
    insert = sqlite.insert if db.is_sqlite else postgresql.insert
    first = insert(counters).values(name="fence", value=1)
    raised = first.on_conflict_do_update(index_elements=[counters.c.name], set_={"value": counters.c.value + 1})
    return int(connection.execute(raised.returning(counters.c.value)).scalar_one())


def mark_stuck(db: Database, flow_id: str, run: int, public: str) -> None:
    """Marks a flow stuck whose execution broke in a way that no step is to blame for."""
    with db.write() as connection:
        connection.execute(
            update(flows)
            .where(flows.c.id == flow_id, flows.c.runs == run, flows.c.state == "running")
            .values(state="stuck", generation=next_generation(db, connection), error=public, updated_at=now())
        )


def _may_pass(error: Exception) -> bool:
    """Whether trying again may help: hardware and networks recover, a wrong request stays wrong."""
    return isinstance(error, (errors.DriverFailed, errors.Unavailable)) or not isinstance(error, errors.HoldfastError)


def _error_types() -> dict[str, type[errors.HoldfastError]]:
    found: dict[str, type[errors.HoldfastError]] = {}
    waiting: list[type[errors.HoldfastError]] = [errors.HoldfastError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return found
