"""A real Keystone for tests: installed from PyPI into a venv of its own, on SQLite, with people in it.

    python -m tests.keystone        installs it (once; the fixture does the same when it is missing)

The venv is `.venv-keystone` in the project, or where HOLDFAST_KEYSTONE_VENV points.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import venvs

REQUIREMENT = "keystone>=30,<31"
VENV = Path(os.environ.get("HOLDFAST_KEYSTONE_VENV") or Path(__file__).parent.parent / ".venv-keystone")

# user: (role, "system" or the name of a project). Keystone's admin implies manager, member and reader.
PEOPLE = {
    "system-admin": ("admin", "system"),
    "system-member": ("member", "system"),
    "system-reader": ("reader", "system"),
    "project-admin": ("admin", "tenant"),
    "project-member": ("member", "tenant"),
    "project-reader": ("reader", "tenant"),
    "holdfast": ("service", "service"),
}

_SERVER = """
import socketserver, sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

port = int(sys.argv.pop())  # Keystone reads what is left
from keystone.wsgi.api import application


class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments):
        pass

make_server("127.0.0.1", port, application, Server, Quiet).serve_forever()
"""


@dataclass
class Keystone:
    """A running Keystone: where it is, who is in it, and tokens for them."""

    url: str
    directory: Path
    passwords: dict[str, str]
    projects: dict[str, str] = field(default_factory=dict)

    def auth(self, user: str, scope: str | None = None) -> dict[str, Any]:
        """Settings of keystoneauth's password plugin, as clouds.yaml has them."""
        scope = scope or (PEOPLE[user][1] if user in PEOPLE else "system")
        settings = {
            "auth_url": self.url,
            "username": user,
            "password": self.passwords[user],
            "user_domain_id": "default",
        }
        if scope == "system":
            return {**settings, "system_scope": "all"}
        return {**settings, "project_name": scope, "project_domain_id": "default"}

    def token(self, user: str, scope: str | None = None, url: str | None = None) -> tuple[str, str]:
        """A fresh token and when it expires. `scope` is "system", "domain" or a project's name."""
        scope = scope or (PEOPLE[user][1] if user in PEOPLE else "system")
        scopes: dict[str, Any] = {
            "system": {"system": {"all": True}},
            "domain": {"domain": {"id": "default"}},
        }
        person = {"name": user, "domain": {"id": "default"}, "password": self.passwords[user]}
        answer = requests.post(
            f"{url or self.url}/auth/tokens",
            json={
                "auth": {
                    "identity": {"methods": ["password"], "password": {"user": person}},
                    "scope": scopes.get(scope, {"project": {"name": scope, "domain": {"id": "default"}}}),
                }
            },
            timeout=60,
        )
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"], answer.json()["token"]["expires_at"]

    def revoke(self, token: str) -> None:
        self._call("DELETE", "/auth/tokens", headers={"X-Subject-Token": token})

    def register_baremetal(self, url: str) -> None:
        """Put a bare-metal service into the catalogue, as clients look it up."""
        self.register("baremetal", url)

    def register(self, kind: str, url: str) -> None:
        """The same for a service of any kind."""
        for known in self._call("GET", f"/services?type={kind}")["services"]:
            self._call("DELETE", f"/services/{known['id']}")
        service = self._call("POST", "/services", {"service": {"type": kind, "name": f"test-{kind}"}})
        endpoint = {"service_id": service["service"]["id"], "interface": "public", "url": url}
        self._call("POST", "/endpoints", {"endpoint": {**endpoint, "region_id": "RegionOne"}})

    def grant_on_domain(self, user: str, role: str) -> None:
        who = self._call("GET", f"/users?name={user}")["users"][0]["id"]
        what = self._call("GET", f"/roles?name={role}")["roles"][0]["id"]
        self._call("PUT", f"/domains/default/users/{who}/roles/{what}")

    def authtoken_section(self, **overrides: str) -> str:
        """`[keystone_authtoken]` of a service that checks tokens here."""
        settings = {
            "auth_type": "password",
            "auth_url": self.url,
            "www_authenticate_uri": self.url,
            "username": "holdfast",
            "password": self.passwords["holdfast"],
            "user_domain_id": "default",
            "project_name": "service",
            "project_domain_id": "default",
            "service_token_roles_required": "true",
            **overrides,
        }
        return "[keystone_authtoken]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())

    @contextmanager
    def with_short_tokens(self, seconds: int) -> Iterator[str]:
        """The URL of a second front of the same Keystone that gives out short-lived tokens."""
        config = self.directory / "short.conf"
        config.write_text(_config(self.directory, expiration=seconds))
        with _serving(self.directory, config) as url:
            yield url

    def populate(self) -> None:
        """Create the people, their projects and their roles."""
        roles = {role["name"]: role["id"] for role in self._call("GET", "/roles")["roles"]}
        for project in sorted({where for _, where in PEOPLE.values()} - {"system"}):
            body = {"project": {"name": project, "domain_id": "default"}}
            self.projects[project] = self._call("POST", "/projects", body)["project"]["id"]
        for user, (role, where) in PEOPLE.items():
            body = {"user": {"name": user, "domain_id": "default", "password": self.passwords[user]}}
            who = self._call("POST", "/users", body)["user"]["id"]
            what = "/system" if where == "system" else f"/projects/{self.projects[where]}"
            self._call("PUT", f"{what}/users/{who}/roles/{roles[role]}")

    @cached_property
    def _admin_token(self) -> str:
        return self.token("admin")[0]

    def _call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        headers = {**(headers or {}), "X-Auth-Token": self._admin_token}
        answer = requests.request(method, self.url + path, json=body, headers=headers, timeout=60)
        answer.raise_for_status()
        return answer.json() if answer.content else None


@pytest.fixture(scope="session")
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    """One Keystone for the whole test session."""
    install()
    directory = tmp_path_factory.mktemp("keystone")
    config = directory / "keystone.conf"
    config.write_text(_config(directory))
    (directory / "fernet").mkdir(mode=0o700)
    passwords = {user: secrets.token_urlsafe(16) for user in ["admin", *PEOPLE]}
    _manage(config, "db_sync")
    _manage(config, "fernet_setup", "--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid()))
    with _serving(directory, config, passwords["admin"]) as url:
        running = Keystone(url, directory, passwords)
        running.populate()
        yield running


def install() -> None:
    venvs.install(VENV, REQUIREMENT)


def _config(directory: Path, expiration: int = 3600) -> str:
    return f"""
[DEFAULT]
log_file = {directory}/keystone.log
[database]
connection = sqlite:///{directory}/keystone.db
[fernet_tokens]
key_repository = {directory}/fernet
[fernet_receipts]
key_repository = {directory}/fernet
[token]
expiration = {expiration}
[identity]
password_hash_rounds = 4
[cache]
enabled = false
"""


def _manage(config: Path, *arguments: str) -> None:
    command = [str(VENV / "bin/keystone-manage"), "--config-file", str(config), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"keystone-manage {arguments[0]} failed:\n{done.stdout}\n{done.stderr}")


@contextmanager
def _serving(directory: Path, config: Path, bootstrap: str | None = None) -> Iterator[str]:
    """Keystone's own WSGI application on a free port; its log is in the directory."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v3"
    if bootstrap:
        urls = [f"--bootstrap-{kind}-url={url}" for kind in ("admin", "public", "internal")]
        _manage(config, "bootstrap", f"--bootstrap-password={bootstrap}", "--bootstrap-region-id=RegionOne", *urls)
    with open(directory / "server.log", "a") as log:
        server = subprocess.Popen(
            [VENV / "bin/python", "-c", _SERVER, str(port)],
            env={**os.environ, "OS_KEYSTONE_CONFIG_FILES": str(config)},
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(url, server, directory / "server.log")
        yield url
    finally:
        server.kill()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            if requests.get(url, timeout=60).status_code == 200:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise RuntimeError(f"Keystone did not start:\n{log.read_text()}")


if __name__ == "__main__":
    install()
    sys.exit(0)
