"""`python -m bench.storm`: a boot storm. Thousands of ramdisks look their node up by MAC address and send their first
heartbeat, as ironic-python-agent does, to Holdfast and to a real Ironic on the same machine.

Both services take lookups in every state here (`restrict_lookup = false`): what is measured is the two endpoints, not
the deploys behind them. A ramdisk that is told to try again does so at once, and it counts.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import SCRATCH, BenchError, fleet
from bench.services import SERVICES, VERSION_HEADER, Service, Settings

TRIES = 20


@dataclasses.dataclass
class Tally:
    """What became of the ramdisks of one service."""

    service: str
    ramdisks: int
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    lookups: list[float] = dataclasses.field(default_factory=list)
    heartbeats: list[float] = dataclasses.field(default_factory=list)
    again: int = 0
    lost: int = 0

    def lines(self) -> Iterator[str]:
        rate = self.ramdisks / self.seconds
        yield f"{self.service}: {self.ramdisks} ramdisks in {self.seconds:.1f} s, {rate:.0f} a second,"
        yield f"  CPU {self.cpu_seconds * 1000 / self.ramdisks:.2f} ms each; tried again {self.again}, lost {self.lost}"
        for name, times in (("lookup", self.lookups), ("heartbeat", self.heartbeats)):
            if len(times) > 1:
                cuts = statistics.quantiles(times, n=100)
                yield f"  {name:9}  median {cuts[49] * 1000:.1f} ms, 99 of 100 within {cuts[98] * 1000:.1f} ms"


class Caller(threading.local):
    """One connection for each thread."""

    connection: http.client.HTTPConnection | None = None

    def ask(self, service: Service, method: str, path: str, version: str, body: Any = None) -> tuple[int, bytes]:
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", service.settings.port, timeout=120)
        content = None if body is None else json.dumps(body)
        headers = {"Accept": "application/json", "Content-Type": "application/json", VERSION_HEADER: version}
        try:
            self.connection.request(method, service.settings.root + path, content, headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            return 0, b""


CALLER = Caller()


def enrol(service: Service, nodes: int, width: int) -> None:
    """Nodes with a port each."""

    def one(number: int) -> None:
        node, name = fleet.node_uuid(number), f"storm-{number}"
        for path, body in (
            ("/v1/nodes", fleet.node_body(node, name, number)),
            ("/v1/ports", {"node_uuid": node, "address": fleet.mac(0x07, number)}),
        ):
            status, content = CALLER.ask(service, "POST", path, "1.46", body)
            if status != 201:
                raise BenchError(f"{service.name} answers {status} to POST {path}: {content[:300]!r}")

    with ThreadPoolExecutor(width) as pool:
        list(pool.map(one, range(nodes)))


def storm(service: Service, nodes: int, width: int) -> Tally:
    tally = Tally(service.name, nodes)

    def ramdisk(number: int) -> None:
        path = f"/v1/lookup?addresses={fleet.mac(0x07, number).replace(':', '%3A')}"
        found = _until(service, tally, tally.lookups, "GET", path, "1.62", None, 200)
        if found is None:
            return
        document = json.loads(found)
        beat = {
            "callback_url": f"https://10.{number >> 16}.{number >> 8 & 255}.{number & 255}:9999",
            "agent_version": "13.0.0",
            "agent_token": document["config"]["agent_token"],
        }
        _until(service, tally, tally.heartbeats, "POST", f"/v1/heartbeat/{document['node']['uuid']}", "1.68", beat, 202)

    began, cpu = time.perf_counter(), service.cpu_seconds()
    with ThreadPoolExecutor(width) as pool:
        list(pool.map(ramdisk, range(nodes)))
    tally.seconds = time.perf_counter() - began
    service.wait_until_quiet()
    tally.cpu_seconds = service.cpu_seconds() - cpu
    return tally


def _until(
    service: Service, tally: Tally, times: list[float], method: str, path: str, version: str, body: Any, wanted: int
) -> bytes | None:
    for _ in range(TRIES):
        began = time.perf_counter()
        status, content = CALLER.ask(service, method, path, version, body)
        times.append(time.perf_counter() - began)
        if status == wanted:
            return content
        tally.again += 1
    tally.lost += 1
    return None


def open_to_all(settings: Settings) -> Settings:
    """Lookups in every state."""
    if settings.name == "holdfast":
        return dataclasses.replace(
            settings, environment={**settings.environment, "HOLDFAST_API__RESTRICT_LOOKUP": "false"}
        )
    configuration = settings.directory / "ironic.conf"
    configuration.write_text(configuration.read_text().replace("[api]\n", "[api]\nrestrict_lookup = False\n"))
    return settings


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.storm", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000, help="ramdisks (default: 5000)")
    parser.add_argument("--width", type=int, default=32, help="how many speak at the same time (default: 32)")
    parser.add_argument("--services", nargs="+", choices=list(SERVICES), default=list(SERVICES))
    given = parser.parse_args(arguments)
    SCRATCH.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=SCRATCH, prefix="storm-") as scratch, contextlib.ExitStack() as stack:
        for name in given.services:
            service = stack.enter_context(Service(open_to_all(SERVICES[name](Path(scratch) / name, None))))
            try:
                service.start()
                enrol(service, given.nodes, min(4, given.width))
                service.wait_until_quiet()
                tally = storm(service, given.nodes, given.width)
            except BenchError as error:
                print(f"bench: {error}", file=sys.stderr)
                return 1
            print("\n".join(tally.lines()), flush=True)
            service.stop()
            CALLER.connection = None
    return 0


if __name__ == "__main__":
    sys.exit(main())
