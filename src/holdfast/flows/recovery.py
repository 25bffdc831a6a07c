"""Signs of life, and taking over from the dead.

Every process has a row in `processes` and renews it. A process is dead when its row stays unchanged
for `timeout` seconds of *our* clock (clocks of two machines never need to agree), at once when it lived
where we do and its pid is gone, and always when we hold the state directory alone. Declaring it dead
fences its flows and claims its work in one transaction; then DBOS puts that work into its queue, and
only when all of it is there the row goes away. If the claimer dies half way, the next one sees a
claim of a dead process and claims again.

A process that was declared dead and still runs finds its row dead or gone, and comes back under a new name.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from dbos import DBOS
from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError

from holdfast.db.engine import Database, ago, now
from holdfast.db.tables import flows, processes
from holdfast.flows.runner import next_generation

LOG = logging.getLogger(__name__)

# Seconds between looks for finished work to remove from the journal, and how long it stays there.
TIDY_INTERVAL = 60
KEEP_JOURNAL = 300


class Recovery:
    """The keeper thread of one process."""

    def __init__(
        self,
        db: Database,
        executor: str,
        *,
        interval: float,
        timeout: float,
        exclusive: bool,
        lost: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        drivers: Sequence[str] = (),
    ) -> None:
        self.db = db
        self.executor = executor
        self.drivers = drivers
        self.interval = interval
        self.timeout = timeout
        self.exclusive = exclusive
        self._lost = lost
        self._clock = clock
        self._place = place()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="flow-recovery", daemon=True)
        # What we saw of others: executor -> (its last beat, when we first saw that one)
        self._seen: dict[str, tuple[str, float]] = {}
        self._tidied = self._looked_for_orphans = self._clock()

    def join(self) -> None:
        """Makes this process known; before its first flow."""
        moment = now()
        with self.db.write() as connection:
            connection.execute(
                processes.insert().values(
                    executor=self.executor,
                    hostname=socket.gethostname()[:255],
                    drivers=msgspec.json.encode(list(self.drivers)).decode(),
                    pid=os.getpid(),
                    place=self._place,
                    pid_started=pid_started(os.getpid()) or "",
                    started_at=moment,
                    beat_at=moment,
                )
            )

    def start(self) -> None:
        """Takes over what is known to be lost already, then keeps watch in a thread."""
        self.sweep()
        self.adopt_orphans()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def leave(self) -> None:
        """Says that this process is gone, so that others carry its flows on without waiting."""
        with self.db.write() as connection:
            connection.execute(update(processes).where(processes.c.executor == self.executor).values(dead_at=now()))

    def _keep(self) -> None:
        while not self._stop.wait(self.interval):
            try:
                if not self.beat():
                    LOG.error("This process was taken for dead: %s lost its flows.", self.executor)
                    self._lost()
                    return
                self.sweep()
                if self._clock() - self._looked_for_orphans > self.timeout:
                    self._looked_for_orphans = self._clock()
                    self.adopt_orphans()
                if self._clock() - self._tidied > TIDY_INTERVAL:
                    self._tidied = self._clock()
                    tidy_journal()
            except Exception as error:
                # We cannot see others while we cannot reach the database: start watching afresh.
                self._seen.clear()
                LOG.warning("Flow recovery: %s", type(error).__name__, exc_info=LOG.isEnabledFor(logging.DEBUG))

    def beat(self) -> bool:
        """Renews the sign of life; False if others have buried us."""
        alive = processes.c.executor == self.executor, processes.c.dead_at.is_(None)
        with self.db.write() as connection:
            return connection.execute(update(processes).where(*alive).values(beat_at=now())).rowcount == 1

    def sweep(self) -> None:
        """Takes over from every process that is dead and nobody else's business."""
        with self.db.read() as connection:
            rows = connection.execute(select(processes)).all()
        dead = {row.executor for row in rows if row.dead_at is not None or self._is_dead(row)}
        alive = {row.executor for row in rows} - dead
        self._seen = {executor: seen for executor, seen in self._seen.items() if executor in alive}
        for row in rows:
            claimed_by_another = row.claimed_by in alive - {self.executor}
            if row.executor in dead and not claimed_by_another and self._claim(row):
                self._take_over(row.executor)

    def adopt_orphans(self) -> None:
        """Takes over what a process started that was buried before, and woke up."""
        pending = DBOS.list_workflows(status="PENDING", load_input=False, load_output=False)
        with self.db.read() as connection:
            known = set(connection.execute(select(processes.c.executor)).scalars())
        for executor in {str(workflow.executor_id) for workflow in pending} - known:
            try:
                with self.db.write() as connection:
                    gone = {"hostname": "", "pid": 0, "started_at": now(), "beat_at": now(), "dead_at": now()}
                    connection.execute(processes.insert().values(executor=executor, claimed_by=self.executor, **gone))
            except IntegrityError:
                continue  # Somebody else is at it.
            self._take_over(executor)

    def _is_dead(self, row: Any) -> bool:
        if row.executor == self.executor:
            return False
        if self.exclusive:
            return True
        # One engine per process: another executor with our pid is an earlier life of ours.
        if row.place == self._place != "" and row.pid == os.getpid():
            return True
        if row.place == self._place != "" and pid_started(row.pid) != row.pid_started:
            return True
        beat, since = self._seen.get(row.executor, ("", 0.0))
        if beat != row.beat_at:
            self._seen[row.executor] = (row.beat_at, self._clock())
            return False
        return self._clock() - since > self.timeout

    def _claim(self, row: Any) -> bool:
        """Declares the process dead, claims it and fences its flows; False if somebody else was faster."""
        unchanged = (
            processes.c.executor == row.executor,
            processes.c.claimed_by.is_(None) if row.claimed_by is None else processes.c.claimed_by == row.claimed_by,
        )
        with self.db.write() as connection:
            claimed = connection.execute(
                update(processes).where(*unchanged).values(dead_at=row.dead_at or now(), claimed_by=self.executor)
            )
            return claimed.rowcount == 1

    def _take_over(self, executor: str) -> None:
        with self.db.write() as connection:
            fenced = connection.execute(
                update(flows)
                .where(flows.c.executor == executor, flows.c.state == "running")
                .values(generation=next_generation(self.db, connection), executor=self.executor)
            ).rowcount
        left = DBOS.list_workflows(status="PENDING", executor_id=executor, load_input=False, load_output=False)
        for workflow in left:
            DBOS.resume_workflow(workflow.workflow_id)
        with self.db.write() as connection:
            connection.execute(delete(processes).where(processes.c.executor == executor))
        if left or fenced:
            LOG.warning("Took over %d flows of %s, which is gone.", len(left), executor)


def tidy_journal() -> None:
    """Removes finished work from the journal: what operators see is in our own tables."""
    while True:
        finished = DBOS.list_workflows(
            status=["SUCCESS", "ERROR", "CANCELLED"],
            completed_before=ago(KEEP_JOURNAL),
            limit=200,
            load_input=False,
            load_output=False,
        )
        if finished:
            DBOS.delete_workflows([workflow.workflow_id for workflow in finished])
        if len(finished) < 200:
            return


def place() -> str:
    """Names the machine, its boot and the pid namespace we live in; empty where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def pid_started(pid: int) -> str | None:
    """When the process with this pid started, in the kernel's ticks; None if it is gone or a zombie."""
    try:
        fields = _after_name(Path(f"/proc/{pid}/stat").read_text())
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _after_name(stat: str) -> Sequence[str]:
    # The name, in parentheses, may hold anything; what counts begins behind the last one.
    return stat.rpartition(")")[2].split()
