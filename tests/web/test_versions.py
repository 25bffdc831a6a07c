"""How a client and the service agree on a microversion."""

from __future__ import annotations

import json

import pytest

from holdfast.baremetal.versions import MAXIMUM, MINIMUM, VERSIONS
from holdfast.web.versions import Version, parse
from tests.application import Application

OWN, GENERIC = "X-OpenStack-Ironic-API-Version", "OpenStack-API-Version"
OLDEST, NEWEST = str(MINIMUM), str(MAXIMUM)

# headers: the version the answer is in
AGREED: list[tuple[dict[str, str], str]] = [
    ({}, OLDEST),
    ({OWN: "1.1"}, OLDEST),
    ({OWN: "1.5"}, "1.5"),
    ({OWN: NEWEST}, NEWEST),
    ({OWN: "latest"}, NEWEST),
    ({OWN: "LATEST"}, NEWEST),
    ({OWN: " 1.5 "}, "1.5"),
    ({OWN: "1.05"}, "1.5"),
    ({GENERIC: "baremetal 1.5"}, "1.5"),
    ({GENERIC: "baremetal latest"}, NEWEST),
    ({GENERIC: "compute 2.1, baremetal 1.5, volume 3.0"}, "1.5"),
    ({GENERIC: "compute 2.1"}, OLDEST),
    ({GENERIC: "compute 2.1", OWN: "1.6"}, "1.6"),
    ({GENERIC: "baremetal 1.5", OWN: "1.6"}, "1.5"),
    ({GENERIC: "baremetal 1.5", OWN: "nonsense"}, "1.5"),
]
REFUSED: list[dict[str, str]] = [
    {OWN: "abc"},
    {OWN: "1"},
    {OWN: "1."},
    {OWN: ".1"},
    {OWN: "1.0"},
    {OWN: "2.0"},
    {OWN: "9.9"},
    {OWN: "1.999"},
    {OWN: f"1.{MAXIMUM.minor + 1}"},
    {GENERIC: "baremetal 1.999"},
    {GENERIC: "baremetal abc"},
    {GENERIC: "baremetal 1.999", OWN: "1.5"},
]


@pytest.mark.parametrize(("headers", "version"), AGREED, ids=str)
def test_the_answer_is_in_the_version_that_was_asked_for(
    shared_api: Application, headers: dict[str, str], version: str
) -> None:
    answer = shared_api.call("GET", "/baremetal/v1/nodes", headers=headers)
    assert answer.status == 200
    assert answer.headers[OWN.lower()] == version


@pytest.mark.parametrize("headers", REFUSED, ids=str)
def test_a_version_nobody_speaks_is_refused_as_clients_expect(shared_api: Application, headers: dict[str, str]) -> None:
    answer = shared_api.call("GET", "/baremetal/v1/nodes", headers=headers)
    assert answer.status == 406
    # A string, in every version: ironicclient parses it, and breaks on anything else.
    inner = json.loads(answer.json["error_message"])
    assert (inner["code"], inner["title"]) == (406, "Not Acceptable")
    assert NEWEST in inner["description"]


def test_the_refusal_names_the_range(shared_api: Application) -> None:
    answer = shared_api.request("GET", "/v1/nodes", version="1.999")
    assert answer.text == (
        "Version 1.999 was requested but the minor version is not supported by this service. "
        f"The supported version range is: [{OLDEST}, {NEWEST}]."
    )


@pytest.mark.parametrize(
    ("path", "version", "status"),
    [
        ("", None, 200),
        ("", "latest", 200),
        ("/v1", None, 200),
        ("/v1", "1.999", 406),
        ("/v1/nodes", "abc", 406),
        ("/v1/nodes/unknown", "latest", 404),
        ("/v1/nodes?nonsense=1", "latest", 400),
        ("/v1/nonsense", "latest", 404),
    ],
)
def test_every_answer_tells_the_range(shared_api: Application, path: str, version: str | None, status: int) -> None:
    """Clients that asked for too much read it from the answer, and from /v1 without a version."""
    answer = shared_api.request("GET", path, version=version)
    assert answer.status == status
    assert answer.headers["x-openstack-ironic-api-minimum-version"] == OLDEST
    assert answer.headers["x-openstack-ironic-api-maximum-version"] == NEWEST


def test_a_refused_version_is_not_said_to_be_in_use(shared_api: Application) -> None:
    assert OWN.lower() not in shared_api.request("GET", "/v1/nodes", version="1.999").headers


def test_answers_are_cached_per_version(shared_api: Application) -> None:
    assert OWN in shared_api.request("GET", "/v1/nodes").headers["vary"]


def test_the_root_document_is_what_discovery_needs(shared_api: Application) -> None:
    document = shared_api.send("GET", "")
    (version,) = document["versions"]
    assert document["default_version"] == version
    assert (version["id"], version["status"]) == ("v1", "CURRENT")
    assert (version["min_version"], version["version"]) == (OLDEST, NEWEST)
    (link,) = version["links"]
    assert (link["rel"], link["href"]) == ("self", "http://127.0.0.1:6385/baremetal/v1/")


@pytest.mark.parametrize(
    ("version", "absent"),
    [
        ("1.1", {"portgroups", "volume", "lookup", "heartbeat"}),
        ("1.21", {"portgroups", "volume", "lookup", "heartbeat"}),
        ("1.22", {"portgroups", "volume"}),
        ("1.23", {"volume"}),
        ("1.31", {"volume"}),
        ("1.32", set()),
        ("latest", set()),
    ],
)
def test_v1_links_the_collections_its_version_knows(shared_api: Application, version: str, absent: set[str]) -> None:
    document = shared_api.request("GET", "/v1/", version=version).json
    everything = {"chassis", "nodes", "ports", "drivers", "lookup", "heartbeat", "portgroups", "volume"}
    assert document.keys() & everything == everything - absent
    assert document["nodes"] == [
        {"href": "http://127.0.0.1:6385/baremetal/v1/nodes/", "rel": "self"},
        {"href": "http://127.0.0.1:6385/baremetal/nodes/", "rel": "bookmark"},
    ]
    assert document["version"]["version"] == NEWEST


def test_the_version_element_of_a_path_may_be_left_out(shared_api: Application) -> None:
    """Bookmark links do."""
    (uuid,) = shared_api.enrol()
    for path in ("/nodes", "/nodes/", f"/nodes/{uuid}", f"/nodes/{uuid}/states"):
        assert shared_api.request("GET", path).content == shared_api.request("GET", f"/v1{path}").content


def test_every_version_has_its_story_and_none_is_left_out() -> None:
    assert list(VERSIONS) == [Version(1, minor) for minor in range(1, MAXIMUM.minor + 1)]
    assert all(story.endswith(".") for story in VERSIONS.values())


@pytest.mark.parametrize("text", ["", ".", "1", "1.x", "x.1", "-1.1", "1.1.1", "1 .1", "٣.٣", "1.1234567", "12345.1"])
def test_what_is_no_version(text: str) -> None:
    assert parse(text) is None


def test_versions_compare_as_numbers() -> None:
    assert parse("1.9") < parse("1.10") < parse("2.0")  # type: ignore[operator]
