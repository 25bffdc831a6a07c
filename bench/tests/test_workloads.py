"""The table of workloads, the fleet, and the best of several rounds."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from bench import fleet
from bench.measure import Figures
from bench.workloads import WORKLOADS, Workload, render

NODES = 3


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_every_workload_renders_to_requests_without_gaps(workload: Workload) -> None:
    batch = render(workload, 3, NODES, itertools.count(1))
    requests = [*batch.measured, *itertools.chain(*batch.before), *batch.after, *batch.proofs]
    assert len(batch.measured) == 3
    for request in requests:
        assert "$" not in request.path + (request.body or "")
        json.loads(request.body or "{}")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_no_two_writes_of_a_batch_touch_the_same_thing(workload: Workload) -> None:
    batch = render(workload, 3, NODES, itertools.count(1))
    if workload.call.method != "GET":
        assert len({(request.path, request.body) for request in batch.measured}) == 3


def test_workload_names_are_unique() -> None:
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)


def test_the_fleet_has_no_address_or_id_twice() -> None:
    bodies = [r.body or "" for n in range(300) for r in fleet.enrolment(n) if r.method == "POST"]
    documents = [json.loads(body) for body in bodies]
    for key in ("uuid", "address", "connector_id", "volume_id"):
        values = [document[key] for document in documents if key in document]
        assert len(values) >= 300
        assert len(set(values)) == len(values)


def test_a_node_has_five_traits_two_ports_two_connectors_and_a_target() -> None:
    paths = [request.path.rpartition("/")[2] for request in fleet.enrolment(7)]
    assert paths == ["nodes", "ports", "ports", "traits", "connectors", "connectors", "targets"]
    assert len(set(fleet.traits(7))) == 5


def test_nodes_in_the_same_place_of_two_racks_differ_in_the_listed_texts_only() -> None:
    one, other = 7, 7 + 3 * fleet.RACK
    pairs = dict(zip(fleet.texts(one), fleet.texts(other), strict=True))
    pattern = re.compile("|".join(sorted(map(re.escape, pairs), key=len, reverse=True)))
    for first, second in zip(fleet.enrolment(one), fleet.enrolment(other), strict=True):
        for here, there in ((first.path, second.path), (first.body or "", second.body or "")):
            assert pattern.sub(lambda found: pairs[found[0]], here) == there


def test_the_best_of_each_figure_counts_and_failures_add_up() -> None:
    one = Figures(1.0, 10.0, 5.0, 9.0, 100, 0.1, 50, 2, "409")
    other = Figures(2.0, 20.0, 4.0, 10.0, 100, 0.2, 50, 0, "")
    assert Figures.best([other, one]) == Figures(1.0, 20.0, 4.0, 9.0, 100, 0.2, 100, 2, "409")
