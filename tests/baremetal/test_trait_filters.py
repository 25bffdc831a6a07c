"""`traits`, `traits-any`, `not-traits` and `not-traits-any` on lists of nodes: what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.application import Application, running

RED, BLUE, FOO = "CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_FOO"
FILTERS = ("traits", "traits-any", "not-traits", "not-traits-any")


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """Five nodes, one for each way to have RED, BLUE and FOO that matters."""
    fleet = {
        "none": [],
        "red": [RED],
        "blue": [BLUE],
        "both": [RED, BLUE],
        "all": [RED, BLUE, FOO],
    }
    with running(tmp_path_factory.mktemp("painted")) as api:
        for name, traits in fleet.items():
            api.enrol(name=name, resource_class="gold" if name in ("red", "both") else "silver")
            api.send("PUT", f"/v1/nodes/{name}/traits", {"traits": traits})
        yield api


def names(api: Application, query: str, path: str = "/v1/nodes") -> list[str]:
    return [node["name"] for node in api.send("GET", f"{path}?{query}")["nodes"]]


# The guideline's four meanings, alone and together


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/detail"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"traits={RED}", ["red", "both", "all"]),
        (f"traits={RED},{BLUE}", ["both", "all"]),
        (f"traits-any={RED},{BLUE}", ["red", "blue", "both", "all"]),
        (f"not-traits={RED},{BLUE}", ["none", "red", "blue"]),
        (f"not-traits-any={RED},{BLUE}", ["none"]),
        (f"not-traits={RED}", ["none", "blue"]),
        (f"not-traits={RED},{BLUE}&traits-any={RED},{FOO}", ["red"]),
        (f"traits={RED}&not-traits-any={FOO}", ["red", "both"]),
        (f"traits={BLUE}&traits-any={RED},{FOO}&not-traits={FOO},{RED}", ["both"]),
        (f"traits={RED}&not-traits-any={RED}", []),
        (f"traits={RED},{RED}", ["red", "both", "all"]),
        ("traits=CUSTOM_NOBODY", []),
        (f"traits-any=CUSTOM_NOBODY,{FOO}", ["all"]),
        ("not-traits=CUSTOM_NOBODY", ["none", "red", "blue", "both", "all"]),
        (f"traits={RED}&resource_class=gold", ["red", "both"]),
        (f"not-traits-any={RED}&resource_class=silver&maintenance=false", ["none", "blue"]),
    ],
)
def test_filters(painted: Application, path: str, query: str, expected: list[str]) -> None:
    assert names(painted, query, path) == expected


def test_filters_sort_both_ways(painted: Application) -> None:
    assert names(painted, f"traits={RED}&sort_key=name") == ["all", "both", "red"]
    assert names(painted, f"traits={RED}&sort_key=name&sort_dir=desc") == ["red", "both", "all"]
    assert names(painted, f"traits={RED}&sort_dir=desc") == ["all", "both", "red"]


def test_the_next_link_keeps_the_filters(painted: Application) -> None:
    first = painted.send("GET", f"/v1/nodes?traits-any={RED},{BLUE}&not-traits-any={FOO}&limit=2")
    assert [node["name"] for node in first["nodes"]] == ["red", "blue"]
    rest = painted.send("GET", first["next"].split("/baremetal")[1])
    assert [node["name"] for node in rest["nodes"]] == ["both"]
    assert "next" not in rest


@pytest.mark.parametrize("argument", FILTERS)
@pytest.mark.parametrize(
    "value", ["", ",", "red", f"{RED},", "HW_CPU_X86_NOPE", "CUSTOM_", f"{RED} ,{BLUE}", "CUSTOM_" + "X" * 249]
)
def test_names_that_are_no_traits_are_400(painted: Application, argument: str, value: str) -> None:
    answer = painted.request("GET", f"/v1/nodes?{urlencode({argument: value})}")
    assert answer.status == 400
    assert "is not a trait" in answer.text


def test_a_filter_takes_fifty_names_at_most(painted: Application) -> None:
    fifty = ",".join(f"CUSTOM_{number}" for number in range(50))
    for argument in FILTERS:
        assert painted.request("GET", f"/v1/nodes?{argument}={fifty}").status == 200
        assert painted.request("GET", f"/v1/nodes?{argument}={fifty},{RED}").status == 400


@pytest.mark.parametrize("argument", [*(f"{name}={RED}" for name in FILTERS), "explain=true"])
def test_older_versions_are_406(painted: Application, argument: str) -> None:
    for path in ("/v1/nodes", "/v1/nodes/detail"):
        answer = painted.request("GET", f"{path}?{argument}", version="1.36")
        assert answer.status == 406
        assert "1.37" in answer.text
        assert painted.request("GET", f"{path}?{argument}", version="1.37").status == 200


# explain


def test_explain_tells_what_each_trait_alone_leaves(painted: Application) -> None:
    query = f"traits={FOO},CUSTOM_NOBODY&not-traits-any={RED}&traits-any={BLUE},{FOO}&explain=true"
    assert painted.send("GET", f"/v1/nodes?{query}") == {
        "nodes": [],
        "explain": {
            "nodes": 5,
            "traits": {FOO: 1, "CUSTOM_NOBODY": 0},
            "traits-any": {BLUE: 3, FOO: 1},
            "not-traits-any": {RED: 2},
        },
    }


def test_explain_counts_among_the_nodes_that_pass_the_other_filters(painted: Application) -> None:
    answer = painted.send("GET", f"/v1/nodes?resource_class=gold&traits={FOO}&not-traits={BLUE}&explain=true")
    assert answer == {"nodes": [], "explain": {"nodes": 2, "traits": {FOO: 0}, "not-traits": {BLUE: 1}}}


def test_explain_is_there_only_when_asked_for(painted: Application) -> None:
    assert "explain" not in painted.send("GET", f"/v1/nodes?traits={FOO}&explain=false")
    assert painted.send("GET", "/v1/nodes?explain=true&limit=1")["explain"] == {"nodes": 5}
    assert painted.request("GET", "/v1/nodes?explain=perhaps").status == 400


def test_explain_costs_one_query(painted: Application) -> None:
    query = f"traits={FOO},{RED}&traits-any={BLUE},{RED}&not-traits={BLUE}"

    def statements(more: str) -> int:
        with painted.counted() as sent:
            painted.send("GET", f"/v1/nodes?{query}{more}")
        return len(sent)

    assert statements("&explain=true") == statements("") + 1
