"""The load generator, against a small server of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench import BenchError
from bench.load import Burst, Job, LoadGenerator, Request, fire

LARGE = 5_000_000


class Handler(BaseHTTPRequestHandler):
    """/pages/N is the first of N pages, /missing is not there, /once answers and hangs up."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, str]]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.seen.append((self.command, self.path, body))
        path = self.path.split("?")[0]
        document: dict[str, object] = {"version": self.headers.get("X-Version")}
        if path.startswith("/api/pages/") and (left := int(path.rpartition("/")[2])) > 1:
            document["next"] = f"http://{self.headers['Host']}/api/pages/{left - 1}?limit=1"
        self.send_response(404 if path == "/api/missing" else 200)
        content = json.dumps(document).encode()
        if path == "/api/large":
            content = b"x" * LARGE
        self.send_header("Content-Length", str(len(content)))
        if path == "/api/once":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Handler.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    server.server_close()


def test_every_request_is_sent_once_below_the_root(url: str) -> None:
    requests = [Request("POST", f"/things/{number}", json.dumps({"n": number})) for number in range(40)]
    burst = fire(Job(url, {"X-Version": "1.46"}, requests, concurrency=8))
    assert len(burst.latencies) == 40
    assert sorted(Handler.seen) == sorted((r.method, "/api" + r.path, r.body or "") for r in requests)


def test_a_walk_is_one_request_with_many_pages(url: str) -> None:
    burst = fire(Job(url, {}, [Request("GET", "/pages/3")], follows_next=True))
    assert len(burst.latencies) == 1
    assert [path for _, path, _ in Handler.seen] == [
        "/api/pages/3",
        "/api/pages/2?limit=1",
        "/api/pages/1?limit=1",
    ]


def test_bodies_are_counted_whole_whether_anybody_looks_at_them_or_not(url: str) -> None:
    requests = [Request("GET", "/large"), Request("GET", "/large"), Request("GET", "/pages/1")]
    unseen, seen = fire(Job(url, {}, requests)), fire(Job(url, {}, requests), keeps_bodies=True)
    assert unseen.received_bytes == seen.received_bytes == sum(map(len, seen.bodies)) > 2 * LARGE
    assert (len(unseen.latencies), unseen.bodies) == (3, [])


def test_a_service_that_hangs_up_is_connected_to_again(url: str) -> None:
    burst = fire(Job(url, {}, [Request("GET", "/once")] * 5, concurrency=2))
    assert (len(burst.latencies), burst.errors) == (5, {})


def test_failed_requests_are_counted_and_quoted_but_have_no_latency(url: str) -> None:
    with LoadGenerator(Job(url, {}, [Request("GET", "/missing"), Request("GET", "/there")])) as generator:
        burst = generator.fire()
    assert (burst.errors, len(burst.latencies)) == ({"404": 1}, 1)
    assert burst.first_error.startswith("GET /missing: 404")


def test_a_job_that_must_succeed_stops_the_run_when_it_does_not(url: str) -> None:
    with pytest.raises(BenchError, match="GET /missing: 404"):
        fire(Job(url, {}, [Request("GET", "/missing")]))


def test_a_service_that_is_not_there_stops_the_run() -> None:
    with pytest.raises(BenchError, match="load generator"):
        fire(Job("http://127.0.0.1:1", {}, [Request("GET", "/")]))


@pytest.mark.parametrize(
    ("percent", "latency"),
    [(50, 50), (99, 99), (100, 100)],
)
def test_percentiles_are_by_nearest_rank(percent: float, latency: float) -> None:
    assert Burst(latencies=[float(n) for n in range(100, 0, -1)]).percentile(percent) == latency
