"""A ramdisk for tests: a simulated agent that looks its node up and sends heartbeats to the application."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.sim.agent import Agent

# (method, path below the API's prefix, body) -> the document of a successful answer
Send = Callable[[str, str, Any], Any]


class Ramdisk:
    """What runs on the machine of one node, for one boot."""

    def __init__(self, send: Send, node: str, agent: Agent, certificate: str | None = None) -> None:
        self._send = send
        self.node = node
        self.agent = agent
        self.certificate = certificate
        agent.done = self.call

    def boot(self) -> None:
        """Looks the node up, keeps the token, and sends the first heartbeat."""
        self.agent.restart()
        found = self._send("GET", f"/v1/lookup?node_uuid={self.node}", None)
        self.agent.token = found["config"]["agent_token"]
        self.beat()

    def call(self) -> None:
        """A heartbeat of the agent's own: one that is refused is not the end of it."""
        with contextlib.suppress(AssertionError):
            self.beat()

    def beat(self) -> None:
        body: dict[str, Any] = {"callback_url": self.agent.url, "agent_version": "13.0.0"}
        if self.agent.token:
            body["agent_token"] = self.agent.token
        if self.certificate:
            body["agent_verify_ca"] = self.certificate
        self._send("POST", f"/v1/heartbeat/{self.node}", body)


def make_certificate(directory: Path) -> tuple[str, str]:
    """Files with a certificate for 127.0.0.1 and its key, as an agent makes them for itself."""
    certificate, key = directory / "agent.crt", directory / "agent.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=agent", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-out", str(certificate), "-keyout", str(key)], check=True, capture_output=True)
    return str(certificate), str(key)
