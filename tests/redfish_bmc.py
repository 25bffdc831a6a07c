"""Redfish services for tests: the real sushy-tools emulator, and a stand-in for what it cannot do.

The emulator runs its fake backend, whose machines are only records. Its configuration is a
Python file, and that is where it is made quicker (power changes take up to 11 seconds by default) and
where its second machine gets processors, memory, disks, BIOS settings and an NMI.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import bcrypt
import requests
from oslo_config import cfg

from holdfast import config
from holdfast.baremetal.task import Node, Task

USER = "admin"
PASSWORD = "c4nary-redfish-pw"

PLAIN = "11111111-1111-1111-1111-111111111111"
RICH = "22222222-2222-2222-2222-222222222222"

CONFIG = """
from sushy_tools import error
from sushy_tools.emulator.resources.systems import fakedriver

SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_STATE_DIR = {state_dir!r}
SUSHY_EMULATOR_AUTH_FILE = {auth_file!r}
SUSHY_EMULATOR_FAKE_SYSTEMS = {systems!r}


class Soon:
    @staticmethod
    def randint(low, high):
        return low


fakedriver.random = Soon


class Fake(fakedriver.FakeDriver):
    def part(self, identity, name):
        try:
            return self._get(identity)[name]
        except KeyError:
            raise error.NotSupportedError("not in this machine")

    def get_total_memory(self, identity):
        return self.part(identity, "memory")

    def get_processors(self, identity):
        return self.part(identity, "processors")

    def get_simple_storage_collection(self, identity):
        return self.part(identity, "disks")

    def get_bios(self, identity):
        return self.part(identity, "bios")

    def set_bios(self, identity, attributes):
        self.part(identity, "bios")
        self._update(identity, pending_bios=attributes)

    def reset_bios(self, identity):
        self._update(identity, pending_bios=self.part(identity, "factory_bios"))

    def set_power_state(self, identity, state):
        system = self._get(identity)
        if state == "Nmi":
            self._update(identity, nmis=self.part(identity, "nmis") + 1)
            return
        if "On" in state and system.get("pending_bios"):
            self._update(identity, bios={{**system["bios"], **system["pending_bios"]}}, pending_bios=None)
        super().set_power_state(identity, state)


fakedriver.FakeDriver = Fake
"""

SYSTEMS: list[dict[str, Any]] = [
    {
        "uuid": PLAIN,
        "name": "plain",
        "power_state": "Off",
        "nics": [{"mac": "52:54:00:AA:00:01", "ip": "172.22.0.101"}],
    },
    {
        "uuid": RICH,
        "name": "rich",
        "power_state": "Off",
        "nics": [
            {"mac": "52:54:00:aa:00:02", "ip": "172.22.0.102"},
            {"mac": "52-54-00-AA-00-03", "ip": "172.22.0.103"},
        ],
        "memory": 48,
        "processors": [
            {"id": f"CPU{n}", "socket": f"CPU {n}", "vendor": "V", "model": "M", "cores": 8, "threads": 16}
            for n in (0, 1)
        ],
        "disks": {
            "sata": {
                "Id": "sata",
                "Name": "sata",
                "DeviceList": [
                    {"Name": "sda", "CapacityBytes": 10 * 1024**3},
                    {"Name": "sdb", "CapacityBytes": 200 * 1024**3 + 5},
                ],
            }
        },
        "bios": {"NumLock": True, "QuietBoot": "Enabled", "BootRetries": 3, "SetupPassword": PASSWORD},
        "factory_bios": {"NumLock": True, "QuietBoot": "Enabled", "BootRetries": 3},
        "nmis": 0,
    },
]


class Emulator:
    """A running sushy-emulator."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log

    def driver_info(self, system: str = PLAIN) -> dict[str, Any]:
        return {
            "redfish_address": self.url,
            "redfish_system_id": f"/redfish/v1/Systems/{system}",
            "redfish_username": USER,
            "redfish_password": PASSWORD,
        }

    def get(self, path: str) -> Any:
        """What an operator's curl would see."""
        return requests.get(f"{self.url}{path}", auth=(USER, PASSWORD), timeout=10).json()

    def patch(self, path: str, body: Any) -> None:
        requests.patch(f"{self.url}{path}", json=body, auth=(USER, PASSWORD), timeout=10).raise_for_status()

    def power_commands(self) -> int:
        """How often anybody asked for a power change so far."""
        return len(re.findall(r'"POST \S+/Actions/ComputerSystem.Reset', self._log.read_text()))


@contextmanager
def emulator(directory: Path) -> Iterator[Emulator]:
    """Starts the emulator. Its absence is a failure: `make test` installs it."""
    port = free_port()
    settings, passwords, log = directory / "emulator.conf", directory / "htpasswd", directory / "emulator.log"
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    passwords.write_text(f"{USER}:{hashed}\n")
    settings.write_text(CONFIG.format(port=port, state_dir=str(directory), auth_file=str(passwords), systems=SYSTEMS))
    program = Path(sys.executable).with_name("sushy-emulator")
    with log.open("w") as output:
        process = subprocess.Popen(
            [program, "--config", settings, "--fake"], stdout=output, stderr=subprocess.STDOUT, cwd=directory
        )
    try:
        _wait_for_port(port, process, log)
        yield Emulator(f"http://127.0.0.1:{port}", log)
    finally:
        process.terminate()
        process.wait(10)


class StandIn:
    """A small Redfish service in this process, with sessions, whose every word a test can bend.

    `documents` are what GET answers, `received` what came in, `mishaps` statuses to answer instead,
    first come first served, by (method, path).
    """

    SYSTEM = "/redfish/v1/Systems/1"
    SESSIONS = "/redfish/v1/SessionService/Sessions"

    def __init__(self) -> None:
        self.received: list[tuple[str, str, Any]] = []
        self.mishaps: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        self.tokens: set[str] = set()
        self.on_reset: dict[str, str] = {"On": "On", "ForceOff": "Off", "GracefulShutdown": "Off"}
        self.documents: dict[str, Any] = {
            "/redfish/v1/": {
                "Id": "root",
                "RedfishVersion": "1.6.0",
                "Systems": {"@odata.id": "/redfish/v1/Systems"},
                "Links": {"Sessions": {"@odata.id": self.SESSIONS}},
            },
            "/redfish/v1/Systems": {"Name": "Systems", "Members": [{"@odata.id": self.SYSTEM}]},
            self.SYSTEM: {
                "Id": "1",
                "PowerState": "Off",
                "Boot": {
                    "BootSourceOverrideEnabled": "Disabled",
                    "BootSourceOverrideTarget": "None",
                    "BootSourceOverrideMode": "Legacy",
                    "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "BiosSetup"],
                },
                "Actions": {
                    "#ComputerSystem.Reset": {
                        "target": f"{self.SYSTEM}/Reset",
                        "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown"],
                    }
                },
            },
        }
        self.url = ""

    @property
    def system(self) -> dict[str, Any]:
        document: dict[str, Any] = self.documents[self.SYSTEM]
        return document

    def driver_info(self, **more: Any) -> dict[str, Any]:
        return {
            "redfish_address": self.url,
            "redfish_username": USER,
            "redfish_password": PASSWORD,
            **more,
        }

    def count(self, method: str, path: str) -> int:
        return sum(1 for received in self.received if received[:2] == (method, path))

    def answer(self, method: str, path: str, body: Any, token: str | None) -> tuple[int, Any, dict[str, str]]:
        """Status, document and headers."""
        self.received.append((method, path, body))
        waiting = self.mishaps.get((method, path))
        if waiting:
            return *waiting.pop(0), {}
        if (method, path) == ("POST", self.SESSIONS):
            if body != {"UserName": USER, "Password": PASSWORD}:
                return 401, {"error": {}}, {}
            token = f"token-{len(self.received)}"
            self.tokens.add(token)
            return 201, {}, {"X-Auth-Token": token, "Location": f"{self.SESSIONS}/{token}"}
        if path != "/redfish/v1/" and token not in self.tokens:
            return 401, {"error": {}}, {}
        if method == "DELETE":
            self.tokens.discard(path.rpartition("/")[2])
            return 204, None, {}
        if (method, path) == ("POST", f"{self.SYSTEM}/Reset"):
            self.system["PowerState"] = self.on_reset[body["ResetType"]]
            return 204, None, {}
        if method == "PATCH":
            self.system["Boot"] |= body["Boot"]
            return 204, None, {}
        if path in self.documents:
            return 200, self.documents[path], {}
        return 404, {"error": {}}, {}


@contextmanager
def stand_in() -> Iterator[StandIn]:
    service = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, document, headers = service.answer(self.command, self.path, body, self.headers.get("X-Auth-Token"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            content = b"" if document is None else json.dumps(document).encode()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def configure(**redfish: Any) -> cfg.ConfigOpts:
    """A configuration with these [redfish] options; one try and no waiting unless said otherwise."""
    options = {"connection_attempts": 1, "connection_retry_interval": 0, "connection_timeout": 20, **redfish}
    return config.load(environment={}, overrides={("redfish", name): value for name, value in options.items()})


def node(driver_info: dict[str, Any], **fields: Any) -> Task:
    """A task on a node with this driver_info."""
    uuid = "6f8f5b3e-0000-4000-8000-000000000001"
    return Task(Node(id=1, uuid=uuid, driver="redfish", driver_info=driver_info, **fields))


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"sushy-emulator did not start:\n{log.read_text()}")
