"""Flows over HTTP, and the command that shows them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from holdfast.cli.main import main
from tests.application import Answer, Application
from tests.flows.toy import settle


@pytest.fixture
def stuck(api: Application) -> str:
    """A deploy that went through and could not be written down."""
    (node,) = api.enrol(state="available")
    api.services.flows.faults.arm("deploy_node.finish.do.before=error")
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
    while not (found := flows(api, "?state=stuck")):
        pass
    api.services.flows.faults.arm("")
    return str(found[0]["id"])


def call(api: Application, method: str, path: str, document: Any = None) -> Answer:
    body = None if document is None else json.dumps(document).encode()
    return api.call(method, f"/flows{path}", body)


def flows(api: Application, query: str = "") -> list[Any]:
    answer = call(api, "GET", query)
    assert answer.status == 200
    found: list[Any] = answer.json["flows"]
    return found


def test_flows_are_listed_newest_first_with_a_link_to_the_next_page(api: Application) -> None:
    api.enrol(2, state="manageable")
    first = call(api, "GET", "?limit=1").json
    assert [flow["kind"] for flow in first["flows"]] == ["manage_node"]
    path, _, query = first["next"].partition("?")
    assert path.endswith("/flows")
    second = call(api, "GET", f"?{query}").json
    assert second["flows"][0]["id"] != first["flows"][0]["id"]
    assert "next" not in second


def test_flows_of_one_node_are_found_by_its_uuid(api: Application) -> None:
    one, two = api.enrol(2, state="manageable")
    settle(api.services.flows)
    assert [flow["subject"] for flow in flows(api, f"?subject={one}")] == [one]
    assert flows(api, "?kind=deploy_node") == []
    assert {flow["subject"] for flow in flows(api, "?state=done")} == {one, two}


@pytest.mark.parametrize("query", ["?state=odd", "?limit=0", "?limit=x", "?marker=unknown", "?colour=red"])
def test_a_query_that_makes_no_sense_is_refused(api: Application, query: str) -> None:
    answer = call(api, "GET", query)
    assert answer.status == 400
    assert answer.json["error"]["message"]


def test_a_flow_shows_its_steps_and_what_to_do_next(api: Application, stuck: str) -> None:
    shown = call(api, "GET", f"/{stuck}").json
    assert shown["state"] == "stuck"
    assert shown["request_id"].startswith("req-")
    assert f"holdfast flow retry {stuck}" in shown["next_action"]
    names = [step["name"] for step in shown["steps"]]
    assert names[0] == "begin"
    assert names[-1] == "finish"
    assert "Injected failure" in shown["steps"][-1]["error"]


def test_a_stuck_flow_is_carried_on(api: Application, stuck: str) -> None:
    answer = call(api, "POST", f"/{stuck}/retry")
    assert answer.status == 202
    node = api.settle(answer.json["subject"], "active")
    assert node["reservation"] is None
    settle(api.services.flows)
    assert call(api, "GET", f"/{stuck}").json["state"] == "done"
    assert call(api, "POST", f"/{stuck}/retry").status == 409


def test_a_flow_is_given_up_with_a_reason(api: Application, stuck: str) -> None:
    answer = call(api, "POST", f"/{stuck}/abandon", {"reason": "the rack burned down"})
    assert answer.status == 200
    assert answer.json["state"] == "abandoned"
    assert answer.json["reason"] == "the rack burned down"
    node = api.settle(answer.json["subject"])
    assert "the rack burned down" in node["last_error"]


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": 1}, {"reason": "x", "force": True}])
def test_giving_up_needs_a_reason(api: Application, stuck: str, body: dict[str, Any]) -> None:
    assert call(api, "POST", f"/{stuck}/abandon", body).status == 400
    assert call(api, "GET", f"/{stuck}").json["state"] == "stuck"


@pytest.mark.parametrize(("method", "verb"), [("GET", ""), ("POST", "/retry"), ("POST", "/abandon")])
def test_a_flow_that_is_not_there_is_not_found(api: Application, method: str, verb: str) -> None:
    body = {"reason": "x"} if verb == "/abandon" else None
    answer = call(api, method, f"/0b3ec6f1-79b2-4b4f-92b6-0c5f9b9a3f0e{verb}", body)
    assert answer.status == 404


class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def url(api: Application) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, api._wsgi, handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_command_lists_shows_and_repairs(
    api: Application, stuck: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["flow", "list", "--url", url, "--state", "stuck"]) == 0
    assert "deploy_node" in capsys.readouterr().out
    assert main(["flow", "show", stuck, "--url", url]) == 0
    told = capsys.readouterr().out
    for word in ("stuck", "boot_instance", "finish", "next action", "holdfast flow retry"):
        assert word in told
    assert main(["flow", "retry", stuck, "--url", url, "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == stuck
    settle(api.services.flows)
    assert main(["flow", "abandon", stuck, "--url", url, "--reason", "too late"]) == 1
    assert "nothing left to abandon" in capsys.readouterr().err


def test_the_command_reads_the_address_from_the_environment(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", url)
    assert main(["flow", "list"]) == 0
    assert "No flows" in capsys.readouterr().out


def test_the_command_says_when_nothing_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flow", "list", "--url", "http://127.0.0.1:9"]) == 1
    assert "Nothing answers" in capsys.readouterr().err
