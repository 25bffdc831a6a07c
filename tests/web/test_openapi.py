"""The OpenAPI document: it is valid, it says what the tables say, and the service does what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast.app import APIS
from holdfast.baremetal.api.nodes import NODE
from holdfast.baremetal.versions import MAXIMUM
from holdfast.web import openapi
from tests.application import Application
from tests.web.targets import ENDPOINTS, Endpoint, fill

DOCUMENT = json.loads(json.dumps(openapi.document(APIS)))
SPOKEN = [e for e in ENDPOINTS if e.api.negotiation is None or e.route.since <= e.api.negotiation.maximum]

# The application's background threads use `random` while Hypothesis draws; it takes that for the strategies' doing.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


def operation(endpoint: Endpoint) -> dict[str, Any]:
    path = endpoint.api.prefix + endpoint.route.path or "/"
    found: dict[str, Any] = DOCUMENT["paths"][path][endpoint.route.method.lower()]
    return found


def test_the_document_is_valid_openapi() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()


def test_every_reference_leads_somewhere() -> None:
    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                at: Any = DOCUMENT
                for key in value["$ref"].removeprefix("#/").split("/"):
                    at = at[key]
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(DOCUMENT)


def test_it_describes_every_route_and_nothing_else() -> None:
    described = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(e.api.prefix + e.route.path or "/", e.route.method.lower()) for e in SPOKEN}
    ids = [entry["operationId"] for methods in DOCUMENT["paths"].values() for entry in methods.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("endpoint", SPOKEN, ids=str)
def test_each_operation_tells_what_its_route_needs(endpoint: Endpoint) -> None:
    entry, route = operation(endpoint), endpoint.route
    assert str(route.success) in entry["responses"]
    assert ("requestBody" in entry) == (route.body is not None)
    assert entry.get("x-holdfast-policy") == route.policy
    assert (entry.get("security") == []) == (route.policy is None)
    if endpoint.api.negotiation:
        assert entry.get("x-holdfast-since", "1.1") == str(route.since)
    names = [parameter.get("name") for parameter in entry["parameters"] if parameter.get("in") == "query"]
    assert len(names) == len(set(names))
    known = {param.name for param in route.query if param.since <= MAXIMUM}
    if route.lists is not None:
        known |= {"limit", "marker", "sort_key", "sort_dir", "fields", "detail"}
        known |= {entry.name for entry in route.lists.filters if entry.since <= MAXIMUM}
    elif route.shows is not None and route.method == "GET":
        known.add("fields")
    assert set(names) == known


def test_fields_name_the_version_that_brought_them() -> None:
    properties = DOCUMENT["components"]["schemas"]["Node"]["properties"]
    for field in NODE.fields:
        if field.since <= MAXIMUM:
            assert properties[field.name].get("x-holdfast-since", "1.1") == str(field.since)
        else:
            assert field.name not in properties
    created = DOCUMENT["components"]["schemas"]["NodeCreate"]
    assert created["required"] == ["driver"]
    assert created["additionalProperties"] is False
    assert "provision_state" not in created["properties"]


def test_the_service_gives_it_and_the_command_prints_it(shared_api: Application) -> None:
    answer = shared_api.call("GET", "/openapi.json")
    assert answer.status == 200
    assert answer.json == DOCUMENT
    printed = subprocess.run([sys.executable, "-m", "holdfast", "openapi"], capture_output=True, check=True)
    assert json.loads(printed.stdout) == DOCUMENT


# -- what schemathesis makes of it

schema = schemathesis.openapi.from_dict(DOCUMENT)
BY_OPERATION = {operation(endpoint)["operationId"]: endpoint for endpoint in SPOKEN}


@schema.parametrize()
@settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_the_service_does_what_the_document_says(shared_api: Application, case: Any) -> None:
    endpoint = BY_OPERATION[case.operation.definition.raw["operationId"]]
    # Half of the requests are for things that exist: else nearly every answer is 404.
    if case.path_parameters and len(repr(case.body)) % 2:
        real = fill(shared_api, endpoint).removeprefix(endpoint.api.prefix).split("/")
        template = endpoint.route.path.split("/")
        case.path_parameters = {a[1:-1]: b for a, b in zip(template, real, strict=True) if a.startswith("{")}
    if endpoint.api.negotiation:
        case.headers = {**(case.headers or {}), endpoint.api.negotiation.header: "latest"}
    response = case.call(app=shared_api.wsgi)
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    case.validate_response(response, checks=checks)
