"""Lists: pages, order, filters, fields and detail, shown on nodes; every list of the service works this way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.application import Application, running
from tests.postgres import Cluster

# What makes every kind of tie and gap: names that are missing, classes shared by many.
FLEET: list[dict[str, Any]] = [
    {
        "name": f"node-{number:02}" if number % 3 else None,
        "resource_class": ("small", "large", None)[number % 3 if number % 5 else 0],
        "extra": {"number": number},
        "maintenance": number % 4 == 0,
        "conductor_group": "east" if number % 2 else "",
    }
    for number in range(23)
]
SORT_KEYS = ["uuid", "name", "resource_class", "maintenance", "created_at", "provision_state", "instance_uuid", "id"]

# The application's background threads use `random` while Hypothesis draws; it takes that for the strategies' doing.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """The same nodes on each database."""
    where: Path = tmp_path_factory.mktemp("fleet")
    cluster: Cluster | None = None
    database = None
    if request.param == "postgres":
        cluster = request.getfixturevalue("postgres_cluster")
        assert cluster is not None
        database = cluster.create()
    with running(where, database=cluster.url(database) if cluster and database else None) as application:
        for fields in FLEET:
            application.enrol(**fields)
        yield application
    if cluster and database:
        cluster.drop(database)


def listed(api: Application, query: str = "", path: str = "/v1/nodes") -> list[dict[str, Any]]:
    document = api.send("GET", f"{path}?{query}" if query else path)
    found: list[dict[str, Any]] = document["nodes"]
    return found


def walked(api: Application, query: str, path: str = "/v1/nodes") -> tuple[list[dict[str, Any]], int]:
    """Everything a client sees that follows `next` as it stands, and in how many pages."""
    found: list[dict[str, Any]] = []
    pages, target = 0, f"{path}?{query}"
    while True:
        document = api.send("GET", target)
        found += document["nodes"]
        pages += 1
        if "next" not in document:
            return found, pages
        link = urlsplit(document["next"])
        assert link.path.startswith("/baremetal/v1/")
        target = f"{link.path.removeprefix('/baremetal')}?{link.query}"


def uuids(documents: list[dict[str, Any]]) -> list[str]:
    return [document["uuid"] for document in documents]


def test_a_plain_list_is_in_the_order_of_enrolment_and_brief(fleet: Application) -> None:
    found = listed(fleet)
    assert [node["name"] for node in found] == [fields["name"] for fields in FLEET]
    assert found[0].keys() == {
        "uuid",
        "name",
        "instance_uuid",
        "maintenance",
        "power_state",
        "provision_state",
        "links",
    }


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/detail", "/nodes", "/v1/nodes/"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("key", SORT_KEYS)
def test_pages_of_any_size_make_up_the_whole_list(fleet: Application, key: str, direction: str, path: str) -> None:
    order = f"sort_key={key}&sort_dir={direction}"
    whole = uuids(listed(fleet, order, path))
    assert sorted(whole) == sorted(uuids(listed(fleet)))
    for limit in (1, 2, 7, 22, 23, 24, 1000):
        found, pages = walked(fleet, f"{order}&limit={limit}", path)
        assert uuids(found) == whole
        # No page too many: a last page that happens to be full has no next one.
        assert pages == -(-len(FLEET) // limit)


@pytest.mark.parametrize("key", ["name", "resource_class"])
def test_what_is_null_comes_last_and_first_when_turned_around(fleet: Application, key: str) -> None:
    query = f"fields=uuid,{key}&sort_key={key}"
    values = [node[key] for node in listed(fleet, query)]
    known = [value for value in values if value is not None]
    assert known == sorted(known)
    assert values == known + [None] * (len(values) - len(known))
    turned = [node[key] for node in listed(fleet, f"{query}&sort_dir=desc")]
    assert turned == values[::-1]


def test_equal_values_keep_the_order_of_enrolment(fleet: Application) -> None:
    in_order = listed(fleet, "fields=uuid,maintenance")
    expected = [n["uuid"] for wanted in (False, True) for n in in_order if n["maintenance"] is wanted]
    assert uuids(listed(fleet, "sort_key=maintenance")) == expected


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(SORT_KEYS),
    direction=st.sampled_from(["asc", "desc"]),
    limit=st.integers(1, 25),
    chosen=st.fixed_dictionaries(
        {},
        optional={
            "maintenance": st.sampled_from(["true", "false", "1", "no"]),
            "associated": st.sampled_from(["True", "False"]),
            "resource_class": st.sampled_from(["small", "large", "huge"]),
            "driver": st.just("fake-hardware"),
            "conductor_group": st.sampled_from(["east", "EAST", ""]),
            "provision_state": st.sampled_from(["enroll", "active"]),
            "fields": st.sampled_from(["uuid", "uuid,name,extra"]),
        },
    ),
)
def test_filters_order_and_fields_last_to_the_last_page(
    fleet: Application, key: str, direction: str, limit: int, chosen: dict[str, str]
) -> None:
    query = "&".join(f"{name}={value}" for name, value in chosen.items())
    order = f"sort_key={key}&sort_dir={direction}"
    whole = listed(fleet, f"{query}&{order}")
    found, _ = walked(fleet, f"{query}&{order}&limit={limit}")
    assert found == whole


def test_next_repeats_every_argument(fleet: Application) -> None:
    query = "maintenance=false&driver=fake-hardware&fields=uuid,name&sort_key=name&sort_dir=desc&limit=3"
    document = fleet.send("GET", f"/v1/nodes?{query}")
    link = urlsplit(document["next"])
    assert f"{link.scheme}://{link.netloc}{link.path}" == "http://127.0.0.1:6385/baremetal/v1/nodes"
    repeated = {name: values[0] for name, values in parse_qs(link.query).items()}
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    assert repeated == {**asked, "marker": document["nodes"][-1]["uuid"]}


def test_next_of_a_detailed_list_is_detailed(fleet: Application) -> None:
    assert "/v1/nodes/detail?" in fleet.send("GET", "/v1/nodes/detail?limit=2")["next"]
    assert "detail=True" in fleet.send("GET", "/v1/nodes?detail=True&limit=2")["next"]
    found, pages = walked(fleet, "detail=True&limit=10")
    assert pages == 3
    assert all("driver_info" in node for node in found)


def test_a_page_never_has_more_than_the_service_allows(fleet: Application) -> None:
    conf = fleet.services.conf
    conf.set_override("max_limit", 5, group="api")
    try:
        for query in ("", "limit=1000", "limit=99999999999999999999999"):
            assert len(listed(fleet, query)) == 5
        assert uuids(walked(fleet, "limit=1000")[0]) == uuids(walked(fleet, "limit=5")[0])
    finally:
        conf.clear_override("max_limit", group="api")


@pytest.mark.parametrize(
    ("query", "version", "status"),
    [
        ("limit=0", "latest", 400),
        ("limit=-1", "latest", 400),
        ("limit=x", "latest", 400),
        ("marker=x", "latest", 400),
        ("marker=5b1f5fb4-5b5e-4c3b-9a5e-2a6f0f4c2d11", "latest", 404),
        ("sort_dir=up", "latest", 400),
        ("sort_key=nonsense", "latest", 400),
        *((f"sort_key={key}", "latest", 400) for key in ("extra", "driver_info", "properties", "traits", "links")),
        ("sort_key=name", "1.4", 406),
        ("sort_key=resource_class", "1.20", 406),
        ("fields=uuid", "1.7", 406),
        ("fields=uuid", "1.8", 200),
        ("fields=nonsense", "latest", 400),
        ("fields=uuid,traits", "1.36", 406),
        ("fields=uuid&detail=true", "latest", 400),
        ("fields=uuid&detail=false", "latest", 200),
        ("detail=true", "1.42", 400),
        ("detail=true", "1.43", 200),
        ("detail=maybe", "latest", 400),
        ("provision_state=enroll", "1.8", 406),
        ("provision_state=nonsense", "latest", 400),
        ("driver=x", "1.15", 406),
        ("resource_class=x", "1.20", 406),
        ("fault=power%20failure", "1.41", 406),
        ("fault=nonsense", "latest", 400),
        ("conductor_group=x", "1.45", 406),
        ("instance_uuid=x", "latest", 400),
        ("associated=perhaps", "latest", 400),
        ("maintenance=true", "1.1", 200),
        ("chassis_uuid=x", "latest", 400),
        ("owner=x", "1.49", 406),
    ],
)
def test_an_argument_that_is_wrong_or_too_new_is_refused(
    fleet: Application, query: str, version: str, status: int
) -> None:
    assert fleet.request("GET", f"/v1/nodes?{query}", version=version).status == status


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ("uuid", {"uuid"}),
        ("uuid,name", {"uuid", "name"}),
        ("UUID, Name ,,name,", {"uuid", "name"}),
        ("links", set()),
        ("extra,traits,conductor_group", {"extra", "traits", "conductor_group"}),
        ("chassis_uuid", {"chassis_uuid"}),
    ],
)
def test_fields_chooses_what_is_shown_links_always_are(fleet: Application, fields: str, shown: set[str]) -> None:
    for node in listed(fleet, f"fields={fields.replace(' ', '%20')}"):
        assert node.keys() == shown | {"links"}
    (first, *_) = listed(fleet)
    alone = fleet.send("GET", f"/v1/nodes/{first['uuid']}?fields={fields.replace(' ', '%20')}")
    assert alone.keys() == shown | {"links"}


def test_detail_shows_what_a_node_alone_shows(fleet: Application) -> None:
    detailed = listed(fleet, path="/v1/nodes/detail")
    assert detailed == listed(fleet, "detail=true")
    for node in detailed[:3]:
        assert node == fleet.send("GET", f"/v1/nodes/{node['uuid']}")
        assert node["ports"][0]["href"].endswith(f"/v1/nodes/{node['uuid']}/ports")


def test_an_empty_list_is_a_list(fleet: Application) -> None:
    assert fleet.send("GET", "/v1/nodes?resource_class=huge") == {"nodes": []}


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("maintenance=true", lambda f: f["maintenance"]),
        ("maintenance=no", lambda f: not f["maintenance"]),
        ("resource_class=small", lambda f: f["resource_class"] == "small"),
        ("conductor_group=EAST", lambda f: f["conductor_group"] == "east"),
        ("conductor_group=", lambda f: f["conductor_group"] == ""),
        ("associated=true", lambda f: False),
        ("resource_class=large&maintenance=false", lambda f: f["resource_class"] == "large" and not f["maintenance"]),
    ],
)
def test_filters_narrow_the_list(fleet: Application, query: str, wanted: Any) -> None:
    numbers = [node["extra"]["number"] for node in listed(fleet, f"{query}&fields=extra")]
    assert numbers == [fields["extra"]["number"] for fields in FLEET if wanted(fields)]


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/detail", "/v1/nodes?fields=uuid,traits"])
def test_a_longer_list_takes_no_more_queries(fleet: Application, path: str) -> None:
    def queries(limit: int) -> int:
        with fleet.counted() as statements:
            fleet.send("GET", f"{path}{'&' if '?' in path else '?'}limit={limit}")
        return len(statements)

    assert queries(1) == queries(23) <= 3
