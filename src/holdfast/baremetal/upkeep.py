"""What runs by itself beside the requests: the power watch, the end of waits nobody answers, old flows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
from sqlalchemy import func, select

from holdfast import errors
from holdfast.baremetal import boot_progress, power, ramdisk, states
from holdfast.baremetal.flows import abort_node
from holdfast.db.engine import ago
from holdfast.db.tables import flows, nodes
from holdfast.flows import records
from holdfast.services import Services
from holdfast.web import metrics

LOG = logging.getLogger(__name__)

# state: the option that limits how long a node may wait in it
TIMEOUTS = {
    states.DEPLOYWAIT: "deploy_callback_timeout",
    states.CLEANWAIT: "clean_callback_timeout",
    states.INSPECTWAIT: "inspect_wait_timeout",
    states.RESCUEWAIT: "rescue_callback_timeout",
}


class Upkeep:
    """The background threads of one process; every process of an installation may run them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stopping = threading.Event()
        workers = services.conf.conductor.sync_power_state_workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="power-watch")
        conf = services.conf
        self._threads = [
            self._every(conf.conductor.check_provision_state_interval, "waits", end_overdue_waits),
            self._every(ramdisk.PATIENCE, "heartbeats", ramdisk.act_on_pending),
            self._every(15, "gauges", measure),
            self._every(3600, "old-flows", purge),
        ]
        if conf.conductor.sync_power_state_interval:
            self._threads.append(self._every(1, "power-watch", self._watch))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=10)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _every(self, seconds: float, name: str, work: Callable[[Services], None]) -> threading.Thread:
        def loop() -> None:
            while not self._stopping.wait(seconds):
                try:
                    work(self._services)
                except Exception:
                    LOG.exception("Background work %s failed; it is tried again in %s s", name, seconds)

        return threading.Thread(target=loop, name=name, daemon=True)

    def _watch(self, services: Services) -> None:
        """Nodes that are due, a few at a time. Each is due again an interval after it was read, so that the
        reads stay as spread out as the first ones were."""
        batch = services.conf.conductor.sync_power_state_workers
        while power.watch(services, self._pool, batch) == batch and not self._stopping.is_set():
            pass


def end_overdue_waits(services: Services) -> None:
    """A ramdisk that stays silent too long, or whose boot gets stuck, fails what waits for it, with a reason
    that says where to look."""
    limits = {state: getattr(services.conf.conductor, option) for state, option in TIMEOUTS.items()}
    with services.db.read() as connection:
        rows = connection.execute(
            select(
                nodes.c.uuid, nodes.c.provision_state, nodes.c.provision_updated_at, nodes.c.driver_internal_info
            ).where(nodes.c.provision_state.in_(limits), nodes.c.reservation.is_(None), nodes.c.maintenance.is_(False))
        ).all()
    for row in rows:
        seconds = limits[row.provision_state]
        reason = boot_progress.overdue(services.conf, msgspec.json.decode(row.driver_internal_info))
        if reason is None and seconds and row.provision_updated_at < ago(seconds):
            reason = (
                f"The ramdisk was not heard of for {seconds} seconds while the node was in "
                f"{row.provision_state!r}. Look at the machine's console for how far its boot came."
            )
        if reason is None:
            continue
        params = abort_node.AbortParams(node=row.uuid, event="fail", reason=reason)
        try:
            services.flows.start(abort_node.ABORT, params)
        except errors.HoldfastError as error:  # somebody was faster
            LOG.info("Not ending the wait of node %s: %s", row.uuid, error.public)


def measure(services: Services) -> None:
    """Counts for /metrics, so that a scrape costs no query."""
    with services.db.read() as connection:
        by_state = connection.execute(
            select(nodes.c.provision_state, func.count()).group_by(nodes.c.provision_state)
        ).all()
        live = connection.execute(
            select(flows.c.kind, flows.c.state, func.count())
            .where(flows.c.state.in_(("running", "stuck")))
            .group_by(flows.c.kind, flows.c.state)
        ).all()
    metrics.NODES.clear()
    for state, count in by_state:
        metrics.NODES.labels(state).set(count)
    metrics.FLOWS.clear()
    for kind, state, count in live:
        metrics.FLOWS.labels(kind, state).set(count)


def purge(services: Services) -> None:
    if days := services.conf.flows.keep_finished_days:
        records.purge(services.db, days)
