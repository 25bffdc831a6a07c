"""Tokens of a real Keystone: who gets in, as whom, and what happens when Keystone is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from holdfast import config
from holdfast.web import auth
from tests import keystone as real_keystone
from tests.keystone import PEOPLE, Keystone

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


@pytest.mark.parametrize(
    "token", [None, "", "nonsense", "gAAAAABmmmmm", "x" * 4000, "ключ".encode().decode("latin-1")]
)
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


def test_a_domain_token_gets_in_without_project_or_system_scope(
    keystone: Keystone, door: Door, inside: Inside
) -> None:
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
