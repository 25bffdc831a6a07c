"""The simulated Cinder keeps the real one's rules: asked over HTTP, in plain words of its API."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from holdfast.sim import cinder

CONNECTOR = {"host": "node-1", "initiator": "iqn.2026-01.org.example:node-1"}


class Client:
    def __init__(self, simulator: cinder.Simulator) -> None:
        self.state, self.url = simulator

    def call(self, method: str, path: str, body: Any = None, version: str = "3.44") -> requests.Response:
        headers = {"OpenStack-API-Version": f"volume {version}"}
        return requests.request(method, self.url + path, json=body, headers=headers, timeout=5)

    def create(self, volume: str, instance: str, **more: Any) -> requests.Response:
        body = {"attachment": {"volume_uuid": volume, "instance_uuid": instance, **more}}
        return self.call("POST", "/attachments", body)

    def connect(self, attachment: str, connector: Any = CONNECTOR) -> requests.Response:
        return self.call("PUT", f"/attachments/{attachment}", {"attachment": {"connector": connector}})

    def complete(self, attachment: str) -> requests.Response:
        return self.call("POST", f"/attachments/{attachment}/action", {"os-complete": {}})


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with cinder.serving(tmp_path / "cinder.sqlite") as simulator:
        yield Client(simulator)


def test_an_attachment_goes_through_its_states_and_the_volume_with_it(client: Client) -> None:
    volume, instance = client.state.create_volume(), str(uuid.uuid4())
    attachment = client.create(volume, instance, connector=None).json()["attachment"]["id"]
    assert client.state.volume_status(volume) == "reserved"
    assert client.state.exports() == []
    answer = client.connect(attachment).json()["attachment"]
    assert answer["status"] == "reserved"  # stale, as the real one's
    assert answer["connection_info"]["auth_password"] in client.state.secrets()
    assert client.state.volume_status(volume) == "attaching"
    assert client.complete(attachment).status_code == 204
    assert client.state.volume_status(volume) == "in-use"
    assert client.call("GET", f"/attachments/{attachment}").json()["attachment"]["status"] == "attached"
    assert client.state.exports() == [cinder.Export(volume, "node-1", CONNECTOR["initiator"])]
    assert client.call("DELETE", f"/attachments/{attachment}").json() == {"attachments": []}
    assert client.state.volume_status(volume) == "available"
    assert client.call("DELETE", f"/attachments/{attachment}").status_code == 404


def test_a_volume_has_one_instance(client: Client) -> None:
    volume, one, other = client.state.create_volume(), str(uuid.uuid4()), str(uuid.uuid4())
    first = client.create(volume, one).json()["attachment"]["id"]
    assert client.create(volume, other).status_code == 400
    assert client.create(volume, one).status_code == 200  # the same instance may reserve again
    client.connect(first)
    assert client.create(volume, one).status_code == 400  # but not while it is attaching


def test_only_one_attachment_of_a_volume_is_connected(client: Client) -> None:
    volume, instance = client.state.create_volume(), str(uuid.uuid4())
    first, second = (client.create(volume, instance).json()["attachment"]["id"] for _ in range(2))
    client.connect(first)
    refused = client.connect(second)
    assert refused.status_code == 409
    assert refused.json()["conflictingRequest"]["code"] == 409


@pytest.mark.parametrize(
    ("connector", "status"),
    [({}, 400), (None, 400), ({"initiator": "iqn.2026-01.x:y"}, 500), ({"host": "h"}, 400)],
)
def test_a_connector_must_tell_enough(client: Client, connector: Any, status: int) -> None:
    attachment = client.create(client.state.create_volume(), str(uuid.uuid4())).json()["attachment"]["id"]
    assert client.connect(attachment, connector).status_code == status


def test_old_versions_know_no_attachments(client: Client) -> None:
    assert client.call("GET", "/attachments", version="3.26").status_code == 404
    assert client.call("GET", "/attachments", version="3.27").status_code == 200
    assert client.call("GET", "/attachments", version="3.99").status_code == 406


def test_lists_are_filtered_and_unknown_filters_refused(client: Client) -> None:
    volume, instance = client.state.create_volume(), str(uuid.uuid4())
    client.create(volume, instance)
    assert len(client.call("GET", f"/attachments?instance_id={instance}").json()["attachments"]) == 1
    assert client.call("GET", f"/attachments?instance_id={uuid.uuid4()}").json()["attachments"] == []
    assert client.call("GET", "/attachments?colour=red").status_code == 400


def test_faults_strike_before_or_after_the_effect(client: Client) -> None:
    instance = str(uuid.uuid4())
    client.state.arm("error", "POST", "/attachments$")
    assert client.create(client.state.create_volume(), instance).status_code == 500
    assert client.state.attachments() == []
    client.state.arm("reset", "POST", "/attachments$", after=True)
    with pytest.raises(requests.ConnectionError):
        client.create(client.state.create_volume(), instance)
    assert len(client.state.attachments()) == 1
    assert client.create(client.state.create_volume(), instance).status_code == 200


def test_what_it_keeps_survives_it(tmp_path: Path) -> None:
    with cinder.serving(tmp_path / "cinder.sqlite") as simulator:
        volume = simulator.state.create_volume()
        Client(simulator).create(volume, str(uuid.uuid4()))
    with cinder.serving(tmp_path / "cinder.sqlite") as simulator:
        assert simulator.state.volume_status(volume) == "reserved"
