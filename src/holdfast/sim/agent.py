"""A simulated ironic-python-agent: a real HTTP server that speaks the agent's API, and a client of ours that
looks its node up and sends heartbeats. For tests, crash scenarios and load.

Commands take as long as `seconds` says, one at a time, as in the real one. `Faults` make it a difficult one.
"""

from __future__ import annotations

import json
import ssl
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

VERSION = "13.0.0"
MANAGER = "SimulatedManager"
CLEAN_STEPS: list[dict[str, Any]] = [
    {"step": "erase_devices", "priority": 10, "interface": "deploy", "reboot_requested": False, "abortable": True},
    {"step": "erase_devices_metadata", "priority": 99, "interface": "deploy", "reboot_requested": False},
    {"step": "check_disks", "priority": 0, "interface": "deploy", "reboot_requested": False},
    {"step": "flash_firmware", "priority": 0, "interface": "management", "reboot_requested": True},
]
DEPLOY_STEPS: list[dict[str, Any]] = [
    {"step": "write_image", "priority": 0, "interface": "deploy", "reboot_requested": False}
]
# Answered with their result; the others are answered at once and run behind.
SYNCHRONOUS = ("get_clean_steps", "get_deploy_steps", "sync", "finalize_rescue", "get_partition_uuids")


@dataclass
class Faults:
    """What goes wrong: steps that fail, with the text they give; answers that never arrive though the command
    runs; garbage instead of an answer; an answer that sends the caller elsewhere."""

    failing: dict[str, str] = field(default_factory=dict)
    lost_answers: int = 0
    garbage: bool = False
    redirect_to: str | None = None


@dataclass
class Machine:
    """What the agent did to its machine."""

    images: list[dict[str, Any]] = field(default_factory=list)
    configdrives: list[str | None] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    bootloaders: int = 0
    rescue_password: str | None = None
    is_off: bool = False


class Agent:
    """One agent. Use it as a context; `url` is where it listens."""

    def __init__(
        self,
        *,
        token: str | None = None,
        seconds: float = 0.0,
        faults: Faults | None = None,
        certificate: tuple[str, str] | None = None,
        host: str = "127.0.0.1",
        done: Callable[[], None] | None = None,
    ) -> None:
        self.token = token
        self.seconds = seconds
        self.faults = faults or Faults()
        self.machine = Machine()
        self.commands: list[dict[str, Any]] = []
        self.received: list[tuple[str, Any]] = []
        self.done = done or (lambda: None)
        self._lock = threading.Lock()
        self._timers: list[threading.Timer] = []
        self._server = ThreadingHTTPServer((host, 0), _handler(self))
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self._server.server_address[0]!s}:{self._server.server_port}"

    def __enter__(self) -> Agent:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()
        self._server.shutdown()
        self._server.server_close()

    def restart(self) -> None:
        """A new boot: it remembers nothing."""
        with self._lock:
            self.commands.clear()
            self.token = None

    def execute(self, name: str, params: Mapping[str, Any], *, wait: bool) -> tuple[int, dict[str, Any]]:
        """Status and body of a command, as the API gives them."""
        extension, _, short = name.partition(".")
        if not short or extension not in ("clean", "deploy", "standby", "image", "rescue", "log"):
            return 404, {"faultcode": 404, "faultstring": f"Extension not found: {extension}"}
        with self._lock:
            if any(command["command_status"] == "RUNNING" for command in self.commands):
                return 409, {"faultcode": 409, "faultstring": "Agent is busy"}
            command: dict[str, Any] = {
                "id": str(uuid.uuid4()),
                "command_name": short,
                "command_status": "RUNNING",
                "command_error": None,
                "command_result": None,
            }
            self.commands.append(command)
        if short in SYNCHRONOUS or (wait and not self.seconds):
            self._finish(command, params)
        else:
            timer = threading.Timer(self.seconds or 0.01, self._finish, (command, params))
            timer.daemon = True
            self._timers.append(timer)
            timer.start()
        return 200, dict(command)

    def _finish(self, command: dict[str, Any], params: Mapping[str, Any]) -> None:
        name = command["command_name"]
        step = params.get("step") or {}
        what = step.get("step") or name
        if reason := self.faults.failing.get(what):
            error = {"type": "DeploymentError", "code": 500, "message": "Error performing step", "details": reason}
            command.update(command_error=error, command_status="FAILED")
        else:
            command.update(command_result=self._do(name, step, params), command_status="SUCCEEDED")
        if name not in SYNCHRONOUS:
            self.done()

    def _do(self, name: str, step: Mapping[str, Any], params: Mapping[str, Any]) -> Any:
        match name:
            case "get_clean_steps":
                return {"clean_steps": {MANAGER: CLEAN_STEPS}, "hardware_manager_version": {MANAGER: "1.0"}}
            case "get_deploy_steps":
                return {"deploy_steps": {MANAGER: DEPLOY_STEPS}, "hardware_manager_version": {MANAGER: "1.0"}}
            case "execute_clean_step" | "execute_deploy_step":
                phase = name.split("_")[1]
                self.machine.steps.append(str(step["step"]))
                if step["step"] == "write_image":
                    self.machine.images.append(dict(step["args"]["image_info"]))
                    self.machine.configdrives.append(step["args"].get("configdrive"))
                return {f"{phase}_result": None, f"{phase}_step": dict(step)}
            case "install_bootloader":
                self.machine.bootloaders += 1
            case "finalize_rescue":
                self.machine.rescue_password = str(params["rescue_password"])
            case "power_off":
                self.machine.is_off = True
        return None


def _handler(agent: Agent) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Quiet: the path has the token."""

        def do_GET(self) -> None:
            parts = self._begin("GET", None)
            if parts is None:
                return
            if parts.path.rstrip("/") == "/v1/status":
                self._answer(200, {"started_at": 0, "version": VERSION})
            elif self._may(parts.query):
                self._answer(200, {"commands": [dict(command) for command in agent.commands]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            parts = self._begin("POST", body)
            if parts is None or not self._may(parts.query):
                return
            wait = parse_qs(parts.query).get("wait") == ["true"]
            status, answer = agent.execute(str(body["name"]), body["params"], wait=wait)
            if agent.faults.lost_answers and status == 200 and not wait:
                agent.faults.lost_answers -= 1
                self.close_connection = True
                return
            self._answer(status, answer)

        def _begin(self, method: str, body: Any) -> Any:
            parts = urlsplit(self.path)
            agent.received.append((f"{method} {parts.path}", body))
            if agent.faults.redirect_to:
                self.send_response(307)
                self.send_header("Location", agent.faults.redirect_to)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
            return parts

        def _may(self, query: str) -> bool:
            if agent.token is not None and parse_qs(query).get("agent_token") != [agent.token]:
                self._answer(401, {"faultcode": 401, "faultstring": "Token invalid"})
                return False
            return True

        def _answer(self, status: int, document: Any) -> None:
            content = b"\x00not json" if agent.faults.garbage else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler
