"""Simulated machines that outlive the process that drives them.

What real hardware keeps when the service is killed (power, boot device, disks, BIOS, RAID) is kept
here in one SQLite file, so that a restarted service meets the machines as it left them. Every
change is one transaction that also writes down the *effect*: tests and operators can ask what
really happened to a machine and how often, and compare it with what the service believes.

Changing calls are "ensure" calls: asked for what is already so, they have no effect. Each carries
the caller's generation; a machine refuses one lower than the highest it has seen, as hardware
behind a fence would. Generation 0 is a caller outside any flow and is never refused.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from holdfast import errors

POWER_ON = "power on"
POWER_OFF = "power off"

# What a machine boots while nobody chose.
DEFAULT_BOOT_DEVICE = "pxe"

# The last effects of each machine that can be read back; the counters never forget.
EFFECTS_KEPT = 100

FACTORY_BIOS = {
    "BootMode": "Uefi",
    "Hyperthreading": "Enabled",
    "ProcVirtualization": "Enabled",
    "SecureBoot": "Disabled",
    "SriovGlobalEnable": "Disabled",
}

SCHEMA = """
CREATE TABLE IF NOT EXISTS machines (
    node TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    state TEXT NOT NULL
) WITHOUT ROWID;
-- A ring per machine: the newest effect takes the place of the oldest.
CREATE TABLE IF NOT EXISTS effects (
    node TEXT NOT NULL,
    slot INTEGER NOT NULL,
    number INTEGER NOT NULL,
    effect TEXT NOT NULL,
    detail TEXT NOT NULL,
    generation INTEGER NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (node, slot)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (
    node TEXT NOT NULL,
    effect TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (node, effect)
) WITHOUT ROWID;
"""

# NORMAL, not FULL: simulated hardware has to survive a killed process, not a power cut of its host.
PRAGMAS = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", "PRAGMA busy_timeout=30000")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One machine as it is now; the defaults are a machine fresh from the factory."""

    power_state: str = POWER_OFF
    boot_device: str | None = None  # what it boots every time, once somebody chose
    boot_once: str | None = None  # what it boots next time only
    booted_from: str | None = None
    boots: int = 0
    disk: dict[str, Any] | None = None  # None: nobody wiped it yet; {}: blank; else the instance on it
    bios: dict[str, str] = msgspec.field(default_factory=FACTORY_BIOS.copy)
    raid: list[dict[str, Any]] = []
    nmis: int = 0
    indicators: dict[str, str] = {}  # "led@chassis": "blinking"
    rescued: bool = False
    console: bool = False


class Effect(msgspec.Struct, frozen=True):
    """Something that happened to a machine; `number` counts from 1 for each machine."""

    number: int
    effect: str
    detail: str
    generation: int
    at: str


class Happening(NamedTuple):
    """A change about to be made: what to call it, and the fields of the machine that differ afterwards."""

    effect: str
    fields: dict[str, Any]
    detail: str = ""


class Machines:
    """All simulated machines in one file. Threads and processes may share it.

    `delays` says how many seconds things take: power, deploy, clean, inspect, rescue. Half of the time
    passes before the effect and half after it, so that a process killed meanwhile leaves either.
    """

    def __init__(self, path: Path, delays: Mapping[str, float] | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._delays = dict(delays or {})
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        for pragma in PRAGMAS:
            self._connection.execute(pragma)
        self._connection.executescript(SCHEMA)

    def close(self) -> None:
        self._connection.close()

    # What is so

    def get(self, node: str) -> Machine:
        """The machine of that node; one nobody touched yet is fresh from the factory."""
        rows = self._read("SELECT state FROM machines WHERE node = ?", node)
        return _decode(rows[0][0]) if rows else Machine()

    def inspect(self, node: str) -> Machine:
        """The same, taking as long as a thorough look at hardware does."""
        with self._taking_time("inspect"):
            return self.get(node)

    def known(self) -> list[str]:
        """The nodes whose machines something happened to."""
        return [node for (node,) in self._read("SELECT node FROM machines ORDER BY node")]

    def effects(self, node: str) -> list[Effect]:
        """The last effects on a machine, the oldest first."""
        rows = self._read(
            "SELECT number, effect, detail, generation, at FROM effects WHERE node = ? ORDER BY number", node
        )
        return [Effect(*row) for row in rows]

    def counts(self, node: str) -> dict[str, int]:
        """How often each effect happened to a machine since it exists; `refused` counts stale callers."""
        return dict(self._read("SELECT effect, count FROM counters WHERE node = ?", node))

    def generation(self, node: str) -> int:
        """The highest generation that changed the machine."""
        rows = self._read("SELECT generation FROM machines WHERE node = ?", node)
        return int(rows[0][0]) if rows else 0

    # What can be done to it. Each answers whether it had an effect.

    def set_power(self, node: str, power_state: str, *, generation: int) -> bool:
        def change(machine: Machine) -> Happening | None:
            if machine.power_state == power_state:
                return None
            if power_state == POWER_ON:
                return Happening("power on", _booted(machine))
            return Happening("power off", {"power_state": POWER_OFF})

        return self._ensure(node, generation, change, takes="power")

    def reboot(self, node: str, *, generation: int) -> bool:
        def change(machine: Machine) -> Happening:
            return Happening("power on" if machine.power_state == POWER_OFF else "reboot", _booted(machine))

        return self._ensure(node, generation, change, takes="power")

    def set_boot_device(self, node: str, device: str, persistent: bool, *, generation: int) -> bool:
        if persistent:
            wanted = Happening("boot device", {"boot_device": device, "boot_once": None}, device)
        else:
            wanted = Happening("boot once", {"boot_once": device}, device)
        return self._ensure(node, generation, lambda _: wanted)

    def inject_nmi(self, node: str, *, generation: int) -> bool:
        return self._ensure(node, generation, lambda machine: Happening("nmi", {"nmis": machine.nmis + 1}))

    def set_indicator(self, node: str, indicator: str, state: str, *, generation: int) -> bool:
        return self._ensure(
            node,
            generation,
            lambda machine: Happening("indicator", {"indicators": {**machine.indicators, indicator: state}}, indicator),
        )

    def install(self, node: str, instance: Mapping[str, Any], *, generation: int) -> bool:
        """Puts an instance on the disk, replacing any other."""
        wanted = Happening("install", {"disk": dict(instance)}, str(instance.get("instance_uuid") or ""))
        return self._ensure(node, generation, lambda _: wanted, takes="deploy")

    def adopt(self, node: str, instance: Mapping[str, Any], *, generation: int) -> bool:
        """The machine carried this instance before anybody looked: nothing is written to it."""
        wanted = Happening("adopt", {"disk": dict(instance)}, str(instance.get("instance_uuid") or ""))
        return self._ensure(node, generation, lambda _: wanted)

    def remove(self, node: str, *, generation: int) -> bool:
        """Takes the instance off; what it left on the disk is for `erase`."""

        def change(machine: Machine) -> Happening | None:
            return Happening("remove", {"disk": None, "rescued": False}) if machine.disk else None

        return self._ensure(node, generation, change)

    def erase(self, node: str, *, generation: int) -> bool:
        """Leaves the disk blank."""
        return self._ensure(node, generation, lambda _: Happening("erase", {"disk": {}}), takes="clean")

    def set_bios(self, node: str, settings: Mapping[str, str], *, generation: int) -> bool:
        def change(machine: Machine) -> Happening:
            return Happening("bios", {"bios": {**machine.bios, **settings}}, ", ".join(sorted(settings)))

        return self._ensure(node, generation, change, takes="clean")

    def reset_bios(self, node: str, *, generation: int) -> bool:
        wanted = Happening("bios reset", {"bios": dict(FACTORY_BIOS)})
        return self._ensure(node, generation, lambda _: wanted, takes="clean")

    def set_raid(self, node: str, disks: list[dict[str, Any]], *, generation: int) -> bool:
        wanted = Happening("raid", {"raid": disks}, f"{len(disks)} logical disks")
        return self._ensure(node, generation, lambda _: wanted, takes="clean")

    def set_rescued(self, node: str, rescued: bool, *, generation: int) -> bool:
        wanted = Happening("rescue" if rescued else "unrescue", {"rescued": rescued})
        return self._ensure(node, generation, lambda _: wanted, takes="rescue")

    def set_console(self, node: str, console: bool, *, generation: int) -> bool:
        wanted = Happening("console on" if console else "console off", {"console": console})
        return self._ensure(node, generation, lambda _: wanted)

    # How

    def _ensure(
        self, node: str, generation: int, change: Callable[[Machine], Happening | None], *, takes: str = ""
    ) -> bool:
        """Applies a change in one transaction, unless the caller is stale or the machine is so already."""
        with self._taking_time(takes):
            with self._transaction() as db:
                row = db.execute("SELECT generation, state FROM machines WHERE node = ?", (node,)).fetchone()
                seen, machine = (row[0], _decode(row[1])) if row else (0, Machine())
                stale = 0 < generation < seen
                happening = Happening("refused", {}) if stale else change(machine)
                after = msgspec.structs.replace(machine, **happening.fields) if happening else machine
                if after != machine or generation > seen:
                    db.execute(
                        "INSERT OR REPLACE INTO machines (node, generation, state) VALUES (?, ?, ?)",
                        (node, max(seen, generation), msgspec.json.encode(after)),
                    )
                if happening and (after != machine or stale):
                    _write_down(db, node, happening, generation)
            if stale:
                raise errors.DriverFailed(
                    f"The machine of node {node} refused a stale request: generation {generation}, "
                    f"but {seen} was here before. Another process has taken this work over."
                )
        return after != machine

    def _read(self, statement: str, *arguments: Any) -> list[Any]:
        with self._lock:
            return self._connection.execute(statement, arguments).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _taking_time(self, what: str) -> Iterator[None]:
        half = self._delays.get(what, 0.0) / 2
        time.sleep(half)
        yield
        time.sleep(half)


def _decode(state: str | bytes) -> Machine:
    return msgspec.json.decode(state, type=Machine)


def _booted(machine: Machine) -> dict[str, Any]:
    """What a boot changes. The choice for one boot is used up by it."""
    return {
        "power_state": POWER_ON,
        "booted_from": machine.boot_once or machine.boot_device or DEFAULT_BOOT_DEVICE,
        "boot_once": None,
        "boots": machine.boots + 1,
    }


def _write_down(db: sqlite3.Connection, node: str, happening: Happening, generation: int) -> None:
    db.execute(
        "INSERT INTO counters (node, effect, count) VALUES (?, ?, 1) "
        "ON CONFLICT (node, effect) DO UPDATE SET count = count + 1",
        (node, happening.effect),
    )
    moment = datetime.now(UTC).isoformat(timespec="microseconds")
    (number,) = db.execute("SELECT sum(count) FROM counters WHERE node = ?", (node,)).fetchone()
    db.execute(
        "INSERT OR REPLACE INTO effects (node, slot, number, effect, detail, generation, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (node, number % EFFECTS_KEPT, number, happening.effect, happening.detail, generation, moment),
    )


# One connection to each file in a process, closed when the last user of it is gone.
_OPEN: WeakValueDictionary[tuple[Path, tuple[tuple[str, float], ...]], Machines] = WeakValueDictionary()
_OPENING = threading.Lock()


def shared(path: Path, delays: Mapping[str, float]) -> Machines:
    """The machines in a file, opened once for everybody in this process who asks with the same delays."""
    key = (path.resolve(), tuple(sorted(delays.items())))
    with _OPENING:
        found = _OPEN.get(key)
        if found is None:
            found = _OPEN[key] = Machines(path, delays)
        return found
