"""Toy flows and the small world they change, for tests of the engine itself.

The world is a directory: a step makes a file, its undo removes it, and every call appends a line to a
log. `python -m tests.flows.toy start|recover|serve …` runs them in a process of its own, to be killed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
from sqlalchemy import func, select

from holdfast import errors
from holdfast.db.engine import Database
from holdfast.db.tables import flows, metadata
from holdfast.flows.engine import Engine
from holdfast.flows.flow import NOTHING, Flow, Next, Registry, Step, Work
from holdfast.services import Services


class Thing(msgspec.Struct, kw_only=True):
    world: str
    name: str = "thing"
    # A step of this name fails: "refuse" for good, "fail" every time, "crash" as a bug would.
    at: str = ""
    how: str = ""
    # A step of this name waits until the file `go` is in the world.
    wait_at: str = ""


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("*.made"))

    def calls(self) -> list[str]:
        log = self.path / "log"
        return log.read_text().split() if log.exists() else []

    def write(self, line: str) -> None:
        # One write of one line: two processes may both be at it.
        log = os.open(self.path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, f"{line}\n".encode())
        os.close(log)


def wait_for(path: Path, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} does not come.")
        time.sleep(0.01)


def _act(name: str, direction: str, effect: Callable[[Path], None]) -> Callable[[Work, Thing], Any]:
    def action(work: Work, params: Thing) -> dict[str, Any]:
        world = World(Path(params.world))
        world.write(f"{name}.{direction}:{work.generation}")
        if params.wait_at == f"{name}.{direction}":
            (world.path / "waiting").touch()
            wait_for(world.path / "go")
        if params.at == f"{name}.{direction}" and not (world.path / "mended").exists():
            if params.how == "refuse":
                raise errors.NodeLocked("Thing is locked; password=hunter2")
            if params.how == "crash":
                raise RuntimeError("token=sesame at /etc/secret")
            raise errors.DriverFailed("The machine at http://admin:hunter2@bmc/ does not answer.")
        effect(world.path / f"{params.name}.{name}.made")
        return {"made": name, "lock": work.lock}

    return action


def do(name: str) -> Callable[[Work, Thing], Any]:
    return _act(name, "do", lambda path: path.touch())


def undo(name: str) -> Callable[[Work, Thing], Any]:
    return _act(name, "undo", lambda path: path.unlink(missing_ok=True))


def _abandon(work: Work, params: Thing) -> None:
    World(Path(params.world)).write(f"abandoned:{work.lock}")
    for path in Path(params.world).glob("*.made"):
        path.unlink()


TOYS = Registry()
BUILD = TOYS.register(
    Flow(
        "build",
        Thing,
        [
            Step("ground", do("ground"), undo=undo("ground")),
            Step("look", do("look"), undo=undo("look")),
            Step("walls", do("walls"), undo=undo("walls")),
            Step("roof", do("roof"), pivot=True),
            Step("paint", do("paint")),
        ],
        subject=lambda p: p.name,
        summary="Builds a house.",
        abandon=_abandon,
    )
)
CHAIN = TOYS.register(
    Flow(
        "buy",
        Thing,
        [Step("pay", do("pay"), undo=undo("pay")), Step("sign", do("sign"), undo=NOTHING)],
        subject=lambda p: p.name,
        summary="Buys the ground, then builds.",
        then=lambda work, params: Next(BUILD, params, work.next_id),
    )
)


def make_engine(url: str, journal: str, *, registry: Registry = TOYS, **settings: Any) -> Engine:
    """An engine on a database of its own, its tables made, not launched."""
    db = Database(url)
    metadata.create_all(db.writer)
    options: dict[str, Any] = {
        "executor": "toy",
        "step_attempts": 2,
        "retry_delay": 0.0,
        "heartbeat_interval": 1,
        "heartbeat_timeout": 3,
        "exclusive": db.is_sqlite,
    }
    engine = Engine(db, journal, registry, **(options | settings))
    engine.services = cast(Services, None)
    return engine


@contextmanager
def launched(engine: Engine) -> Iterator[Engine]:
    engine.launch()
    try:
        yield engine
    finally:
        engine.close()
        engine.db.close()


def settle(engine: Engine, timeout: float = 60) -> dict[str, str]:
    """Waits until no flow runs and the journal has nothing to do; the state of every flow by id."""
    from dbos import DBOS

    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        busy = DBOS.list_workflows(status=["PENDING", "ENQUEUED"], load_input=False, load_output=False)
        with engine.db.read() as connection:
            running = connection.execute(
                select(func.count()).select_from(flows).where(flows.c.state == "running")
            ).scalar()
            if not busy and not running:
                rows = connection.execute(select(flows.c.id, flows.c.state)).all()
                return {row.id: row.state for row in rows}
        time.sleep(0.02)
    raise TimeoutError("The flows do not come to rest.")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["start", "recover", "serve"])
    parser.add_argument("url")
    parser.add_argument("journal")
    parser.add_argument("--kind", default="build")
    parser.add_argument("--params", default="{}")
    parser.add_argument("--timeout", type=int, default=3)
    arguments = parser.parse_args()
    engine = make_engine(arguments.url, arguments.journal, heartbeat_timeout=arguments.timeout)
    with launched(engine):
        flow = TOYS.get(arguments.kind)
        if arguments.command != "recover":
            params = msgspec.json.decode(arguments.params, type=Thing)
            flow_id = engine.start(flow, params)
            sys.stdout.write(f"{flow_id}\n")
            sys.stdout.flush()
        if arguments.command == "serve":
            threading.Event().wait()
        sys.stdout.write(json.dumps(sorted(settle(engine).values())) + "\n")


if __name__ == "__main__":
    main()
