"""Tokens of a real Keystone: who gets in, as whom, and what happens when Keystone is away."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import falcon.testing
import openstack
import openstack.exceptions
import pytest
import requests

from holdfast import config
from holdfast.web import auth
from tests import keystone as real_keystone
from tests.keystone import PEOPLE, Keystone
from tests.service import Service, serving

keystone = real_keystone.keystone
pytestmark = [
    pytest.mark.real,
    # WebOb, inside keystonemiddleware, still imports it.
    pytest.mark.filterwarnings("ignore:'cgi' is deprecated:DeprecationWarning"),
]

Door = Callable[..., falcon.testing.TestClient]


class Inside:
    """A trivial application behind the door; remembers who came in."""

    def __init__(self) -> None:
        self.callers: list[auth.Caller] = []

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        self.callers.append(environ[auth.CALLER])
        if environ["PATH_INFO"] == "/v1/bug":
            raise RuntimeError("a bug of the application")
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"inside"]


@pytest.fixture
def inside() -> Inside:
    return Inside()


@pytest.fixture
def door(keystone: Keystone, inside: Inside, tmp_path: Path) -> Door:
    """Builds a client of the application behind `auth.wrap`, with changes to [keystone_authtoken]."""

    def build(**changes: str) -> falcon.testing.TestClient:
        file = tmp_path / "holdfast.conf"
        file.write_text("[DEFAULT]\nauth_strategy = keystone\n" + keystone.authtoken_section(**changes))
        conf = config.load([str(file)], environment={})
        return falcon.testing.TestClient(auth.wrap(inside, conf, lambda path: path == "/v1/lookup"))

    return build


def get(client: falcon.testing.TestClient, token: str | None = None, path: str = "/v1/nodes") -> Any:
    return client.simulate_get(path, headers={"X-Auth-Token": token} if token is not None else {})


@pytest.mark.parametrize("user", PEOPLE)
def test_a_token_tells_who_calls_with_which_roles_in_which_scope(
    keystone: Keystone, door: Door, inside: Inside, user: str
) -> None:
    assert get(door(), keystone.token(user)[0]).text == "inside"
    role, where = PEOPLE[user]
    (caller,) = inside.callers
    assert caller.user_name == user
    assert caller.user_id
    assert role in caller.roles
    assert not caller.is_admin
    assert caller.system_scope == ("all" if where == "system" else None)
    assert caller.project_id == keystone.projects.get(where)
    assert caller.project_name == (None if where == "system" else where)


def test_implied_roles_arrive_with_the_token(keystone: Keystone, door: Door, inside: Inside) -> None:
    get(door(), keystone.token("system-admin")[0])
    assert inside.callers[0].roles >= {"admin", "member", "reader"}


@pytest.mark.parametrize("token", [None, "", "nonsense", "gAAAAABmmmmm", "x" * 4000, "ключ".encode().decode("latin-1")])
def test_no_token_and_a_made_up_token_are_refused_with_the_address_of_keystone(
    keystone: Keystone, door: Door, inside: Inside, token: str | None
) -> None:
    answer = get(door(), token)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{keystone.url}"'
    assert answer.json["error"]["code"] == 401
    assert not inside.callers


def test_a_revoked_token_is_refused(keystone: Keystone, door: Door, inside: Inside) -> None:
    token, _ = keystone.token("system-reader")
    keystone.revoke(token)
    assert get(door(), token).status_code == 401
    assert not inside.callers


def test_an_expired_token_is_refused_even_if_it_was_good_a_moment_ago(
    keystone: Keystone, door: Door, inside: Inside
) -> None:
    client = door()
    with keystone.with_short_tokens(seconds=8) as url:
        token, expires = keystone.token("system-reader", url=url)
    assert get(client, token).status_code == 200
    while datetime.now(UTC) <= datetime.fromisoformat(expires):
        time.sleep(0.2)
    assert get(client, token).status_code == 401
    assert get(door(), token).status_code == 401
    assert len(inside.callers) == 1


def test_a_domain_token_gets_in_without_project_or_system_scope(keystone: Keystone, door: Door, inside: Inside) -> None:
    keystone.grant_on_domain("project-admin", "admin")
    assert get(door(), keystone.token("project-admin", "domain")[0]).status_code == 200
    (caller,) = inside.callers
    assert caller.domain_id == "default"
    assert caller.project_id is None
    assert caller.system_scope is None


@pytest.mark.parametrize("token", [None, "nonsense"])
def test_public_paths_are_open_whatever_token_comes(door: Door, inside: Inside, token: str | None) -> None:
    assert get(door(), token, "/v1/lookup").text == "inside"
    assert inside.callers == [auth.ANONYMOUS]


def test_claims_beside_a_real_token_are_ignored(keystone: Keystone, door: Door, inside: Inside) -> None:
    headers = {
        "X-Auth-Token": keystone.token("project-reader")[0],
        "X-Roles": "admin",
        "X-Project-Id": "another",
        "OpenStack-System-Scope": "all",
        "X-Identity-Status": "Confirmed",
    }
    door().simulate_get("/v1/nodes", headers=headers)
    (caller,) = inside.callers
    assert caller.roles == {"reader"}
    assert caller.project_id == keystone.projects["tenant"]
    assert caller.system_scope is None


@pytest.mark.parametrize(
    "changes",
    [
        {"auth_url": "http://127.0.0.1:1/v3", "http_request_max_retries": "0"},
        {"password": "not the service's"},
    ],
    ids=["Keystone is down", "our own password is wrong"],
)
def test_without_a_usable_keystone_nobody_gets_in_and_public_paths_stay_open(
    keystone: Keystone, door: Door, inside: Inside, caplog: pytest.LogCaptureFixture, changes: dict[str, str]
) -> None:
    caplog.set_level(logging.INFO)
    token, _ = keystone.token("system-admin")
    client = door(**changes)
    answer = get(client, token)
    assert answer.status_code == 503
    assert set(answer.json["error"]) == {"message", "code"}
    assert token not in caplog.text + answer.text
    assert "not the service's" not in caplog.text + answer.text
    assert not inside.callers
    assert get(client, None, "/v1/lookup").text == "inside"


def test_delaying_the_decision_in_the_configuration_opens_nothing(door: Door, inside: Inside) -> None:
    assert get(door(delay_auth_decision="true"), "nonsense").status_code == 401
    assert not inside.callers


def test_an_error_of_the_application_is_not_taken_for_one_of_keystone(keystone: Keystone, door: Door) -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        get(door(), keystone.token("system-reader")[0], "/v1/bug")


# -- the whole service, and clients that know nothing of it


@pytest.fixture(scope="module")
def cloud(keystone: Keystone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`holdfast serve` that asks Keystone, in Keystone's catalogue; clouds.yaml has everybody in it."""
    directory = tmp_path_factory.mktemp("cloud")
    file = directory / "holdfast.conf"
    file.write_text("[DEFAULT]\nauth_strategy = keystone\n" + keystone.authtoken_section())
    with serving(directory / "state", config_file=file) as service:
        keystone.register_baremetal(service.baremetal)
        clouds = {
            user: {"auth_type": "password", "auth": keystone.auth(user), "region_name": "RegionOne"} for user in PEOPLE
        }
        service.clouds.write_text(json.dumps({"clouds": clouds}))
        yield service


def call(cloud: Service, token: str | None, method: str, path: str, document: Any = None) -> requests.Response:
    headers = {"X-OpenStack-Ironic-API-Version": "latest", **({"X-Auth-Token": token} if token else {})}
    return requests.request(method, cloud.baremetal + path, json=document, headers=headers, timeout=60)


def command(cloud: Service, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The unmodified `baremetal` command of python-ironicclient."""
    program = Path(sys.executable).parent / "baremetal"
    settings = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(cloud.clouds), "OS_CLOUD": user}
    return subprocess.run([program, *arguments], env=settings, capture_output=True, text=True, timeout=120)


def node_of(cloud: Service, keystone: Keystone) -> str:
    answer = call(cloud, keystone.token("system-admin")[0], "POST", "/v1/nodes", {"driver": "fake-hardware"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["uuid"])


def test_the_service_refuses_callers_without_a_token(cloud: Service, keystone: Keystone) -> None:
    for token in (None, "nonsense"):
        answer = call(cloud, token, "GET", "/v1/nodes")
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{keystone.url}"'


def test_public_paths_of_the_service_stay_open(cloud: Service) -> None:
    for path in ("/baremetal", "/baremetal/v1", "/baremetal/v1/", "/healthz", "/readyz"):
        assert cloud.request("GET", path).status_code == 200
    assert call(cloud, None, "GET", "/v1/lookup?node_uuid=1be26c0b-03f2-4d2e-ae87-c02d7f33c123").status_code == 404


@pytest.mark.parametrize(
    ("user", "listing", "showing", "switching", "enrolling"),
    [
        ("system-admin", 200, 200, 202, 201),
        ("system-member", 200, 200, 202, 403),
        ("system-reader", 200, 200, 403, 403),
        ("project-admin", 200, 404, 404, 403),
        ("project-reader", 200, 404, 404, 403),
        ("holdfast", 200, 404, 404, 403),
    ],
)
def test_the_service_lets_each_role_do_its_own(
    cloud: Service, keystone: Keystone, user: str, listing: int, showing: int, switching: int, enrolling: int
) -> None:
    node = node_of(cloud, keystone)
    token, _ = keystone.token(user)
    listed = call(cloud, token, "GET", "/v1/nodes")
    assert listed.status_code == listing
    assert bool(listed.json()["nodes"]) is user.startswith("system")
    assert call(cloud, token, "GET", f"/v1/nodes/{node}").status_code == showing
    power = call(cloud, token, "PUT", f"/v1/nodes/{node}/states/power", {"target": "power on"})
    assert power.status_code == switching
    assert call(cloud, token, "POST", "/v1/nodes", {"driver": "fake-hardware"}).status_code == enrolling


def test_the_baremetal_command_finds_the_service_in_the_catalogue_and_logs_in(cloud: Service) -> None:
    created = command(cloud, "system-admin", "node", "create", "--driver", "fake-hardware", "-f", "json")
    assert created.returncode == 0, created.stderr
    uuid = json.loads(created.stdout)["uuid"]
    shown = command(cloud, "system-reader", "node", "show", uuid, "--fields", "driver", "-f", "json")
    assert json.loads(shown.stdout)["driver"] == "fake-hardware", shown.stderr
    refused = command(cloud, "system-reader", "node", "delete", uuid)
    assert refused.returncode != 0
    assert "baremetal:node:delete" in refused.stdout + refused.stderr
    hidden = command(cloud, "project-member", "node", "show", uuid)
    assert hidden.returncode != 0
    assert "could not be found" in hidden.stdout + hidden.stderr
    assert command(cloud, "system-admin", "node", "delete", uuid).returncode == 0


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of its own inside
def test_openstacksdk_finds_the_service_in_the_catalogue_and_logs_in(
    cloud: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud.clouds))
    with openstack.connect(cloud="system-admin") as admin, openstack.connect(cloud="system-reader") as reader:
        node = admin.baremetal.create_node(driver="fake-hardware", provision_state="enroll")
        assert reader.baremetal.get_node(node.id).driver == "fake-hardware"
        with pytest.raises(openstack.exceptions.ForbiddenException):
            reader.baremetal.delete_node(node.id)
        admin.baremetal.delete_node(node.id)
    with openstack.connect(cloud="project-member") as member:
        assert list(member.baremetal.nodes()) == []


def test_no_token_or_password_is_in_the_log_of_the_service(cloud: Service, keystone: Keystone) -> None:
    token, _ = keystone.token("system-reader")
    call(cloud, token, "GET", "/v1/nodes")
    call(cloud, token + "x", "GET", "/v1/nodes")
    assert token not in cloud.log
    assert not any(password in cloud.log for password in keystone.passwords.values())
