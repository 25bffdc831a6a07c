"""The load generator: a process of its own that keeps a number of connections busy.

It is a closed loop: each connection sends its next request when the answer to its last one is
complete. One thread and a selector serve all connections, so no latency comes from threads that
wait for each other in the generator. Started as `python -m bench.load` it reads a job from stdin,
connects, says that it is ready, and fires on the word; `LoadGenerator` is the other end of that.
"""

from __future__ import annotations

import json
import math
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from bench import ROOT, BenchError

STALLED_SECONDS = 60
CHUNK = 1 << 14
SCRATCHPAD = bytearray(1 << 20)
NEXT_LINK = re.compile(rb'"next": ?("[^"]+")')


@dataclass(frozen=True)
class Request:
    """One HTTP request, to be sent below a service's root; `body` is JSON text. `headers` win over the job's."""

    method: str
    path: str
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """What a generator does. `url` is the root of the API; `follows_next` walks the `next` links.

    With `keeps_bodies`, the burst holds the good answers' bodies in the order in which they came.
    """

    url: str
    headers: Mapping[str, str]
    requests: list[Request]
    concurrency: int = 1
    follows_next: bool = False
    keeps_bodies: bool = False


@dataclass
class Burst:
    """What came of a job. Latencies are of good answers only; times are in seconds.

    `errors` counts the answers that were not 2xx by status (0: the connection broke), and
    `first_error` quotes one of them. If `own_cpu_seconds`, the generator's CPU time, comes near
    `seconds`, the generator was the limit, not the service.
    """

    seconds: float = 0.0
    own_cpu_seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    received_bytes: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    first_error: str = ""
    bodies: list[str] = field(default_factory=list)

    def percentile(self, percent: float) -> float:
        """By nearest rank: of fewer than 100 requests, the 99th percentile is the slowest."""
        ordered = sorted(self.latencies)
        return ordered[math.ceil(percent / 100 * len(ordered)) - 1]

    def count_error(self, status: int, request: Request, answer: bytes) -> None:
        self.errors[str(status)] = self.errors.get(str(status), 0) + 1
        if not self.first_error:
            text = answer[:200].decode(errors="replace")
            self.first_error = f"{request.method} {request.path}: {status} {text}"


class LoadGenerator:
    """A generator process, connected and waiting from `__enter__` on, gone after `__exit__`."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            self._say(json.dumps(asdict(self._job)))
            if self._hear() != "ready":
                raise BenchError("the load generator did not get ready")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def fire(self) -> Burst:
        """Send every request of the job; returns when the last answer is complete."""
        self._say("fire")
        return Burst(**json.loads(self._hear()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"the load generator ended early, status {self._process.wait()}")
        return line.rstrip("\n")


def fire(job: Job, *, tolerant: bool = False, keeps_bodies: bool = False) -> Burst:
    """Run a job of its own; every answer must be good unless `tolerant`."""
    job = replace(job, keeps_bodies=keeps_bodies)
    with LoadGenerator(job) as generator:
        burst = generator.fire()
    if burst.errors and not tolerant:
        raise BenchError(f"{sum(burst.errors.values())} requests failed, the first: {burst.first_error}")
    return burst


class Incoming:
    """One answer as it arrives; `closes` says that the service will hang up after it."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._body_at = 0
        self.length = 0
        self.missing = 0
        self.status = 0
        self.closes = False

    def take(self, arrived: bytes) -> bytes | None:
        """Add what has arrived; the body once the answer is complete.

        Raises ConnectionError if nothing has: the service has hung up in the middle.
        """
        if not arrived:
            raise ConnectionError("closed before the answer was complete")
        self._received += arrived
        if not self._body_at and not self._read_head():
            return None
        self.missing = self._body_at + self.length - len(self._received)
        return None if self.missing > 0 else bytes(self._received[self._body_at :])

    def take_unseen(self, count: int) -> bytes | None:
        """Count so many bytes of the body that nobody looks at; what was seen of it once the answer is complete."""
        if not count:
            raise ConnectionError("closed before the answer was complete")
        self.missing -= count
        return None if self.missing > 0 else bytes(self._received[self._body_at :])

    def _read_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        status_line, *lines = self._received[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if "transfer-encoding" in headers:
            raise BenchError("the load generator reads answers with a Content-Length only")
        self.status = int(status_line.split(" ", 2)[1])
        self.closes = headers.get("connection", "").lower() == "close"
        self.length = int(headers.get("content-length", 0))
        self._body_at = end + 4
        return True


class Connection:
    """One keep-alive HTTP/1.1 connection with at most one request under way."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket = self._connect()
        self.answer = Incoming()
        self.closes = False

    def _connect(self) -> socket.socket:
        connected = socket.create_connection(self._address, STALLED_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: bytes) -> None:
        """Send on the open connection, or on a new one if the service has announced its end."""
        if self.closes or self.answer.closes:
            self._socket.close()
            self._socket = self._connect()
            self.closes = False
        self.answer = Incoming()
        self._socket.sendall(message)

    def receive(self, whole: bool) -> bytes | None:
        """Take what has arrived; the body once the answer is complete, or its beginning unless `whole` is asked for.

        MSG_TRUNC has the kernel throw bytes away instead of copying them here: on a machine with few cores, reading
        megabytes that nobody looks at would slow down the service that sends them.
        """
        if self.answer.missing > 0 and not whole and self.answer.status < 300:
            size = min(self.answer.missing, len(SCRATCHPAD))
            return self.answer.take_unseen(self._socket.recv_into(SCRATCHPAD, size, socket.MSG_TRUNC))
        return self.answer.take(self._socket.recv(CHUNK))


@dataclass
class Underway:
    """A request that waits for its answer, or for the last page of its walk."""

    request: Request
    started: float


class Run:
    """One pass over a job's requests."""

    def __init__(self, job: Job) -> None:
        self._job = job
        parts = urlsplit(job.url)
        self._host = parts.netloc
        messages = [self._message(request, parts.path + request.path) for request in job.requests]
        self._waiting = iter(list(zip(job.requests, messages, strict=True)))
        self._selector = selectors.DefaultSelector()
        address = (parts.hostname or "", parts.port or 80)
        self._connections = [Connection(address) for _ in range(min(job.concurrency, len(job.requests)))]
        self._burst = Burst()

    def fire(self) -> Burst:
        began, cpu_before = time.perf_counter(), time.process_time()
        for connection in self._connections:
            self._start_next(connection)
        while self._selector.get_map():
            ready = self._selector.select(STALLED_SECONDS)
            if not ready:
                raise BenchError(f"no answer for {STALLED_SECONDS} s")
            for key, _ in ready:
                assert isinstance(key.fileobj, Connection)
                self._receive(key.fileobj, key.data)
        self._burst.seconds = time.perf_counter() - began
        self._burst.own_cpu_seconds = time.process_time() - cpu_before
        return self._burst

    def _message(self, request: Request, target: str) -> bytes:
        headers = {**self._job.headers, **request.headers}
        return http_message(self._host, request.method, target, headers, request.body)

    def _start_next(self, connection: Connection) -> None:
        following = next(self._waiting, None)
        if following is not None:
            request, message = following
            self._send(connection, message, Underway(request, time.perf_counter()))

    def _send(self, connection: Connection, message: bytes, underway: Underway) -> None:
        connection.send(message)
        self._selector.register(connection, selectors.EVENT_READ, underway)

    def _receive(self, connection: Connection, underway: Underway) -> None:
        try:
            body = connection.receive(whole=self._job.keeps_bodies or self._job.follows_next)
        except ConnectionError as error:
            self._selector.unregister(connection)
            connection.closes = True
            self._burst.count_error(0, underway.request, str(error).encode())
            self._start_next(connection)
            return
        if body is not None:
            self._selector.unregister(connection)
            self._burst.received_bytes += connection.answer.length
            if self._job.keeps_bodies and connection.answer.status < 300:
                self._burst.bodies.append(body.decode())
            self._take(connection, underway, body)

    def _take(self, connection: Connection, underway: Underway, body: bytes) -> None:
        if not 200 <= connection.answer.status < 300:
            self._burst.count_error(connection.answer.status, underway.request, body)
        elif self._job.follows_next and (link := NEXT_LINK.search(body)):
            parts = urlsplit(json.loads(link[1]))
            self._send(connection, self._message(underway.request, f"{parts.path}?{parts.query}"), underway)
            return
        else:
            self._burst.latencies.append(time.perf_counter() - underway.started)
        self._start_next(connection)


def http_message(host: str, method: str, target: str, headers: Mapping[str, str], body: str | None) -> bytes:
    """A request as it goes over the wire."""
    content = (body or "").encode()
    sent = {"Host": host, "Accept": "application/json", **headers}
    if body is not None:
        sent |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items()), "", ""]
    return "\r\n".join(lines).encode() + content


def _job_from(line: str) -> Job:
    fields: dict[str, Any] = json.loads(line)
    return Job(**{**fields, "requests": [Request(**request) for request in fields["requests"]]})


def main() -> None:
    """The generator's end of the conversation: job, ready, fire, burst."""
    run = Run(_job_from(sys.stdin.readline()))
    print("ready", flush=True)
    if sys.stdin.readline():
        print(json.dumps(asdict(run.fire())), flush=True)


if __name__ == "__main__":
    main()
