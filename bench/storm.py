"""A boot storm: 5,000 ramdisks look their node up by MAC address and then send heartbeats, as ironic-python-agent does.

Two measurements on each service, with nodes whose ramdisk has not called before. In the *rush* 32 ramdisks boot at the
same time, one after the other, as fast as the service lets them. In the *storm* all boot within 20 seconds and then
beat at their real cadence, every 90 to 180 seconds, for two minutes more, whether the service keeps up or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench import multiply, ramdisks
from bench.ramdisks import Storm, Tally
from bench.report import Part
from bench.services import Service
from bench.stage import housed, progress
from bench.tables import number
from bench.targets import OURS, Verdict

RAMDISKS = 5_000
RUSH = 500
AT_ONCE = 32
QUICK_RAMDISKS = 500
QUICK_HOLD = 20.0
HOLD = 120.0

HEADER = [
    "ramdisks",
    "booted",
    "errors",
    "requests/s",
    "CPU ms\na request",
    "lookup\np50 ms",
    "\np99 ms",
    "heartbeat\np50 ms",
    "\np99 ms",
    "generator\nbusy",
]


@dataclass(frozen=True)
class Weather:
    """One measurement of one service."""

    name: str
    asked: int
    tally: Tally
    cpu_seconds: float

    def cells(self) -> list[str]:
        requests = len(self.tally.lookups) + len(self.tally.heartbeats)
        return [
            self.name,
            f"{self.tally.beating:,} of {self.asked:,}",
            f"{self.tally.failed:,}",
            number(requests / self.tally.seconds),
            number(self.cpu_seconds * 1000 / max(requests, 1)),
            *(number(_percentile_ms(self.tally.lookups, percent)) for percent in (50, 99)),
            *(number(_percentile_ms(self.tally.heartbeats, percent)) for percent in (50, 99)),
            f"{self.tally.own_cpu_seconds / self.tally.seconds:.0%}",
        ]


def measure_storm(database: str, names: Sequence[str], quick: bool) -> tuple[Part, list[Verdict]]:
    """Rush and storm on each service in turn; the storm on Holdfast must be held without an error."""
    count, hold = (QUICK_RAMDISKS, QUICK_HOLD) if quick else (RAMDISKS, HOLD)
    rows, notes, verdicts = [], [], []
    with housed(database, tuple(names)) as services:
        for service in services:
            progress(f"{database}: settle {service.name} in for the storm")
            service.start()
            multiply.settle(service, RUSH + count, looked_up=False)
            found = _measure(service, count, hold)
            service.stop()
            rows += [weather.cells() for weather in found]
            for weather in found:
                if weather.tally.errors:
                    notes.append(f"{weather.name}: {weather.tally.errors}, the first: {weather.tally.first_error}")
            if service.name == OURS:
                verdicts.append(_verdict(database, found[-1], hold))
    notes.append(f"rush: {AT_ONCE} at the same time; storm: all within 20 s, then at their cadence for {hold:g} s more")
    return Part(f"Boot storm, {database}", [HEADER, *rows], notes), verdicts


def _measure(service: Service, count: int, hold: float) -> list[Weather]:
    found = []
    for name, storm in (
        ("rush", Storm(service.url, 0, RUSH, at_once=AT_ONCE)),
        ("storm", Storm(service.url, RUSH, count, hold=hold)),
    ):
        service.stop()  # what the one left behind is not the other's
        service.start()
        service.wait_until_quiet()
        progress(f"{name} on {service.name}")
        before = service.cpu_seconds()
        tally = ramdisks.run(storm)
        found.append(Weather(f"{service.name}, {name}", storm.ramdisks, tally, service.cpu_seconds() - before))
    return found


def _verdict(database: str, storm: Weather, hold: float) -> Verdict:
    tally = storm.tally
    p99 = _percentile_ms([*tally.lookups, *tally.heartbeats], 99)
    return Verdict(
        "boot storm",
        f"{database}, {storm.asked:,} ramdisks",
        f"no error in {hold:g} s",
        f"{tally.failed} errors, p99 {number(p99)} ms",
        tally.failed == 0 and tally.beating == storm.asked,
    )


def _percentile_ms(times: Sequence[float], percent: float) -> float | None:
    ordered = sorted(times)
    return ordered[math.ceil(percent / 100 * len(ordered)) - 1] * 1000 if ordered else None
