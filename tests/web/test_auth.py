"""Who is calling: the three ways to authenticate, and what no client can claim by itself."""

from __future__ import annotations

import argparse
import base64
import io
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bcrypt
import falcon.testing
import msgspec
import pytest
from oslo_config import cfg

from holdfast import config
from holdfast.cli import passwd
from holdfast.web import auth, htpasswd

# WebOb, inside keystonemiddleware, still imports it.
pytestmark = pytest.mark.filterwarnings("ignore:'cgi' is deprecated:DeprecationWarning")

PASSWORD = "correct horse"
# Nobody listens on port 1.
KEYSTONE = """
[keystone_authtoken]
auth_type = password
auth_url = http://127.0.0.1:1/v3
username = holdfast
password = canary
http_request_max_retries = 0
"""


def hash_of(password: str, prefix: bytes = b"2b") -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode().replace("$2b$", f"${prefix.decode()}$")


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "htpasswd"
    path.write_text(f"# operators\n\nalice:{hash_of(PASSWORD)}\n")
    return path


def settings(strategy: str, user_file: Path | None = None, keystone: str = KEYSTONE) -> cfg.ConfigOpts:
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(keystone)
        file.flush()
        overrides = {
            ("DEFAULT", "auth_strategy"): strategy,
            ("DEFAULT", "http_basic_auth_user_file"): str(user_file) if user_file else None,
        }
        return config.load([file.name], environment={}, overrides=overrides)


def client(
    strategy: str, user_file: Path | None = None, public_endpoint: str | None = None
) -> tuple[falcon.testing.TestClient, list[dict[str, Any]]]:
    """A client of a trivial application behind `wrap`, and the environments that reached it."""
    conf = settings(strategy, user_file)
    conf.set_override("public_endpoint", public_endpoint, group="api")
    seen: list[dict[str, Any]] = []

    def app(environ: Any, start_response: Any) -> list[bytes]:
        seen.append(environ)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"inside"]

    door = auth.wrap(app, conf, lambda path: path == "/v1/lookup")
    return falcon.testing.TestClient(door, headers={"Host": "127.0.0.1:6385"}), seen


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


# -- noauth


def test_without_authentication_everybody_is_administrator() -> None:
    http, seen = client("noauth")
    assert http.simulate_get("/v1/nodes", headers={"X-Auth-Token": "notused"}).text == "inside"
    assert seen[0][auth.CALLER] is auth.ADMIN
    assert auth.ADMIN.is_admin


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_without_authentication_loopback_addresses_may_be_listened_on(host: str) -> None:
    auth.check_exposure(config.load(environment={}, overrides={("api", "host"): host}))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", "", "localhost.example.org"])
def test_without_authentication_no_other_address_may_be_listened_on(host: str) -> None:
    with pytest.raises(cfg.ConfigFileValueError, match="http_basic"):
        auth.check_exposure(config.load(environment={}, overrides={("api", "host"): host}))


@pytest.mark.parametrize("strategy", ["http_basic", "keystone"])
def test_with_authentication_any_address_may_be_listened_on(strategy: str) -> None:
    overrides = {("api", "host"): "0.0.0.0", ("DEFAULT", "auth_strategy"): strategy}
    auth.check_exposure(config.load(environment={}, overrides=overrides))


@pytest.mark.parametrize("strategy", ["noauth", "http_basic", "keystone"])
def test_a_usable_configuration_passes_the_check_before_the_start(strategy: str, user_file: Path) -> None:
    auth.check(settings(strategy, user_file))


@pytest.mark.parametrize(
    "section",
    ["", "[keystone_authtoken]\nauth_url = http://127.0.0.1:1\n", "[keystone_authtoken]\nauth_type = magic\n"],
    ids=["nothing", "no auth_type", "unknown auth_type"],
)
def test_keystone_without_the_means_to_reach_it_is_refused_at_the_start(section: str) -> None:
    with pytest.raises(cfg.ConfigFileValueError, match="keystone_authtoken"):
        auth.check(settings("keystone", keystone=section))


# -- http_basic


@pytest.mark.parametrize("prefix", [b"2a", b"2b", b"2y"])
def test_a_user_of_the_file_is_administrator(user_file: Path, prefix: bytes) -> None:
    user_file.write_text(f"bob:{hash_of(PASSWORD, prefix)}\n")
    http, seen = client("http_basic", user_file)
    assert http.simulate_get("/v1/nodes", headers=basic("bob", PASSWORD)).text == "inside"
    caller = seen[0][auth.CALLER]
    assert caller.is_admin
    assert caller.user_name == "bob"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("alice", "wrong"),
        basic("alice", ""),
        basic("alice", PASSWORD + "\0"),
        basic("mallory", PASSWORD),
        basic("", PASSWORD),
        basic("# operators", ""),
    ],
)
def test_missing_and_wrong_credentials_are_refused_with_a_challenge(user_file: Path, headers: dict[str, str]) -> None:
    http, seen = client("http_basic", user_file)
    answer = http.simulate_get("/v1/nodes", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="Baremetal API"'
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["error"]["code"] == 401
    assert isinstance(answer.json["error"]["message"], str)
    assert not seen


@pytest.mark.parametrize(
    "header",
    [
        "Bearer abcdef",
        "Digest username=alice",
        "Basic",
        "Basic !!!!",
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        "Basic " + base64.b64encode(b"no colon").decode(),
        "",
    ],
)
def test_a_header_that_is_not_basic_credentials_is_a_bad_request(user_file: Path, header: str) -> None:
    http, seen = client("http_basic", user_file)
    answer = http.simulate_get("/v1/nodes", headers={"Authorization": header})
    assert answer.status_code == 400
    assert answer.json["error"]["code"] == 400
    assert not seen


def test_passwords_may_hold_colons_and_any_script(user_file: Path) -> None:
    password = "a:b:ключ 🗝"
    user_file.write_text(f"zoë:{hash_of(password)}\n")
    http, _ = client("http_basic", user_file)
    assert http.simulate_get("/v1/nodes", headers=basic("zoë", password)).status_code == 200
    assert http.simulate_get("/v1/nodes", headers=basic("zoë", "a")).status_code == 401


def test_passwords_longer_than_bcrypt_reads_are_cut_as_htpasswd_cuts_them(user_file: Path) -> None:
    user_file.write_text(f"alice:{hash_of('x' * 72)}\n")
    http, _ = client("http_basic", user_file)
    assert http.simulate_get("/v1/nodes", headers=basic("alice", "x" * 100)).status_code == 200
    assert http.simulate_get("/v1/nodes", headers=basic("alice", "x" * 71)).status_code == 401


def test_a_changed_file_counts_at_once(user_file: Path) -> None:
    http, _ = client("http_basic", user_file)
    assert http.simulate_get("/v1/nodes", headers=basic("alice", PASSWORD)).status_code == 200
    user_file.write_text(f"alice:{hash_of('new')}\nbob:{hash_of('his')}\n")
    assert http.simulate_get("/v1/nodes", headers=basic("alice", PASSWORD)).status_code == 401
    assert http.simulate_get("/v1/nodes", headers=basic("alice", "new")).status_code == 200
    assert http.simulate_get("/v1/nodes", headers=basic("bob", "his")).status_code == 200
    user_file.write_text(f"bob:{hash_of('his')}\n")
    assert http.simulate_get("/v1/nodes", headers=basic("alice", "new")).status_code == 401


def test_a_file_that_disappears_lets_nobody_in(user_file: Path) -> None:
    http, seen = client("http_basic", user_file)
    user_file.unlink()
    answer = http.simulate_get("/v1/nodes", headers=basic("alice", PASSWORD))
    assert answer.status_code == 503
    assert str(user_file) not in answer.text
    assert not seen


def test_a_line_that_turns_bad_while_serving_loses_only_its_user(
    user_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    http, _ = client("http_basic", user_file)
    user_file.write_text(f"alice:{{SHA}}secretdigest\nbob:{hash_of('his')}\n")
    assert http.simulate_get("/v1/nodes", headers=basic("bob", "his")).status_code == 200
    assert http.simulate_get("/v1/nodes", headers=basic("alice", PASSWORD)).status_code == 401
    assert "[1]" in caplog.text
    assert "secretdigest" not in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        "alice:$apr1$abc$0123456789",
        "alice:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
        "alice:plain",
        "alice",
        ":" + "$2b$04$" + "a" * 53,
        "alice:$2x$04$" + "a" * 53,
    ],
)
def test_a_file_with_anything_but_bcrypt_is_refused_at_the_start(user_file: Path, line: str) -> None:
    user_file.write_text(line + "\n")
    with pytest.raises(cfg.ConfigFileValueError, match="1"):
        client("http_basic", user_file)


def test_a_missing_file_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(cfg.ConfigFileValueError, match="holdfast passwd"):
        auth.check(settings("http_basic", tmp_path / "nothing"))


def test_a_name_that_is_there_twice_has_its_first_password(user_file: Path) -> None:
    user_file.write_text(f"alice:{hash_of('one')}\nalice:{hash_of('two')}\n")
    users = htpasswd.Users(str(user_file))
    assert users.check("alice", "one")
    assert not users.check("alice", "two")


class Bcrypt:
    """Counts how often bcrypt really works, and on what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stored: list[bytes] = []
        real = bcrypt.checkpw

        def count(clear: bytes, stored: bytes) -> bool:
            self.stored.append(stored)
            return real(clear, stored)

        monkeypatch.setattr(bcrypt, "checkpw", count)


def test_a_right_password_is_worked_out_once(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users, work = htpasswd.Users(str(user_file)), Bcrypt(monkeypatch)
    assert [users.check("alice", PASSWORD) for _ in range(5)] == [True] * 5
    assert len(work.stored) == 1


def test_a_wrong_password_is_worked_out_every_time(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users, work = htpasswd.Users(str(user_file)), Bcrypt(monkeypatch)
    assert [users.check("alice", "wrong") for _ in range(3)] == [False] * 3
    assert len(work.stored) == 3


def test_an_unknown_user_costs_as_much_work_as_the_costliest_known_one(
    user_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    costly = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(6)).decode()
    user_file.write_text(f"alice:{hash_of(PASSWORD)}\nbob:{costly}\n")
    users, work = htpasswd.Users(str(user_file)), Bcrypt(monkeypatch)
    # Even with the very password of the hash it is compared to, an unknown user stays out.
    assert not users.check("nobody", PASSWORD)
    assert work.stored == [costly.encode()]


def test_without_any_user_the_work_is_done_all_the_same(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file.write_text("")
    users, work = htpasswd.Users(str(user_file)), Bcrypt(monkeypatch)
    assert not users.check("nobody", "x")
    assert len(work.stored) == 1


def test_what_is_remembered_is_bounded_and_holds_no_password(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(htpasswd, "_REMEMBERED", 2)
    user_file.write_text("".join(f"user{n}:{hash_of(f'canary-{n}')}\n" for n in range(4)))
    users = htpasswd.Users(str(user_file))
    assert all(users.check(f"user{n}", f"canary-{n}") for n in range(4))
    assert len(users._right) == 2
    assert not any(b"canary" in key for key in users._right)


def test_passwords_reach_neither_answers_nor_logs(user_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    http, _ = client("http_basic", user_file)
    for headers in (
        basic("alice", "canary-1"),
        basic("mallory", "canary-1"),
        {"Authorization": "Weird canary-1"},
    ):
        assert "canary-1" not in http.simulate_get("/v1/nodes", headers=headers).text
    assert "canary-1" not in caplog.text


# -- every mode


@pytest.mark.parametrize("strategy", ["noauth", "http_basic", "keystone"])
def test_public_paths_need_no_credentials(strategy: str, user_file: Path) -> None:
    http, seen = client(strategy, user_file)
    assert http.simulate_get("/v1/lookup").text == "inside"
    expected = auth.ADMIN if strategy == "noauth" else auth.ANONYMOUS
    assert seen[0][auth.CALLER] == expected
    assert auth.ANONYMOUS.is_admin is False
    assert auth.ANONYMOUS.roles == frozenset()


@pytest.mark.parametrize("strategy", ["http_basic", "keystone"])
def test_public_paths_do_not_look_at_credentials_at_all(strategy: str, user_file: Path) -> None:
    http, seen = client(strategy, user_file)
    for headers in (basic("alice", "wrong"), {"Authorization": "nonsense"}, {"X-Auth-Token": "expired"}):
        assert http.simulate_get("/v1/lookup", headers=headers).status_code == 200
    assert {id(environ[auth.CALLER]) for environ in seen} == {id(auth.ANONYMOUS)}


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "http://127.0.0.1:8000"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("strategy", ["noauth", "http_basic"])
@pytest.mark.parametrize("headers", FOREIGN)
def test_a_web_page_of_another_site_cannot_use_the_rights_of_whoever_looks_at_it(
    strategy: str, user_file: Path, headers: dict[str, str]
) -> None:
    http, seen = client(strategy, user_file)
    for method in ("GET", "POST"):
        answer = http.simulate_request(method, "/v1/nodes", headers={**basic("alice", PASSWORD), **headers})
        assert answer.status_code == 403
        assert set(answer.json["error"]) == {"message", "code"}
    assert not seen


@pytest.mark.parametrize("strategy", ["noauth", "http_basic"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:6385"},
        {"Origin": "https://metal.example", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_a_page_of_the_service_itself_may(strategy: str, user_file: Path, headers: dict[str, str]) -> None:
    http, _ = client(strategy, user_file, public_endpoint="https://metal.example/")
    given = {**basic("alice", PASSWORD), **headers}
    assert http.simulate_post("/v1/nodes", headers=given).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:6385", 200),
        ("127.0.0.1", 200),
        ("[::1]:6385", 200),
        ("localhost:6385", 200),
        ("LOCALHOST", 200),
        ("holdfast.localhost", 200),
        ("192.0.2.1:6385", 200),
        ("metal.example", 200),
        ("evil.example:6385", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("evil-localhost", 403),
    ],
)
def test_without_authentication_no_name_answers_that_others_could_point_here(host: str, status: int) -> None:
    http, _ = client("noauth", public_endpoint="https://metal.example/")
    assert http.simulate_get("/v1/nodes", headers={"Host": host}).status_code == status


@pytest.mark.parametrize("strategy", ["noauth", "http_basic", "keystone"])
def test_no_client_can_claim_an_identity_in_headers(strategy: str, user_file: Path) -> None:
    claims = {
        "X-Identity-Status": "Confirmed",
        "X-Service-Identity-Status": "Confirmed",
        "X-User-Id": "root",
        "X-User-Name": "root",
        "X-User": "root",
        "X-Roles": "admin",
        "X-Role": "admin",
        "X-Service-Roles": "service",
        "X-Project-Id": "p",
        "X-Project-Name": "service",
        "X-Tenant-Id": "p",
        "X-Domain-Id": "d",
        "X-Is-Admin-Project": "True",
        "OpenStack-System-Scope": "all",
    }
    http, seen = client(strategy, user_file)
    for path in ("/v1/lookup", "/v1/nodes"):
        http.simulate_get(path, headers={**claims, **basic("alice", PASSWORD)})
    assert seen
    for environ in seen:
        for name in claims:
            assert "HTTP_" + name.upper().replace("-", "_") not in environ
        assert environ[auth.CALLER].user_id != "root"


def test_a_claimed_identity_opens_nothing_with_keystone() -> None:
    http, seen = client("keystone")
    claims = {"X-Identity-Status": "Confirmed", "X-Roles": "admin", "OpenStack-System-Scope": "all"}
    answer = http.simulate_get("/v1/nodes", headers=claims)
    assert answer.status_code == 401
    assert set(answer.json["error"]) == {"message", "code"}
    assert not seen


def test_an_application_error_passes_through_untouched(user_file: Path) -> None:
    conf = config.load(environment={}, overrides={("DEFAULT", "http_basic_auth_user_file"): str(user_file)})

    def app(environ: Any, start_response: Any) -> list[bytes]:
        raise RuntimeError("a bug of the application")

    with pytest.raises(RuntimeError, match="a bug"):
        falcon.testing.TestClient(auth.wrap(app, conf, lambda path: False)).simulate_get("/", host="localhost")


def test_keystonemiddleware_is_imported_only_when_configured(user_file: Path) -> None:
    import subprocess

    script = (
        "import sys\n"
        "from holdfast import config\n"
        "from holdfast.baremetal.policies import RULES\n"
        "from holdfast.web import auth, policy\n"
        "conf = config.load(environment={})\n"
        "auth.wrap(lambda e, s: [], conf, lambda p: False)\n"
        "policy.Policy(conf, RULES)\n"
        "print([name for name in ('keystonemiddleware', 'oslo_policy', 'webob') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- holdfast passwd


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    parser = argparse.ArgumentParser()
    passwd.add_parser(parser.add_subparsers())

    def run(*arguments: str, stdin: str = "") -> int:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        options = parser.parse_args(["passwd", *arguments])
        result: int = options.run(options)
        return result

    return run


def test_passwd_writes_a_line_that_lets_the_user_in(command: Callable[..., int], tmp_path: Path) -> None:
    path = tmp_path / "users"
    assert command(str(path), "carol", stdin="her password\n") == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "her password" not in path.read_text()
    http, _ = client("http_basic", path)
    assert http.simulate_get("/v1/nodes", headers=basic("carol", "her password")).status_code == 200


def test_passwd_changes_one_user_and_keeps_the_rest(command: Callable[..., int], user_file: Path) -> None:
    os.chmod(user_file, 0o640)
    before = user_file.read_text().splitlines()
    assert command(str(user_file), "bob", stdin="his\n") == 0
    assert command(str(user_file), "alice", stdin="new\n") == 0
    lines = user_file.read_text().splitlines()
    assert lines[:2] == before[:2]
    assert [line.partition(":")[0] for line in lines[2:]] == ["alice", "bob"]
    assert stat.S_IMODE(user_file.stat().st_mode) == 0o640
    users = htpasswd.Users(str(user_file))
    assert users.check("alice", "new")
    assert users.check("bob", "his")
    assert not users.check("alice", PASSWORD)


def test_passwd_removes_a_user(command: Callable[..., int], user_file: Path) -> None:
    assert command(str(user_file), "alice", "--delete") == 0
    assert htpasswd.read(user_file.read_text()) == ({}, [])
    assert command(str(user_file), "alice", "--delete") == 1


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("a:b", "x"),
        ("#a", "x"),
        ("", "x"),
        (" a", "x"),
        ("a\nb", "x"),
        ("a", ""),
        ("a", "x" * 73),
        ("a", "ä" * 37),
    ],
)
def test_passwd_refuses_what_could_never_log_in(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], user: str, password: str
) -> None:
    path = tmp_path / "users"
    assert command(str(path), user, stdin=password + "\n") == 1
    assert "holdfast passwd:" in capsys.readouterr().err
    assert not path.exists()


def test_the_error_body_is_json_for_every_refusal(user_file: Path) -> None:
    http, _ = client("http_basic", user_file)
    for headers in ({}, {"Authorization": "x"}):
        answer = http.simulate_get("/v1/nodes", headers=headers)
        assert set(msgspec.json.decode(answer.content)["error"]) == {"message", "code"}
