"""Starts flows, waits for them, repairs them. One engine per process; DBOS underneath.

Nothing here changes state and then starts work: the journal entry comes first, and the flow's first
step is the state change. A crash anywhere leaves either no trace or a journal entry that recovery finds.
"""

from __future__ import annotations

import logging
import secrets
import threading
import traceback
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec
from dbos import DBOS, SetWorkflowID
from dbos import error as dbos_errors
from sqlalchemy import Engine as Connections
from sqlalchemy import select, update

from holdfast import errors
from holdfast.db.engine import Database, now
from holdfast.db.tables import flow_steps, flows
from holdfast.flows import journal
from holdfast.flows.faults import Faults
from holdfast.flows.flow import Flow, Registry, Work
from holdfast.flows.recovery import Recovery
from holdfast.flows.runner import Ending, Fenced, Over, Process, Runner, mark_stuck, next_generation
from holdfast.secrets import mask_text
from holdfast.services import Services

LOG = logging.getLogger(__name__)

P = TypeVar("P", bound=msgspec.Struct)

# Seconds a stop waits for steps that are under way.
GRACE = 30.0


class _Waiter:
    """What a caller in this process waits for."""

    def __init__(self) -> None:
        self.started: Future[None] = Future()
        self.ended: Future[Ending] = Future()

    def start(self) -> None:
        if not self.started.done():
            self.started.set_result(None)

    def fail(self, error: Exception) -> None:
        for future in (self.started, self.ended):
            if not future.done():
                future.set_exception(error)


class Engine:
    """The flows of one process. `services` is set by the application before `launch()`."""

    services: Services

    def __init__(
        self,
        db: Database,
        journal_url: str,
        registry: Registry,
        *,
        executor: str,
        step_attempts: int,
        retry_delay: float,
        heartbeat_interval: int,
        heartbeat_timeout: int,
        exclusive: bool,
        drivers: Sequence[str] = (),
    ) -> None:
        self.db = db
        self.registry = registry
        self.journal_url = journal_url
        self.step_attempts = step_attempts
        self.retry_delay = retry_delay
        self.heartbeat_interval = heartbeat_interval
        self.heartbeat_timeout = heartbeat_timeout
        self.exclusive = exclusive
        self.drivers = drivers
        self.faults = Faults.from_environment()
        self._name = executor[:48]
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._waiters: dict[str, _Waiter] = {}
        self._active = 0
        self._idle = threading.Condition()
        self._journal: Connections | None = None
        self._process: Process | None = None
        self._recovery: Recovery | None = None

    def launch(self) -> None:
        """Joins the installation, takes over lost work, and accepts flows."""
        # Never the same name twice: whoever was declared dead stays dead.
        executor = f"{self._name}.{secrets.token_hex(4)}"
        recovery = Recovery(
            self.db,
            executor,
            interval=self.heartbeat_interval,
            timeout=self.heartbeat_timeout,
            exclusive=self.exclusive,
            lost=self._rejoin,
            drivers=self.drivers,
        )
        recovery.join()
        self._journal = journal.engine(self.journal_url)
        DBOS(config=journal.config(self.journal_url, self._journal, executor))

        # Bound to this life of the process: a thread that outlives it still carries the old name.
        @DBOS.workflow(name="holdfast.flow", max_recovery_attempts=None)
        def workflow(flow_id: str, kind: str, params: str, run: int, request_id: str | None, chained: bool) -> None:
            self._execute(process, flow_id, kind, params, run, request_id, chained)

        process = Process(
            db=self.db,
            registry=self.registry,
            services=self.services,
            executor=executor,
            faults=self.faults,
            step_attempts=self.step_attempts,
            retry_delay=self.retry_delay,
            stopping=threading.Event(),
            workflow=workflow,
        )
        DBOS.launch()
        self._process, self._recovery = process, recovery
        recovery.start()

    @property
    def is_running(self) -> bool:
        """Whether flows are accepted."""
        return self._process is not None

    def close(self, grace: float = GRACE) -> None:
        """Stops accepting, lets running steps end, leaves the rest of their flows to recovery."""
        self._closed.set()
        with self._lock:
            process, recovery = self._process, self._recovery
            self._process = self._recovery = None
        if process is None or recovery is None:
            return
        process.stopping.set()
        with self._idle:
            ended = self._idle.wait_for(lambda: self._active == 0, grace)
        recovery.stop()
        self._destroy()
        if ended:
            recovery.leave()

    def start(self, flow: Flow[P], params: P, *, request_id: str | None = None) -> str:
        """Starts a flow; its id, once the first step is durable. Raises what that step raised."""
        flow_id = str(uuid.uuid4())
        waiter = self._begin(flow, params, flow_id, request_id)
        waiter.started.result()
        return flow_id

    def post(self, flow: Flow[P], params: P) -> None:
        """Starts a flow and waits for nothing: it is in the journal, and whatever it meets is told there."""
        self._begin(flow, params, str(uuid.uuid4()), None)

    def run(
        self, flow: Flow[P], params: P, *, timeout: float | None = None, request_id: str | None = None
    ) -> dict[str, Any]:
        """Runs a flow to its end; what its steps returned, by name. Raises what it failed with."""
        flow_id = str(uuid.uuid4())
        waiter = self._begin(flow, params, flow_id, request_id)
        try:
            return waiter.ended.result(timeout).results
        except TimeoutError:
            raise errors.Unavailable(f"This takes longer; flow {flow_id} goes on with it.") from None

    def retry(self, flow_id: str) -> None:
        """Carries a stuck flow on where it got stuck; returns when that is durable."""
        row = self._row(flow_id)
        if row.state != "stuck":
            raise errors.Conflict(f"Flow {flow_id} is {row.state}; only a stuck flow can be retried.")
        self._flow(row.kind)
        self._submit(flow_id, row.kind, row.params, row.runs + 1, row.request_id).started.result()

    def abandon(self, flow_id: str, reason: str) -> None:
        """Gives a flow up: it stops at its next boundary, and what it holds is released."""
        row = self._row(flow_id)
        flow = self._flow(row.kind)
        process = self._require()
        # First fenced and visibly stuck: if we die before the end, an operator sees it and repeats this.
        with self.db.write() as connection:
            fenced = connection.execute(
                update(flows)
                .where(flows.c.id == flow_id, flows.c.state.in_(("running", "stuck")))
                .values(
                    state="stuck",
                    generation=next_generation(self.db, connection),
                    reason=mask_text(reason),
                    error=row.error or "It was being abandoned.",
                    updated_at=now(),
                )
                .returning(flows.c.generation)
            ).first()
            steps = connection.execute(select(flow_steps).where(flow_steps.c.flow_id == flow_id)).all()
        if fenced is None:
            raise errors.Conflict(f"Flow {flow_id} is {row.state}; there is nothing left to abandon.")
        DBOS.cancel_workflow(workflow_id(flow_id, row.runs))
        if flow.abandon is not None:
            results = {s.name: msgspec.json.decode(s.result) for s in steps if s.result is not None}
            error = f"Flow {row.kind} was abandoned: {mask_text(reason)}"
            work = Work(flow_id, row.kind, fenced.generation, process.services, results, error)
            flow.abandon(work, msgspec.json.decode(row.params, type=flow.params_type))
        with self.db.write() as connection:
            abandoned = connection.execute(
                update(flows)
                .where(flows.c.id == flow_id, flows.c.generation == fenced.generation)
                .values(state="abandoned", updated_at=now(), finished_at=now())
            )
        if abandoned.rowcount != 1:
            raise errors.Conflict(f"Flow {flow_id} was carried on meanwhile; look at it again.")

    def _begin(self, flow: Flow[P], params: P, flow_id: str, request_id: str | None) -> _Waiter:
        if self.registry.get(flow.kind) is not flow:
            raise ValueError(f"Flow {flow.kind!r} is not the registered one.")
        text = msgspec.json.encode(params).decode()
        return self._submit(flow_id, flow.kind, text, 1, request_id)

    def _submit(self, flow_id: str, kind: str, params: str, run: int, request_id: str | None) -> _Waiter:
        process = self._require()
        key = workflow_id(flow_id, run)
        waiter = _Waiter()
        with self._lock:
            if key in self._waiters:
                raise errors.Conflict(f"Flow {flow_id} is being carried on already.")
            self._waiters[key] = waiter
        try:
            with SetWorkflowID(key, workflow_id_reuse_policy="reject"):
                DBOS.start_workflow(process.workflow, flow_id, kind, params, run, request_id, False)
        except dbos_errors.DBOSWorkflowIDInUseError:
            self._waiters.pop(key, None)
            raise errors.Conflict(f"Flow {flow_id} is being carried on already.") from None
        except BaseException as error:
            self._waiters.pop(key, None)
            if self._process is not process:
                raise errors.Unavailable("The service is stopping; try again in a moment.") from error
            raise
        return waiter

    def _execute(
        self,
        process: Process,
        flow_id: str,
        kind: str,
        params: str,
        run: int,
        request_id: str | None,
        chained: bool,
    ) -> None:
        """The body of the DBOS workflow."""
        waiter = self._waiters.get(workflow_id(flow_id, run)) or _Waiter()
        with self._idle:
            self._active += 1
        try:
            flow = self.registry.get(kind)
            runner = Runner(process, flow, flow_id, params, run=run, request_id=request_id, chained=chained)
            ending = runner.run(waiter.start)
            if ending.error is not None:
                waiter.fail(ending.error.error())
            else:
                waiter.ended.set_result(ending)
        except Fenced:
            waiter.fail(errors.Unavailable(f"Flow {flow_id} is carried on elsewhere; look at it there."))
            raise
        except Over:
            waiter.fail(errors.Unavailable(f"Flow {flow_id} has ended elsewhere; look at it there."))
        except Exception as error:
            details = "".join(traceback.format_exception(error))
            LOG.error("Flow %s %s broke: %s", kind, flow_id, mask_text(details))
            public = f"Its execution broke ({type(error).__name__}); see the log, flow {flow_id}."
            waiter.fail(errors.HoldfastError(public))
            try:
                mark_stuck(self.db, flow_id, run, public)
            except Exception:
                # Unmarked it must not end: left in the journal as it is, recovery tries again.
                raise Fenced from None
        finally:
            self._waiters.pop(workflow_id(flow_id, run), None)
            with self._idle:
                self._active -= 1
                self._idle.notify_all()

    def _rejoin(self) -> None:
        """Comes back under a new name after others took us for dead and took our flows."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                return
        process.stopping.set()
        self._destroy()
        while not self._closed.is_set():
            try:
                self.launch()
                return
            except Exception as error:
                LOG.error("Cannot rejoin: %s", type(error).__name__)
                self._destroy()
                self._closed.wait(self.heartbeat_interval)

    def _destroy(self) -> None:
        DBOS.destroy(destroy_registry=True)
        if self._journal is not None:
            self._journal.dispose()
            self._journal = None

    def _require(self) -> Process:
        if self._process is None:
            raise errors.Unavailable("The service is starting or stopping; try again in a moment.")
        return self._process

    def _row(self, flow_id: str) -> Any:
        with self.db.read() as connection:
            row = connection.execute(select(flows).where(flows.c.id == flow_id)).first()
        if row is None:
            raise errors.NotFound(f"There is no flow {flow_id}.")
        return row

    def _flow(self, kind: str) -> Flow[Any]:
        try:
            return self.registry.get(kind)
        except KeyError:
            raise errors.Conflict(f"This service does not know flows of kind {kind}.") from None


def workflow_id(flow_id: str, run: int) -> str:
    """What the journal calls a run of a flow."""
    return flow_id if run == 1 else f"{flow_id}.{run}"
