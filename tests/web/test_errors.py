"""How errors leave: each API's own format, a code, a sentence for the reader, and an id to find it in the log."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from holdfast import errors
from holdfast.baremetal.api.routes import error_body
from holdfast.services import Services
from holdfast.web import edge
from holdfast.web.routes import Api, Reply, Request, Route
from tests.application import Application

UNKNOWN = "/v1/nodes/5b1f5fb4-5b5e-4c3b-9a5e-2a6f0f4c2d11"


def _tree(error: type[errors.HoldfastError]) -> list[type[errors.HoldfastError]]:
    """The public ones: a module may have a kind of its own that its callers see as one of these."""
    children = [child for child in error.__subclasses__() if child.__module__ == errors.__name__]
    return [error, *(found for child in children for found in _tree(child))]


def test_every_error_has_a_code_of_its_own_and_a_status() -> None:
    tree = _tree(errors.HoldfastError)
    assert len({error.code for error in tree}) == len(tree)
    assert all(400 <= error.status <= 503 for error in tree)
    drawn = errors.__doc__ or ""
    assert all(error.__name__ in drawn for error in tree)


@pytest.mark.parametrize("error", _tree(errors.HoldfastError), ids=lambda error: error.__name__)
def test_each_error_has_the_form_ironic_clients_read(error: type[errors.HoldfastError]) -> None:
    document = error_body(error("Do this next."))
    inner = json.loads(document["error_message"])
    assert (inner.get("faultstring") or inner["description"]) == "Do this next."
    assert document["code"] == error.code
    if error.status in (405, 406):
        assert inner["code"] == error.status
    else:
        assert inner["faultcode"] == ("Server" if error.status >= 500 else "Client")
        assert inner["debuginfo"] is None


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", UNKNOWN, None, 404, "not-found"),
        ("GET", "/v1/nonsense", None, 404, "not-found"),
        ("POST", UNKNOWN, None, 405, "method-not-allowed"),
        ("POST", "/v1/nodes", {}, 400, "invalid-value"),
        ("POST", "/v1/nodes", {"driver": "fake-hardware", "x": 1}, 400, "unknown-argument"),
        ("GET", "/v1/nodes?x=1", None, 400, "unknown-argument"),
        ("GET", "/v1/nodes?sort_key=x", None, 400, "invalid-value"),
        ("DELETE", "/v1/nodes/taken", {"x": 1}, 400, "bad-request"),
        ("POST", "/v1/nodes", {"driver": "fake-hardware", "name": "taken"}, 409, "duplicate"),
        ("PATCH", "/v1/nodes/taken", [{"op": "test", "path": "/extra"}], 400, "bad-patch"),
        ("PUT", "/v1/nodes/taken/states/provision", {"target": "rebuild"}, 400, "invalid-state-requested"),
    ],
)
def test_an_error_tells_what_went_wrong(
    shared_api: Application, method: str, path: str, body: Any, status: int, code: str
) -> None:
    if shared_api.request("GET", "/v1/nodes/taken").status == 404:
        shared_api.enrol(name="taken")
    answer = shared_api.request(method, path, body)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.text.endswith(".")
    assert answer.headers["content-type"] == "application/json"


def test_each_request_has_an_id_of_its_own_under_both_names(shared_api: Application) -> None:
    seen = set()
    for path in ("/v1/nodes", UNKNOWN, "/v1/nonsense", "/v1/nodes?x=1"):
        headers = shared_api.request("GET", path).headers
        assert headers["openstack-request-id"] == headers["x-openstack-request-id"]
        seen.add(headers["openstack-request-id"])
    assert len(seen) == 4


def test_paths_of_no_api_have_the_services_own_form(shared_api: Application) -> None:
    answer = shared_api.call("GET", "/nonsense")
    assert answer.status == 404
    assert answer.json == {"error": {"code": "not-found", "message": "The resource could not be found."}}


def test_an_answer_without_content_has_no_body_and_no_type(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol()
    answer = shared_api.request("DELETE", f"/v1/nodes/{uuid}")
    assert (answer.status, answer.content) == (204, b"")
    assert "content-type" not in answer.headers


class _Broken(Exception):
    pass


def _failing(services: Services, error: Exception) -> Application:
    def handler(_request: Request) -> Reply:
        raise error

    route = Route("GET", "/broken", handler, None, "Breaks.")
    return Application(services, edge.build(services, [Api("broken", "", [route], None, error_body)]))


def test_a_bug_is_a_500_that_shows_nothing_of_itself(shared_api: Application, caplog: pytest.LogCaptureFixture) -> None:
    answer = _failing(shared_api.services, _Broken("the secret is hunter2")).call("GET", "/broken")
    assert answer.status == 500
    request_id = answer.headers["openstack-request-id"]
    assert request_id in answer.text
    assert b"hunter2" not in answer.content
    assert json.loads(answer.json["error_message"])["faultcode"] == "Server"
    assert any(request_id in record.getMessage() for record in caplog.records)


def test_a_database_that_is_away_is_said_so_and_may_be_asked_again(
    shared_api: Application, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    away = OperationalError("SELECT secret", {}, Exception("password=hunter2"))
    answer = _failing(shared_api.services, away).call("GET", "/broken")
    assert (answer.status, answer.json["code"], answer.headers["retry-after"]) == (503, "unavailable", "1")
    assert b"SELECT" not in answer.content
    assert "hunter2" not in caplog.text


def test_links_start_with_the_configured_endpoint(shared_api: Application) -> None:
    conf = shared_api.services.conf
    conf.set_override("public_endpoint", "https://metal.example/", group="api")
    try:
        (uuid,) = shared_api.enrol()
        document = shared_api.send("GET", f"/v1/nodes/{uuid}")
        assert document["links"][0]["href"] == f"https://metal.example/baremetal/v1/nodes/{uuid}"
        assert shared_api.send("GET", "")["versions"][0]["links"][0]["href"] == "https://metal.example/baremetal/v1/"
    finally:
        conf.clear_override("public_endpoint", group="api")
