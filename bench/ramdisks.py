"""The ramdisks of a storm: a process that looks thousands of nodes up and sends their heartbeats.

One thread and a selector, a new connection for each request, as agents that are silent for minutes have. It is an
open loop: each ramdisk keeps its own time whatever the others wait for, and a latency counts from when a request was
due. With `at_once` it is a closed loop instead: so many ramdisks boot at the same time, each followed by the next.
Started as `python -m bench.ramdisks` it reads a `Storm` from stdin and writes a `Tally`.
"""

from __future__ import annotations

import errno
import heapq
import json
import random
import selectors
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bench import ROOT, BenchError, fleet
from bench.load import CHUNK, Incoming, http_message
from bench.services import RAMDISK_HEARTBEAT, RAMDISK_LOOKUP

# As ironic-python-agent: a heartbeat after this share of the timeout, an answer within this time, or once again.
CADENCE = (0.3, 0.6)
PATIENCE_SECONDS = 30.0
AGAIN_SECONDS = (5.0, 10.0)
# A ramdisk of a closed loop asks again at once, so often.
TRIES = 20


@dataclass(frozen=True)
class Storm:
    """Ramdisks of the nodes from `first` on; they start within `spread` seconds, and it ends `hold` seconds later."""

    url: str
    first: int
    ramdisks: int
    spread: float = 20.0
    hold: float = 120.0
    heartbeat_timeout: float = 300.0
    at_once: int | None = None


@dataclass
class Tally:
    """What became of them; times in seconds. `errors` by what was asked and what came (0: no answer in time)."""

    seconds: float = 0.0
    own_cpu_seconds: float = 0.0
    lookups: list[float] = field(default_factory=list)
    heartbeats: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    first_error: str = ""
    beating: int = 0

    @property
    def failed(self) -> int:
        return sum(self.errors.values())


@dataclass
class Ramdisk:
    number: int
    node: str = ""
    token: str = ""
    beats: int = 0
    tries: int = 0


@dataclass
class Exchange:
    """A request under way, on a connection of its own."""

    ramdisk: Ramdisk
    due: float
    message: bytes
    channel: socket.socket
    answer: Incoming = field(default_factory=Incoming)


def run(storm: Storm) -> Tally:
    """In a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            told, _ = process.communicate(json.dumps(asdict(storm)))
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise BenchError(f"the ramdisks ended early, status {process.returncode}")
    return Tally(**json.loads(told))


class Running:
    """A storm under way."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self._random = random.Random(storm.ramdisks)
        parts = urlsplit(storm.url)
        self._host, self._root = parts.netloc, parts.path
        self._address = (parts.hostname or "", parts.port or 80)
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[float, int]] = []
        self._ramdisks = [Ramdisk(storm.first + index) for index in range(storm.ramdisks)]
        self._waiting = iter(range(storm.ramdisks))
        self._exchanges: dict[socket.socket, Exchange] = {}
        self._tally = Tally()

    def run(self) -> Tally:
        began = time.monotonic()
        ends = began + self._storm.spread + self._storm.hold
        if self._storm.at_once is None:
            self._due = [(began + self._random.uniform(0, self._storm.spread), n) for n in self._waiting]
            heapq.heapify(self._due)
        else:
            for _ in range(self._storm.at_once):
                self._boot_next()
        while self._due or self._exchanges:
            now = time.monotonic()
            if self._storm.at_once is None and now > ends:
                self._due.clear()
            while self._due and self._due[0][0] <= now:
                due, number = heapq.heappop(self._due)
                self._send(self._ramdisks[number], due)
            wait = min(0.1, max(0.0, self._due[0][0] - now)) if self._due else 0.1
            for key, _ in self._selector.select(wait):
                self._go_on(key.data)
            self._give_up(time.monotonic() - PATIENCE_SECONDS)
        self._tally.seconds = time.monotonic() - began
        self._tally.own_cpu_seconds = time.process_time()
        self._tally.beating = sum(1 for ramdisk in self._ramdisks if ramdisk.beats)
        return self._tally

    def _boot_next(self) -> None:
        following = next(self._waiting, None)
        if following is not None:
            heapq.heappush(self._due, (time.monotonic(), following))

    def _send(self, ramdisk: Ramdisk, due: float) -> None:
        channel = socket.socket()
        channel.setblocking(False)
        exchange = Exchange(ramdisk, due, self._message(ramdisk), channel)
        if channel.connect_ex(self._address) not in (0, errno.EINPROGRESS):
            self._fail(exchange, 0, "refused")
            return
        self._exchanges[channel] = exchange
        self._selector.register(channel, selectors.EVENT_WRITE, exchange)

    def _message(self, ramdisk: Ramdisk) -> bytes:
        if not ramdisk.token:
            path = f"{self._root}/v1/lookup?addresses={fleet.mac(0, ramdisk.number)}"
            return http_message(self._host, "GET", path, {**RAMDISK_LOOKUP, "Connection": "close"}, None)
        beat = {
            "callback_url": fleet.callback_url(ramdisk.number),
            "agent_version": "13.0.0",
            "agent_token": ramdisk.token,
        }
        path = f"{self._root}/v1/heartbeat/{ramdisk.node}"
        headers = {**RAMDISK_HEARTBEAT, "Connection": "close"}
        return http_message(self._host, "POST", path, headers, json.dumps(beat))

    def _go_on(self, exchange: Exchange) -> None:
        try:
            if exchange.message:
                sent = exchange.channel.send(exchange.message)
                exchange.message = exchange.message[sent:]
                if not exchange.message:
                    self._selector.modify(exchange.channel, selectors.EVENT_READ, exchange)
                return
            body = exchange.answer.take(exchange.channel.recv(CHUNK))
        except OSError as error:
            self._close(exchange)
            self._fail(exchange, 0, str(error))
            return
        if body is not None:
            self._close(exchange)
            self._take(exchange, body)

    def _take(self, exchange: Exchange, body: bytes) -> None:
        ramdisk = exchange.ramdisk
        if not 200 <= exchange.answer.status < 300:
            self._fail(exchange, exchange.answer.status, body[:200].decode(errors="replace"))
            return
        now = time.monotonic()
        latency = now - exchange.due
        ramdisk.tries = 0
        if ramdisk.token:
            self._tally.heartbeats.append(latency)
            ramdisk.beats += 1
            if self._storm.at_once is None:
                self._later(ramdisk, self._random.uniform(*CADENCE) * self._storm.heartbeat_timeout)
            else:
                self._boot_next()
            return
        self._tally.lookups.append(latency)
        document: dict[str, Any] = json.loads(body)
        ramdisk.node, ramdisk.token = document["node"]["uuid"], document["config"]["agent_token"]
        self._later(ramdisk, 0.0)

    def _fail(self, exchange: Exchange, status: int, text: str) -> None:
        what = "heartbeat" if exchange.ramdisk.token else "lookup"
        name = f"{what} {status}"
        self._tally.errors[name] = self._tally.errors.get(name, 0) + 1
        self._tally.first_error = self._tally.first_error or f"{name} {text}"
        exchange.ramdisk.tries += 1
        if self._storm.at_once is None:
            self._later(exchange.ramdisk, self._random.uniform(*AGAIN_SECONDS))
        elif exchange.ramdisk.tries < TRIES:
            self._later(exchange.ramdisk, 0.0)
        else:
            self._boot_next()

    def _later(self, ramdisk: Ramdisk, seconds: float) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, ramdisk.number - self._storm.first))

    def _close(self, exchange: Exchange) -> None:
        self._selector.unregister(exchange.channel)
        del self._exchanges[exchange.channel]
        exchange.channel.close()

    def _give_up(self, due_before: float) -> None:
        """They are in the order of their start: the first that is young enough ends the search."""
        while self._exchanges:
            oldest = next(iter(self._exchanges.values()))
            if oldest.due >= due_before:
                return
            self._close(oldest)
            self._fail(oldest, 0, f"no answer in {PATIENCE_SECONDS:g} s")


if __name__ == "__main__":
    print(json.dumps(asdict(Running(Storm(**json.loads(sys.stdin.readline()))).run())))
