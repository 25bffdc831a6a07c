"""What hot requests may cost, counted and not timed: statements, function calls, decoded documents, bytes held.

A page passes stored JSON to the wire as it is. Whoever decodes it and encodes it again, asks the database once more,
builds an object for each row or copies the answer about meets a bound here, before a benchmark shows it. What a
request costs in milliseconds is for `bench/` to tell. A change that needs less lowers the bound with it.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from string import Template
from typing import Any

import pytest

from tests import bulk
from tests.application import Answer, Application, running

NODES = 200
TRAITS = ("CUSTOM_GOLD", "CUSTOM_RAID", "HW_CPU_X86_AESNI", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX")
MAC = "02:00:00:00:00:01"
# What decodes JSON, by name: msgspec's function, its decoders' method, and the standard library's.
DECODERS = ("json_decode", "Decoder.decode", "scan_once", "JSONDecoder.raw_decode")


@dataclass(frozen=True)
class Bound:
    """The most that a request may cost; `calls` of functions (Python's and C's) and `decoded` documents for each of
    its `rows`, `held` the peak of its memory in multiples of its answer."""

    method: str
    path: str
    body: Any = None
    rows: int = 1
    statements: int = 0
    calls: float = 0
    decoded: float = 0
    held: float | None = None


BEAT = {"callback_url": "https://192.0.2.7:9999", "agent_version": "13.0.0", "agent_token": "$token"}
CONNECTOR = {"node_uuid": "$node", "type": "iqn", "connector_id": "iqn.2026-01.org.example:guard-$serial"}
ADD_RACK = [{"op": "add", "path": "/extra/rack", "value": "r$serial"}]
NEW_NODE = {"driver": "fake-hardware", "name": "guard-$serial", "properties": {"cpus": 8}}

# fmt: off
BOUNDS = {
    # Of each row of `bulk`, the BMC's document is searched for secrets: one is decoded.
    "detail-page": Bound("GET", f"/v1/nodes/detail?limit={NODES}", rows=NODES,
                         statements=2, calls=36, decoded=1.05, held=2.7),
    "traits-page": Bound("GET", f"/v1/nodes?fields=uuid,traits&limit={NODES}", rows=NODES,
                         statements=1, calls=10, decoded=0.05, held=4),
    "one-node": Bound("GET", "/v1/nodes/$node", statements=2, calls=600, decoded=2, held=14),
    "lookup": Bound("GET", f"/v1/lookup?addresses={MAC}", statements=1, calls=650, decoded=3),
    "heartbeat": Bound("POST", "/v1/heartbeat/$node", BEAT, statements=2, calls=1_100, decoded=12),
    "put-traits": Bound("PUT", "/v1/nodes/$node/traits", {"traits": ["CUSTOM_NO_$serial", *TRAITS[1:]]},
                        statements=5, calls=1_350, decoded=1),
    "patch": Bound("PATCH", "/v1/nodes/$node", ADD_RACK, statements=6, calls=2_500, decoded=8),
    "create-node": Bound("POST", "/v1/nodes", NEW_NODE, statements=3, calls=3_400, decoded=1),
    "create-connector": Bound("POST", "/v1/volume/connectors", CONNECTOR, statements=3, calls=1_450, decoded=1),
}
# fmt: on
HELD = [name for name, bound in BOUNDS.items() if bound.held is not None]


class Guarded:
    """The application with a fleet, and what a ramdisk of its first node knows."""

    def __init__(self, app: Application) -> None:
        self.app = app
        bulk.load(app.services.db, NODES, lambda _number: TRAITS)
        self._node = bulk.node_uuid(0)
        app.send("POST", "/v1/ports", {"node_uuid": self._node, "address": MAC})
        found = app.send("GET", f"/v1/lookup?addresses={MAC}")
        self._token = found["config"]["agent_token"]
        self._serials = itertools.count()

    def ask(self, bound: Bound) -> Answer:
        """The request once more: no two write the same."""
        known = {"node": self._node, "token": self._token, "serial": str(next(self._serials))}
        body = None if bound.body is None else json.loads(Template(json.dumps(bound.body)).substitute(known))
        answer = self.app.request(bound.method, Template(bound.path).substitute(known), body)
        assert answer.status < 300, answer.content
        return answer


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with running(tmp_path_factory.mktemp("guard"), api__restrict_lookup=False) as app:
        yield Guarded(app)


@pytest.fixture
def bound(request: pytest.FixtureRequest, guarded: Guarded) -> Bound:
    """A request that has been made before: what is prepared once does not count."""
    chosen = BOUNDS[request.param]
    for _ in range(2):
        guarded.ask(chosen)
    return chosen


every_request = pytest.mark.parametrize("bound", list(BOUNDS), indirect=True)


@every_request
def test_a_hot_request_asks_the_database_no_more_often_than_it_must(guarded: Guarded, bound: Bound) -> None:
    with guarded.app.counted() as statements:
        guarded.ask(bound)
    assert len([text for text in statements if not text.startswith("BEGIN")]) <= bound.statements, statements


@every_request
def test_a_hot_request_takes_no_more_calls_and_decodes_no_more_json_than_it_must(
    guarded: Guarded, bound: Bound
) -> None:
    calls, decoded = 0, 0

    def note(_frame: Any, event: str, function: Any) -> None:
        nonlocal calls, decoded
        calls += event in ("call", "c_call")
        decoded += event == "c_call" and function.__qualname__ in DECODERS

    sys.setprofile(note)
    try:
        guarded.ask(bound)
    finally:
        sys.setprofile(None)
    assert calls / bound.rows <= bound.calls
    assert decoded / bound.rows <= bound.decoded


@pytest.mark.parametrize("bound", HELD, indirect=True)
def test_an_answer_is_held_in_memory_no_more_often_than_it_must(guarded: Guarded, bound: Bound) -> None:
    assert bound.held is not None
    assert min(_peak(guarded, bound) for _ in range(5)) <= bound.held


def _peak(guarded: Guarded, bound: Bound) -> float:
    """In multiples of the answer. Other threads have memory of their own now and then."""
    gc.collect()
    tracemalloc.start()
    try:
        answer = guarded.ask(bound)
        return tracemalloc.get_traced_memory()[1] / len(answer.content)
    finally:
        tracemalloc.stop()
