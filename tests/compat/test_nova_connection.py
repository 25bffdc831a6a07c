"""How Nova's ironic driver reaches the service: each kind of authentication, a part of the nodes, and `kill -9`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import bcrypt
import pytest
import requests

from tests.keystone import Keystone, keystone
from tests.nova import computing
from tests.service import QUICK, Service, serving

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("nova-connection")]
__all__ = ["keystone"]

PASSWORD = "c4nary-password"


@contextmanager
def http_basic(directory: Path, _request: pytest.FixtureRequest) -> Iterator[tuple[Service, dict[str, str]]]:
    users = directory / "htpasswd"
    users.write_text(f"nova:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
    strategy = {"default__auth_strategy": "http_basic", "default__http_basic_auth_user_file": str(users)}
    with serving(directory / "state", **strategy, **QUICK) as service:
        service.session.auth = ("nova", PASSWORD)
        yield (
            service,
            {
                "auth_type": "http_basic",
                "username": "nova",
                "password": PASSWORD,
                "endpoint_override": service.baremetal,
            },
        )


@contextmanager
def tokens(
    directory: Path, request: pytest.FixtureRequest, user: str, options: str = ""
) -> Iterator[tuple[Service, dict[str, str]]]:
    """The service is found in Keystone's catalogue."""
    cloud: Keystone = request.getfixturevalue("keystone")
    config = directory / "holdfast.conf"
    config.write_text(f"[DEFAULT]\nauth_strategy = keystone\n{options}\n{cloud.authtoken_section()}")
    with serving(directory / "state", config_file=config, **QUICK) as service:
        service.session.headers["X-Auth-Token"] = cloud.token("system-admin")[0]
        cloud.register_baremetal(service.baremetal)
        yield service, {"auth_type": "password", "valid_interfaces": "public", **cloud.auth(user)}


WAYS: dict[str, Callable[..., Any]] = {
    "http_basic": http_basic,
    "an administrator of the system": partial(tokens, user="system-admin"),
    "a user with role service": partial(tokens, user="holdfast", options="rbac_service_role_elevated_access = true"),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_instance_comes_and_goes_with(way: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with WAYS[way](tmp_path, request) as (service, settings), computing(tmp_path / "nova", **settings) as nova:
        assert requests.get(f"{service.baremetal}/v1/nodes", timeout=60).status_code == 401
        (node,) = service.enrol(state="available", resource_class="baremetal")
        service.send("POST", "/v1/ports", {"node_uuid": node, "address": "52:54:00:00:00:01"})
        assert nova.call("available_nodes") == [node]
        vif = {"id": str(uuid4()), "ip": "10.0.0.5", "mac": "52:54:00:00:00:01"}
        instance = nova.call("create", node=node, vifs=[vif])
        nova.call("spawn", instance=instance)
        assert service.send("GET", f"/v1/nodes/{node}")["instance_uuid"] == instance
        assert service.send("GET", f"/v1/nodes/{node}/vifs") == {"vifs": [{"id": vif["id"]}]}
        nova.call("power_off", instance=instance)
        assert service.send("GET", f"/v1/nodes/{node}")["power_state"] == "power off"
        nova.call("destroy", instance=instance)
        assert service.settle(node, "available")["instance_uuid"] is None


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        pytest.param({"conductor_group": "rack-1", "peer_list": "compute-1"}, {"one"}, id="a conductor group"),
        # Shards came with 1.82: Nova says in its log that the service is too old for them.
        pytest.param({"shard": "one"}, {"one", "two"}, id="a shard"),
    ],
)
def test_a_compute_service_takes_the_nodes_of(options: dict[str, str], seen: set[str], tmp_path: Path) -> None:
    with serving(tmp_path / "state", **QUICK) as service:
        (one,) = service.enrol(resource_class="baremetal", conductor_group="rack-1")
        (two,) = service.enrol(resource_class="baremetal", conductor_group="rack-2")
        settings = {"auth_type": "none", "endpoint_override": service.baremetal, **options}
        with computing(tmp_path / "nova", **settings) as nova:
            names = {one: "one", two: "two"}
            assert {names[node] for node in nova.call("available_nodes")} == seen


@pytest.mark.crash
def test_nova_does_not_notice_that_the_service_was_killed_while_it_deployed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        service = stack.enter_context(serving(tmp_path / "state", fake__deploy_delay="4", **QUICK))
        (node,) = service.enrol(state="available", resource_class="baremetal")
        settings = {"auth_type": "none", "endpoint_override": service.baremetal, "connect_retries": "20"}
        nova = stack.enter_context(computing(tmp_path / "nova", **settings))
        instance = nova.call("create", node=node)
        with ThreadPoolExecutor(1) as threads:
            spawning = threads.submit(nova.call, "spawn", instance=instance)
            _wait_until(lambda: "Still waiting for ironic node" in nova.log.read_text(), spawning)
            service.kill()
            again = stack.enter_context(serving(tmp_path / "state", port=service.port, **QUICK))
            spawning.result(60)
        document = again.send("GET", f"/v1/nodes/{node}")
        assert (document["provision_state"], document["instance_uuid"]) == ("active", instance)
        nova.call("destroy", instance=instance)
        assert again.settle(node, "available")["instance_uuid"] is None


def _wait_until(condition: Callable[[], bool], work: Future[Any]) -> None:
    """Until the condition holds, which it has to before the work is done."""
    while not condition():
        assert not work.done()
        time.sleep(0.02)
