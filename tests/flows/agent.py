"""Deploy interface `direct` for scenarios, with an agent that needs no machine: a file, which outlives the process."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

from oslo_config import cfg

from holdfast.baremetal import boot_progress
from holdfast.baremetal.drivers.agent import client
from holdfast.baremetal.drivers.agent.client import Command
from holdfast.baremetal.drivers.agent.deploy import IMAGE_FORMAT, DirectDeploy
from holdfast.baremetal.drivers.registry import Drivers
from holdfast.baremetal.task import Task
from holdfast.sim import agent

SCHEMA = "CREATE TABLE IF NOT EXISTS commands (boot TEXT, id TEXT, name TEXT, status TEXT)"
INSTANCE = {"image_source": "http://images/debian.qcow2", "image_checksum": "0" * 64}


class FileAgent(client.Agent):
    """One boot of one machine. A command runs until somebody looks how it is doing."""

    def __init__(self, file: Path, boot: str) -> None:
        self._file = file
        self._boot = boot
        self.is_private = True

    def commands(self) -> list[Command]:
        self._sql("UPDATE commands SET status = 'SUCCEEDED' WHERE boot = ?", self._boot)
        rows = self._sql("SELECT id, name, status FROM commands WHERE boot = ? ORDER BY rowid", self._boot)
        return [Command(id, name, status) for id, name, status in rows]

    def ask(self, name: str, params: Mapping[str, Any]) -> Any:
        match name.partition(".")[2]:
            case "get_clean_steps":
                return {"clean_steps": {"sim": agent.CLEAN_STEPS}, "hardware_manager_version": {"sim": "1"}}
            case "get_deploy_steps":
                return {"deploy_steps": {"sim": agent.DEPLOY_STEPS}, "hardware_manager_version": {"sim": "1"}}
        return None

    def begin(self, name: str, params: Mapping[str, Any], known: Collection[str]) -> Command:
        command = Command(str(uuid4()), name.partition(".")[2], client.RUNNING)
        running = self._sql("SELECT id FROM commands WHERE boot = ? AND status = 'RUNNING'", self._boot)
        assert not running, "the agent is busy"
        self._sql(
            "INSERT INTO commands VALUES (?, ?, ?, ?)", self._boot, command.id, command.command_name, client.RUNNING
        )
        return command

    def _sql(self, statement: str, *values: str) -> list[Any]:
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            connection.execute(SCHEMA)
            return connection.execute(statement, values).fetchall()


class RehearsedDirect(DirectDeploy):
    def agent(self, task: Task) -> client.Agent | None:
        info = task.node.driver_internal_info
        if "agent_url" not in info:
            return None
        place = Path(self.conf.fake.state_file).parent if self.conf.fake.state_file else Path(self.conf.state_dir)
        boot = (info.get(boot_progress.KEY) or {}).get(boot_progress.POWER_ON)
        return FileAgent(place / "agents.sqlite", f"{task.node.uuid} {boot}")

    def prepare(self, task: Task) -> None:
        """The image cannot be looked at: there is no server."""
        info = {k: v for k, v in task.node.driver_internal_info.items() if k != boot_progress.KEY}
        task.node.driver_internal_info = {**info, IMAGE_FORMAT: "raw"}


def rehearsed(conf: cfg.ConfigOpts, drivers: Drivers) -> RehearsedDirect:
    conf.set_override("power_off_wait", 0, group="agent")
    deploy = RehearsedDirect(conf)
    deploy.drivers = drivers
    return deploy
