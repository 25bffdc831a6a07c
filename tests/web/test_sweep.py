"""Malformed input to every route: never a 500, always the API's own error format with request ids.

Generated from the route tables; a new route is swept without a line here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec
import pytest

from holdfast.web.resources import Resource
from holdfast.web.routes import Api
from tests.application import VERSION_HEADER, Answer, Application, running
from tests.postgres import Cluster
from tests.web.targets import BODIES, DOCUMENTS, ENDPOINTS, PARAM, Endpoint, fill, valid_body

LATEST = {VERSION_HEADER: "latest"}
KIB = 1024

every_endpoint = pytest.mark.parametrize("endpoint", ENDPOINTS, ids=str)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def swept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """One application for the whole sweep, on each database: they disagree on what a string may hold."""
    where: Path = tmp_path_factory.mktemp("sweep")
    if request.param == "sqlite":
        with running(where) as application:
            yield application
        return
    cluster: Cluster = request.getfixturevalue("postgres_cluster")
    database = cluster.create()
    with running(where, database=cluster.url(database)) as application:
        yield application
    cluster.drop(database)


def check(answer: Answer, api: Api, what: Any) -> None:
    """Whatever was asked, this is how an answer looks."""
    shown = f"{what!r:.300} -> {answer.status} {answer.content[:500]!r}"
    assert answer.status < 500, shown
    assert answer.headers["openstack-request-id"].startswith("req-"), shown
    assert answer.headers["x-openstack-request-id"] == answer.headers["openstack-request-id"], shown
    if api.negotiation is not None:
        prefix = api.negotiation.header.lower().removesuffix("-version")
        assert answer.headers[f"{prefix}-minimum-version"] == str(api.negotiation.minimum), shown
        assert answer.headers[f"{prefix}-maximum-version"] == str(api.negotiation.maximum), shown
    if answer.status < 400 or not answer.content:
        return
    assert answer.headers["content-type"] == "application/json", shown
    if api.name == "baremetal":
        inner = json.loads(answer.json["error_message"])
        assert inner.get("faultstring") or inner["description"], shown
        assert inner.get("faultcode") == "Client" or inner["code"] == answer.status, shown
        assert answer.json["code"], shown
    else:
        assert answer.json["error"]["message"], shown
        assert answer.json["error"]["code"], shown


def spoken(endpoint: Endpoint) -> bool:
    negotiation = endpoint.api.negotiation
    return negotiation is None or endpoint.route.since <= negotiation.maximum


def missing(endpoint: Endpoint) -> set[int]:
    """404, where the sweep has no real object to call: that it is not there is found out before the body is read.
    The same goes for endpoints of versions that are not spoken yet."""
    if not spoken(endpoint):
        return {endpoint.route.older}
    known = set(PARAM.findall(endpoint.route.path)) <= {"node", "driver", "version"}
    return set() if known and not endpoint.route.path.endswith("/allocation") else {404}


BROKEN_TEXTS = [
    b"{",
    b"'",
    b"{'driver': 1}",
    b'{"driver":}',
    b'{"a": 1}{"b": 2}',
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b'{"a": "\\ud800"}',
    b'{"a": "\xff"}',
    b"\xff\xfe\x00\x01",
    b"\x00",
    b'\xef\xbb\xbf{"a": 1}',
    b"<xml/>",
    b'{"a": "unterminated',
    b'{"a": "\\',
]
TOO_MUCH = [
    b"[" * 26 + b"]" * 26,
    b'{"a":' * 26 + b"1" + b"}" * 26,
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b'{"a": [' + b"1," * 10_001 + b"1]}",
    json.dumps({f"k{i}": i for i in range(10_002)}).encode(),
]


@every_endpoint
def test_a_body_that_is_no_json_or_too_much_of_it_is_refused(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    for body in BROKEN_TEXTS + TOO_MUCH:
        answer = swept.call(endpoint.route.method, target, body, LATEST)
        check(answer, endpoint.api, (str(endpoint), body))
        assert answer.status in {400} | missing(endpoint), (str(endpoint), body, answer)


@every_endpoint
def test_a_body_over_the_limit_is_refused_before_it_is_read(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    most = swept.services.conf.api[endpoint.route.body_limit] * KIB
    answer = swept.call(endpoint.route.method, target, b"{}", {**LATEST, "Content-Length": str(most + 1)})
    check(answer, endpoint.api, str(endpoint))
    assert answer.status in {413} | missing(endpoint)


def test_a_body_of_more_than_a_mebibyte_is_too_large(swept: Application) -> None:
    body = json.dumps({"driver": "fake-hardware", "extra": {"x": "x" * KIB * KIB}}).encode()
    assert swept.call("POST", "/baremetal/v1/nodes", body).status == 413


@every_endpoint
def test_a_body_in_another_form_is_refused(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    for form in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "\xff" * 500):
        answer = swept.call(endpoint.route.method, target, b'{"a": 1}', {**LATEST, "Content-Type": form})
        check(answer, endpoint.api, (str(endpoint), form))
        assert answer.status in {400} | missing(endpoint), (str(endpoint), form, answer)


SHAPES: list[Any] = [None, [], {}, "text", 1, 1.5, True, [[]], [None], [1], ["x"], [{}], {"": ""}, {"x": {"y": []}}]


@every_endpoint
def test_a_body_of_another_shape_does_no_harm(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    for shape in SHAPES:
        answer = swept.call(endpoint.route.method, target, json.dumps(shape).encode(), LATEST)
        check(answer, endpoint.api, (str(endpoint), shape))
        if answer.status == 204:
            target = fill(swept, endpoint)


VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**31,
    2**63,
    -(2**63) - 1,
    2**70,
    "",
    "x",
    " ",
    "\x00",
    "a\x00b",
    "💥",
    "x" * 300,
    "x" * 5000,
    [],
    [1],
    [None],
    ["\x00"],
    {},
    {"a": "\x00"},
    {"\x00": 1},
    {"": {"": {"": []}}},
    str(uuid4()),
]


def _field_names(endpoint: Endpoint) -> list[str]:
    body = endpoint.route.body
    if isinstance(body, Resource):
        return [field.name for field in body.fields] + ["id", "links", "nonsense"]
    if isinstance(body, type) and issubclass(body, msgspec.Struct):
        return [*(field.encode_name for field in msgspec.structs.fields(body)), "nonsense"]
    return []


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if _field_names(e)], ids=str)
def test_a_field_of_another_kind_does_no_harm(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    for name in _field_names(endpoint):
        for value in VALUES:
            body = {**valid_body(swept, endpoint.route), name: value}
            answer = swept.call(endpoint.route.method, target, json.dumps(body).encode(), LATEST)
            check(answer, endpoint.api, (str(endpoint), body))


BAD_OPERATIONS: list[Any] = ["test", "move", "copy", "ADD", "", None, 1, [], {}]
BAD_PATHS: list[Any] = [
    "",
    "/",
    "//",
    "extra",
    "extra/a",
    "/extra/",
    "/extra//a",
    "/extra/~0",
    "/extra/~1a",
    "/extra/a~2",
    "/extra/a.b",
    "/extra/a b",
    "/extra/\x00",
    "/extra/é",
    "/nonsense",
    "/nonsense/a",
    "/id",
    "/links/0",
    "/uuid/x",
    "/created_at",
    "/" + "x" * 2000,
    "/extra" + "/a" * 600,
    None,
    1,
    [],
]
BAD_PATCHES: list[Any] = [
    {},
    "patch",
    [[]],
    [None],
    [{}],
    [{"op": "add"}],
    [{"path": "/extra/a", "value": 1}],
    [{"op": "add", "path": "/extra/a"}],
    [{"op": "replace", "path": "/extra/a"}],
    [{"op": "add", "path": "/extra/a", "value": 1, "from": "/extra/b"}],
    *([{"op": op, "path": "/extra/a", "value": 1}] for op in BAD_OPERATIONS),
    *([{"op": "add", "path": path, "value": 1}] for path in BAD_PATHS),
    [{"op": "remove", "path": "/extra/not-there"}],
    [{"op": "replace", "path": "/extra/not-there", "value": 1}],
    [{"op": "add", "path": "/extra/a/b/c/d", "value": 1}],
    [{"op": "add", "path": "/extra/a", "value": 1}, {"op": "add", "path": "/extra/a/b", "value": 1}],
    [{"op": "add", "path": "/extra/a", "value": []}, {"op": "add", "path": "/extra/a/9", "value": 1}],
    [{"op": "add", "path": "/extra/a", "value": []}, {"op": "remove", "path": "/extra/a/-"}],
]


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.route.body is list], ids=str)
def test_a_patch_that_is_none_is_refused_and_odd_values_do_no_harm(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    resource = endpoint.route.shows
    assert resource is not None, "a route that takes a patch tells what it patches"
    for patch in BAD_PATCHES:
        answer = swept.call("PATCH", target, json.dumps(patch).encode(), LATEST)
        check(answer, endpoint.api, (str(endpoint), patch))
        assert answer.status == 400, (str(endpoint), patch, answer)
    for name in (field.name for field in resource.fields):
        for operation in (
            *({"op": "add", "path": f"/{name}", "value": value} for value in VALUES),
            *({"op": "add", "path": f"/{name}/{below}", "value": 1} for below in ("a", "0", "-")),
            {"op": "replace", "path": f"/{name}", "value": None},
            {"op": "replace", "path": f"/{name}/a", "value": {}},
            {"op": "remove", "path": f"/{name}/0"},
            {"op": "remove", "path": f"/{name}"},
        ):
            answer = swept.call("PATCH", target, json.dumps([operation]).encode(), LATEST)
            check(answer, endpoint.api, (str(endpoint), operation))
            if answer.status == 200 and name in ("node_uuid", "uuid"):
                target = fill(swept, endpoint)
    thousands = [{"op": "add", "path": f"/extra/k{i}", "value": i} for i in range(2000)]
    check(swept.call("PATCH", target, json.dumps(thousands).encode(), LATEST), endpoint.api, "2000 operations")


ODD_ELEMENTS = [
    "%00",
    "a%00b",
    "%ff%fe",
    "%ed%a0%80",
    "%F0%9F%92%A5",
    "x" * 300,
    "x" * 5000,
    "..",
    ".",
    "-",
    "~",
    "%20",
    "%2e%2e%2f",
    "a%2fb",
    "a%0d%0aSet-Cookie:%20b",
    "'%20OR%201=1--",
    "%7B%7D",
    "%25",
    "%",
    "%zz",
    "detail",
    "None",
    "1",
    str(uuid4()),
    uuid4().hex,
    str(uuid4()).upper(),
    "{" + str(uuid4()) + "}",
]


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if PARAM.search(e.route.path)], ids=str)
def test_an_odd_path_element_does_no_harm(swept: Application, endpoint: Endpoint) -> None:
    body = json.dumps(valid_body(swept, endpoint.route)).encode() if endpoint.route.body else None
    for name in PARAM.findall(endpoint.route.path):
        for odd in ODD_ELEMENTS:
            target = fill(swept, endpoint, **{name: odd})
            for version in ("latest", "1.1"):
                answer = swept.call(endpoint.route.method, target, body, {VERSION_HEADER: version})
                check(answer, endpoint.api, (endpoint.route.method, target))


ODD_VALUES = ["", "%00", "%ff", "%ed%a0%80", "x" * 5000, "nonsense", "-1", "1.5", "null", "None", "[]", "'", "%2C", "٣"]
REFUSED_LISTS = [
    *(f"limit={value}" for value in ("0", "-1", "abc", "1.5", "", "%00", "%ff", "%D9%A3", "1e3", "0x10")),
    *(f"marker={value}" for value in ("abc", "%00", "x" * 5000, "'", "%ff")),
    f"marker={uuid4()}",
    *(f"sort_key={value}" for value in ("nonsense", "links", "extra", "%00", "id;", "'", "UUID ", "x" * 5000)),
    *(f"sort_dir={value}" for value in ("up", "", "ASC;", "%00")),
    *(f"fields={value}" for value in ("nonsense", "uuid,nonsense", "%00", "x" * 5000)),
    *(f"detail={value}" for value in ("maybe", "2", "%00", "")),
    "nonsense=1",
    "limit=1&nonsense",
    "=",
    "fields=uuid&detail=true",
    "&".join(f"a{i}=1" for i in range(1000)),
]


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.route.lists is not None], ids=str)
def test_odd_list_arguments_are_refused(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    for query in REFUSED_LISTS:
        answer = swept.call("GET", f"{target}?{query}", headers=LATEST)
        check(answer, endpoint.api, (target, query))
        assert answer.status in (400, 404), (target, query, answer)
    assert endpoint.route.lists is not None
    for name in (entry.name for entry in endpoint.route.lists.filters):
        for value in ODD_VALUES:
            for version in ("latest", "1.1"):
                answer = swept.call("GET", f"{target}?{name}={quote(value, '%')}", headers={VERSION_HEADER: version})
                check(answer, endpoint.api, (target, name, value))


@every_endpoint
def test_an_unknown_argument_is_refused(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    body = json.dumps(valid_body(swept, endpoint.route)).encode() if endpoint.route.body else None
    for query in ("nonsense=1", "nonsense", "%ff=%00", "a=1&" * 500):
        answer = swept.call(endpoint.route.method, f"{target}?{query}", body, LATEST)
        check(answer, endpoint.api, (str(endpoint), query))
        assert endpoint.route.any_query or answer.status in {400} | missing(endpoint), (str(endpoint), query, answer)
    for param in endpoint.route.query:
        for value in ODD_VALUES:
            odd = f"{target}?{param.name}={quote(value, '%')}"
            for version in ("latest", "1.1"):
                answer = swept.call(endpoint.route.method, odd, body, {VERSION_HEADER: version})
                check(answer, endpoint.api, (str(endpoint), odd))


NO_VERSIONS = [
    "abc",
    "1",
    "9.9",
    "1.999",
    "0.1",
    "1.0",
    "",
    " ",
    "-1.1",
    "1.-1",
    "1.1.1",
    "1,1",
    "٣.٣",
    "1.9999999",
    "\xff",
]


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.api.negotiation], ids=str)
def test_a_version_nobody_speaks_is_not_acceptable(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    negotiation = endpoint.api.negotiation
    assert negotiation is not None
    for text in NO_VERSIONS:
        given = [{negotiation.header: text}]
        if text.strip():
            given.append({"OpenStack-API-Version": f"{negotiation.service} {text}"})
        for headers in given:
            answer = swept.call(endpoint.route.method, target, headers=headers)
            check(answer, endpoint.api, (str(endpoint), headers))
            assert answer.status == 406, (str(endpoint), headers, answer)


@pytest.mark.parametrize(
    "endpoint", {e.api.prefix + e.route.path: e for e in ENDPOINTS}.values(), ids=lambda e: e.api.prefix + e.route.path
)
def test_a_method_that_is_not_offered_is_told_which_are(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    offered = {e.route.method for e in ENDPOINTS if (e.api, e.route.path) == (endpoint.api, endpoint.route.path)}
    for method in sorted({"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT"} - offered):
        answer = swept.call(method, target, headers=LATEST)
        check(answer, endpoint.api, (method, target))
        assert answer.status == 405
        assert offered <= set(answer.headers["allow"].split(", "))
    check(swept.call("OPTIONS", target), endpoint.api, target)
    check(swept.call("SING", target), endpoint.api, target)


JUNK_HEADERS: list[dict[str, str]] = [
    {"Accept": "\x00;;q=2,"},
    {"Accept": "text/html"},
    {"Accept": "application/json;q=nonsense"},
    {"Accept": "x/" * 1000},
    {"Content-Length": "abc"},
    {"Content-Length": "-1"},
    {"Content-Length": "9" * 400},
    {"Content-Type": ""},
    {"Content-Type": "json;" * 2000},
    {"Content-Encoding": "gzip"},
    {"Cookie": "a=\x00; =;;" * 100},
    {"Authorization": "\xff" * 1000},
    {"X-Auth-Token": "\x00"},
    {"X-Forwarded-For": "',\x00" * 100},
    {"X-Forwarded-Host": "evil.example"},
    {"X-Roles": "admin"},
    {"Range": "bytes=9-1"},
    {"If-Match": "\xff"},
    {"OpenStack-API-Version": ", ,baremetal,," * 200},
    {"OpenStack-API-Version": "\xff"},
]


@every_endpoint
def test_junk_in_headers_does_no_harm(swept: Application, endpoint: Endpoint) -> None:
    target = fill(swept, endpoint)
    for headers in JUNK_HEADERS:
        body = json.dumps(valid_body(swept, endpoint.route)).encode() if endpoint.route.body else None
        answer = swept.call(endpoint.route.method, target, body, {**LATEST, **headers})
        check(answer, endpoint.api, (str(endpoint), headers))
        if answer.status == 204:
            target = fill(swept, endpoint)


@pytest.mark.parametrize("host", ["\xff\xfe[[:", "", "a:b:c:" * 100, "a b/<script>", "127.0.0.1:x", "[::1", "\x00"])
def test_a_host_that_is_none_does_no_harm(swept: Application, host: str) -> None:
    for path in ("/", "/baremetal", "/baremetal/v1/nodes", "/nonsense"):
        answer = swept.call("GET", path, headers={"Host": host})
        assert answer.status < 500
        assert answer.json


@pytest.mark.parametrize(
    "path",
    ["/nonsense", "/baremetal/", "/baremetal/v2", "/baremetal/v1/nonsense", "/baremetal//", "//", "/%00", "/%ff"],
)
def test_a_path_nobody_serves_is_answered_in_the_format_of_its_api(swept: Application, path: str) -> None:
    api = next(e.api for e in ENDPOINTS if path.startswith(e.api.prefix))
    for method in ("GET", "POST", "DELETE"):
        check(swept.call(method, path, headers=LATEST), api, path)


def test_everything_that_can_be_created_has_a_document_to_sweep_with() -> None:
    creating = [e for e in ENDPOINTS if isinstance(e.route.body, Resource)]
    assert {e.route.path for e in creating} <= DOCUMENTS.keys()
    structs = [e.route.body for e in ENDPOINTS if isinstance(e.route.body, type) and e.route.body not in (list, dict)]
    assert {struct.__name__ for struct in structs} <= BODIES.keys()
