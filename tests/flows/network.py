"""A network interface for scenarios that talks to a network service: a file, which outlives the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from oslo_config import cfg

from holdfast.baremetal.drivers.base import NetworkInterface
from holdfast.baremetal.task import Port, Portgroup, Task

SCHEMA = "CREATE TABLE IF NOT EXISTS bindings (vif TEXT PRIMARY KEY, node TEXT, place TEXT, mac TEXT)"


class RehearsedNetwork(NetworkInterface):
    calls_out: ClassVar[bool] = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._file = Path(conf.state_dir) / "network.sqlite"

    def bindings(self, node: str) -> list[Any]:
        """What the network service holds of a node."""
        with self._service() as service:
            wanted = "SELECT vif, place, mac FROM bindings WHERE node = ? ORDER BY vif"
            return [list(row) for row in service.execute(wanted, (node,))]

    def vif_attach(self, task: Task, vif: Mapping[str, Any]) -> None:
        place = self.place_of(task, str(vif["id"]))
        assert place is not None, "it was not placed before"
        with self._service() as service:
            row = (vif["id"], task.node.uuid, place.uuid, place.address)
            service.execute("INSERT OR REPLACE INTO bindings VALUES (?, ?, ?, ?)", row)

    def vif_detach(self, task: Task, vif_id: str) -> None:
        with self._service() as service:
            service.execute("DELETE FROM bindings WHERE vif = ?", (vif_id,))
        self.forget_vif(task, vif_id)

    def port_changed(self, task: Task, port: Port) -> None:
        self._moved(port)

    def portgroup_changed(self, task: Task, portgroup: Portgroup) -> None:
        self._moved(portgroup)

    def let_go(self, task: Task) -> None:
        with self._service() as service:
            service.execute("DELETE FROM bindings WHERE node = ?", (task.node.uuid,))

    def audit(self, task: Task) -> Iterator[str]:
        noted = {vif["id"] for vif in self.vif_list(task)}
        bound = {vif for vif, _place, _mac in self.bindings(task.node.uuid)}
        for vif in sorted(noted ^ bound):
            how = "noted and not bound" if vif in noted else "bound and not noted"
            yield f"Node {task.node.uuid}: VIF {vif} is {how}."

    def _moved(self, place: Port | Portgroup) -> None:
        with self._service() as service:
            service.execute("UPDATE bindings SET mac = ? WHERE place = ?", (place.address, place.uuid))

    @contextmanager
    def _service(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=30)) as service, service:
            service.execute(SCHEMA)
            yield service
