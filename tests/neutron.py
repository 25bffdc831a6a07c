"""A real Neutron for tests: installed from PyPI into a venv of its own, on SQLite, without a broker.

    python -m tests.neutron         installs it (once; the fixture does the same when it is missing)

ML2 with the mechanism driver of networking-generic-switch, which binds bare-metal ports by what their
profile says of switch and switch port; its switches are the ones that only log what they are told.
Nobody listens on the message bus (`fake://`): that is for agents, and bare metal has none.
The venv is `.venv-neutron` in the project, or where HOLDFAST_NEUTRON_VENV points.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import venvs
from tests.postgres import free_port

REQUIREMENTS = ["neutron>=29,<30", "networking-generic-switch>=10,<11"]
VENV = Path(os.environ.get("HOLDFAST_NEUTRON_VENV") or Path(__file__).parent.parent / ".venv-neutron")

# physical network: the switch on it, by the MAC address that ports call `switch_id`
SWITCHES = {"physnet1": "0a:00:00:00:00:01", "physnet2": "0a:00:00:00:00:02"}

_SCHEMA = """
import sys
import sqlalchemy
from neutron.db.migration.models import head
head.get_metadata().create_all(sqlalchemy.create_engine(sys.argv[1]))
"""

_SERVER = """
import socketserver, sqlite3, sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

port = int(sys.argv.pop())  # Neutron reads what is left
from neutron.wsgi.api import application

class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 256

class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, *arguments):
        pass

make_server("127.0.0.1", port, application, Server, Quiet).serve_forever()
"""


# Production gives the bare-metal service's user the role `service`; without Keystone nobody has roles.
_POLICY = """
"create_port:binding:profile": "rule:admin_only"
"update_port:binding:profile": "rule:admin_only"
"get_port:binding:profile": "rule:admin_only"
"""


@dataclass
class Neutron:
    """A running Neutron: where it is and what is in it."""

    url: str
    directory: Path
    session: requests.Session = field(default_factory=requests.Session)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.session.request(method, f"{self.url}/v2.0{path}", json=body, timeout=60)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def network(self, name: str, *, physical_network: str = "physnet1") -> str:
        """The UUID of a new network, a VLAN of the physical network, with room for addresses."""
        provider = {"provider:network_type": "vlan", "provider:physical_network": physical_network}
        made = self.call("POST", "/networks", {"network": {"name": name, **provider}})["network"]["id"]
        self.call("POST", "/subnets", {"subnet": {"network_id": made, "ip_version": 4, "cidr": "10.0.0.0/22"}})
        return str(made)

    def port(self, network: str, **more: Any) -> str:
        """The UUID of a new, unbound port: a VIF for somebody."""
        return str(self.call("POST", "/ports", {"port": {"network_id": network, **more}})["port"]["id"])

    def many(self, network: str, count: int) -> list[str]:
        made = self.call("POST", "/ports", {"ports": [{"network_id": network}] * count})["ports"]
        return [port["id"] for port in made]

    def show(self, port: str) -> dict[str, Any]:
        document: dict[str, Any] = self.call("GET", f"/ports/{port}")["port"]
        return document

    def ports(self, **filters: str) -> list[dict[str, Any]]:
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        found: list[dict[str, Any]] = self.call("GET", f"/ports?{query}")["ports"]
        return found

    def bound(self) -> dict[str, str]:
        """Every port that is bound to a host, and to which."""
        return {port["id"]: port["binding:host_id"] for port in self.ports() if port["binding:host_id"]}


@pytest.fixture(scope="session")
def neutron(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neutron]:
    """One Neutron for the whole test session; tests make networks of their own."""
    install()
    directory = tmp_path_factory.mktemp("neutron")
    with serving(directory) as running:
        yield running


def install() -> None:
    venvs.install(VENV, *REQUIREMENTS)


@contextmanager
def serving(directory: Path) -> Iterator[Neutron]:
    """Neutron's own WSGI application on a free port; its log is in the directory."""
    database = directory / "neutron.db"
    # Readers and the writer must not lock each other out: Neutron does not ask SQLite for this itself.
    sqlite3.connect(database).execute("PRAGMA journal_mode=WAL").close()
    url = f"sqlite:///{database}"
    subprocess.run([VENV / "bin/python", "-c", _SCHEMA, url], check=True, capture_output=True)
    config = directory / "neutron.conf"
    config.write_text(_config(directory, url))
    (directory / "policy.yaml").write_text(_POLICY)
    port = free_port()
    log = directory / "server.log"
    with log.open("a") as output:
        server = subprocess.Popen(
            [VENV / "bin/python", "-c", _SERVER, str(port)],
            env={**os.environ, "OS_NEUTRON_CONFIG_FILES": str(config)},
            stdout=output,
            stderr=output,
        )
    running = Neutron(f"http://127.0.0.1:{port}", directory)
    try:
        _wait_for(running.url, server, log)
        yield running
    finally:
        running.session.close()
        server.kill()
        server.wait()


def _config(directory: Path, database: str) -> str:
    names = ",".join(SWITCHES)
    ranges = ",".join(f"{name}:100:999" for name in SWITCHES)
    switches = "".join(
        f"[genericswitch:switch-{name}]\ndevice_type = netmiko_fake\nip = 127.0.0.1\nusername = nobody\n"
        f"ngs_mac_address = {mac}\nngs_physical_networks = {name}\n"
        for name, mac in SWITCHES.items()
    )
    return f"""
[DEFAULT]
auth_strategy = noauth
transport_url = fake://
rpc_workers = 0
core_plugin = ml2
service_plugins = segments,tag
api_paste_config = {VENV}/etc/neutron/api-paste.ini
state_path = {directory}
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[database]
connection = {database}
[oslo_policy]
policy_file = {directory}/policy.yaml
[oslo_concurrency]
lock_path = {directory}
[ml2]
type_drivers = flat,vlan
tenant_network_types = vlan
mechanism_drivers = genericswitch
extension_drivers = port_security
[ml2_type_flat]
flat_networks = {names}
[ml2_type_vlan]
network_vlan_ranges = {ranges}
[quotas]
quota_driver = neutron.db.quota.driver_null.DbQuotaDriverNull
{switches}"""


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            if requests.get(f"{url}/v2.0/networks", timeout=60).status_code == 200:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise RuntimeError(f"Neutron did not start:\n{log.read_text()[-8000:]}")


if __name__ == "__main__":
    install()
    sys.exit(0)
