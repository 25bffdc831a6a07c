"""The ramdisks of a storm, against a small server of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench import fleet, ramdisks
from bench.ramdisks import Storm


class Handler(BaseHTTPRequestHandler):
    """Gives a token to who looks up, takes heartbeats with it; `delay` seconds each, the first `refuse` of them not."""

    protocol_version = "HTTP/1.1"
    delay = 0.0
    refuse = 0
    beats: list[str]

    def do_GET(self) -> None:
        address = self.path.rpartition("=")[2]
        self.answer(200, {"node": {"uuid": f"node-of-{address}"}, "config": {"agent_token": f"token-of-{address}"}})

    def do_POST(self) -> None:
        beat = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if Handler.refuse:
            Handler.refuse -= 1
            self.answer(503, {})
            return
        assert beat["agent_token"] == self.path.rpartition("/")[2].replace("node", "token")
        self.beats.append(beat["callback_url"])
        self.answer(202, {})

    def answer(self, status: int, document: object) -> None:
        time.sleep(self.delay)
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Handler.beats = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    server.server_close()
    Handler.delay, Handler.refuse = 0.0, 0


def test_every_ramdisk_looks_up_and_beats_with_its_own_token(url: str) -> None:
    tally = ramdisks.run(Storm(url, 100, 8, at_once=3))
    assert (tally.beating, tally.failed) == (8, 0)
    assert (len(tally.lookups), len(tally.heartbeats)) == (8, 8)
    assert sorted(Handler.beats) == sorted(fleet.callback_url(number) for number in range(100, 108))


def test_ramdisks_keep_their_cadence(url: str) -> None:
    tally = ramdisks.run(Storm(url, 0, 4, spread=0.1, hold=1.0, heartbeat_timeout=0.5))
    assert tally.beating == 4
    assert len(tally.heartbeats) > 8
    assert len(tally.lookups) == 4


def test_a_slow_answer_does_not_hold_other_ramdisks_up(url: str) -> None:
    Handler.delay = 0.3
    tally = ramdisks.run(Storm(url, 0, 6, spread=0.0, hold=0.5))
    assert (tally.beating, tally.failed) == (6, 0)


def test_a_refused_heartbeat_is_an_error_and_tried_again(url: str) -> None:
    Handler.refuse = 2
    tally = ramdisks.run(Storm(url, 0, 3, at_once=1))
    assert tally.errors == {"heartbeat 503": 2}
    assert tally.first_error.startswith("heartbeat 503")
    assert tally.beating == 3


def test_nobody_there_is_an_error_for_each_try(url: str) -> None:
    tally = ramdisks.run(Storm("http://127.0.0.1:1", 0, 1, at_once=1))
    assert tally.errors == {"lookup 0": ramdisks.TRIES}
    assert tally.beating == 0
