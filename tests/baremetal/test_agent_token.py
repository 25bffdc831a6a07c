"""The token of a ramdisk (1.62): given once per boot, asked for ever after, forgotten with the boot; and what
later versions let a ramdisk say (1.68, 1.72)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.baremetal import nodes
from tests.application import Application
from tests.baremetal.test_waits import BEAT, waiting

MASK = "******"


def token(api: Application, node: str, version: str = "latest") -> str | None:
    given: str | None = api.request("GET", f"/v1/lookup?node_uuid={node}", version=version).json["config"][
        "agent_token"
    ]
    return given


def stored(api: Application, node: str) -> dict[str, Any]:
    with api.services.db.read() as connection:
        return nodes.load_task(connection, node).node.driver_internal_info


def beat(api: Application, node: str, version: str = "latest", **said: Any) -> int:
    return api.request("POST", f"/v1/heartbeat/{node}", {**BEAT, **said}, version=version).status


@pytest.fixture
def node(api: Application) -> str:
    """Waits for its ramdisk while being deployed."""
    return waiting(api, "deploy")


def test_the_first_lookup_of_a_boot_gets_it_and_nobody_else(api: Application, node: str) -> None:
    assert token(api, node, "1.61") is None
    given = token(api, node, "1.62")
    assert given is not None
    assert len(given) == 43
    assert [token(api, node) for _ in range(2)] == [MASK, MASK]
    for path in (f"/v1/nodes/{node}", f"/v1/lookup?node_uuid={node}", "/v1/nodes/detail"):
        assert given.encode() not in api.request("GET", path).content


def test_of_many_who_ask_at_once_one_gets_it(either_api: Application) -> None:
    node = waiting(either_api, "deploy")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: either_api.request("GET", f"/v1/lookup?node_uuid={node}"), range(16)))
    given = [answer.json["config"]["agent_token"] for answer in answers if answer.status == 200]
    assert {answer.status for answer in answers} <= {200, 409}
    assert len([one for one in given if one != MASK]) == 1


def test_a_heartbeat_shows_it_in_every_version(api: Application, node: str) -> None:
    given = token(api, node)
    for version in ("1.61", "1.62", "latest"):
        assert beat(api, node, version) == 400
        assert beat(api, node, version, agent_token="x" * 43) == 400
        assert beat(api, node, version, agent_token=MASK) == 400
    assert api.send("GET", f"/v1/nodes/{node}")["provision_state"] == "wait call-back"
    assert beat(api, node, agent_token=given) == 202
    api.settle(node, "active")


def test_from_1_62_on_a_heartbeat_needs_one_that_was_given(api: Application, node: str) -> None:
    assert beat(api, node, "1.62") == 400
    assert beat(api, node, "1.62", agent_token="x" * 43) == 400
    assert beat(api, node, "1.61") == 202


@pytest.mark.parametrize("target", ["power off", "rebooting"])
def test_it_ends_with_the_boot(api: Application, node: str, target: str) -> None:
    token(api, node)
    assert "agent_secret_token" in stored(api, node)
    api.send("PUT", f"/v1/nodes/{node}/states/power", {"target": target})
    api.settle(node)
    assert "agent_secret_token" not in stored(api, node)
    assert token(api, node) not in (MASK, None)


def test_it_ends_with_the_instance(api: Application, node: str) -> None:
    token(api, node)
    api.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "deleted"})
    api.settle(node, "available")
    assert "agent_secret_token" not in stored(api, node)


@pytest.mark.parametrize(
    ("said", "since"),
    [
        ({"agent_verify_ca": "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"}, "1.68"),
        ({"agent_status": "start"}, "1.72"),
        ({"agent_status_message": "half way"}, "1.72"),
    ],
)
def test_what_a_ramdisk_may_say_depends_on_the_version(
    api: Application, node: str, said: dict[str, str], since: str
) -> None:
    given = token(api, node)
    before = f"1.{int(since[2:]) - 1}"
    assert beat(api, node, before, agent_token=given, **said) == 400
    assert beat(api, node, since, agent_token=given, **said) == 202


def test_an_unknown_status_is_refused(api: Application, node: str) -> None:
    assert beat(api, node, agent_token=token(api, node), agent_status="dancing") == 400
