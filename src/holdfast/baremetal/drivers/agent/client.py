"""The HTTP API of ironic-python-agent.

The agent is called at the address it gave in its heartbeats, over TLS with the certificate it gave there
and no other. It is asked for its token in the query: URLs never get into a log or an error. It follows no
redirects, asks no proxy, and no answer is read without bounds: whatever runs on the machine may be hostile.

A command that was sent and not answered may be running: before it is sent again, the agent's list of
commands is looked at.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
from oslo_config import cfg

from holdfast import errors, secrets
from holdfast.baremetal import callback_urls
from holdfast.baremetal.task import Task

LOG = logging.getLogger(__name__)

RUNNING, SUCCEEDED, FAILED = "RUNNING", "SUCCEEDED", "FAILED"
LARGEST_ANSWER = 8 * 1024 * 1024
LONGEST_TEXT = 1000


class Command(msgspec.Struct, frozen=True):
    """A command as the agent lists it. Its name comes without the extension."""

    id: str
    command_name: str
    command_status: str
    command_error: Any = None
    command_result: Any = None

    @property
    def failure(self) -> str:
        """What the agent says went wrong, fit to be shown."""
        error = self.command_error
        if isinstance(error, dict):
            error = ": ".join(str(error[key]) for key in ("message", "details") if error.get(key))
        text = " ".join(str(error or "it gives no reason").split())
        return secrets.mask_text(text)[:LONGEST_TEXT]


class _Commands(msgspec.Struct):
    commands: list[Command]


class Agent:
    """The agent on one machine, for the length of one boot."""

    def __init__(
        self, url: str, token: str | None, certificate: str | None, conf: cfg.ConfigOpts, *, where: str
    ) -> None:
        callback_urls.check(url, callback_urls.networks(conf), require_tls=conf.agent.require_tls)
        self._url = url.rstrip("/")
        self._token = token
        self._where = where
        self._attempts = conf.agent.command_attempts
        self._timeout = conf.agent.command_timeout
        self.is_private = url.startswith("https://") and bool(certificate)
        self._pool = urllib3.PoolManager(
            ssl_context=_context(certificate) if url.startswith("https://") else None,
            timeout=urllib3.Timeout(connect=min(10, self._timeout), read=self._timeout),
            retries=False,
        )

    def __repr__(self) -> str:
        return f"Agent({self._where})"

    def close(self) -> None:
        self._pool.clear()

    def commands(self) -> list[Command]:
        """Every command since the agent started, the newest last."""
        body = self._patiently("GET", "/v1/commands/", {})
        try:
            return msgspec.json.decode(body, type=_Commands).commands
        except msgspec.DecodeError:
            raise self._failed("sent a list of commands that cannot be read") from None

    def ask(self, name: str, params: Mapping[str, Any]) -> Any:
        """Runs a short command to its end; what it returned. For commands that only look: it may run twice."""
        body = self._patiently("POST", "/v1/commands/", {"wait": "true"}, {"name": name, "params": params})
        command = self._command(body)
        if command.command_status != SUCCEEDED:
            raise self._failed(f"could not run {name}: {command.failure}")
        return command.command_result

    def begin(self, name: str, params: Mapping[str, Any], known: Collection[str]) -> Command:
        """Starts a long command, once: `known` are the ids of commands that were there before."""
        document = {"name": name, "params": params}
        short = name.partition(".")[2]
        for left in range(self._attempts - 1, -1, -1):
            try:
                return self._command(self._call("POST", "/v1/commands/", {"wait": "false"}, document))
            except errors.DriverFailed:
                # It may have arrived nevertheless, or the agent is busy with the one that did.
                begun = [c for c in self.commands() if c.command_name == short and c.id not in known]
                if begun:
                    return begun[-1]
                if not left:
                    raise
        raise self._failed("does not take commands")  # not reached: the last try raises

    def _command(self, body: bytes) -> Command:
        try:
            return msgspec.json.decode(body, type=Command)
        except msgspec.DecodeError:
            raise self._failed("sent an answer that cannot be read") from None

    def _patiently(self, method: str, path: str, query: Mapping[str, str], document: Any = None) -> bytes:
        for left in range(self._attempts - 1, -1, -1):
            try:
                return self._call(method, path, query, document)
            except Unreached:
                if not left:
                    raise
                time.sleep(0.5)
        raise self._failed("does not answer")  # not reached: the last try raises

    def _call(self, method: str, path: str, query: Mapping[str, str], document: Any = None) -> bytes:
        asked = {**query, **({"agent_token": self._token} if self._token else {})}
        url = f"{self._url}{path}?{urlencode(asked)}" if asked else f"{self._url}{path}"
        try:
            answer = self._pool.request(
                method,
                url,
                body=None if document is None else msgspec.json.encode(document),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                redirect=False,
                preload_content=False,
            )
            try:
                body = answer.read(LARGEST_ANSWER + 1)
            finally:
                answer.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            # The text of these errors has the URL, and so the token: only their kind is told.
            LOG.info("The agent on %s did not answer: %s", self._where, type(error).__name__)
            reason = "does not answer"
            if isinstance(error, urllib3.exceptions.SSLError):
                reason = "does not have the certificate that it gave in its first heartbeat"
            raise Unreached(f"The ramdisk of node {self._where} {reason}.") from None
        if len(body) > LARGEST_ANSWER:
            raise self._failed("sent an answer that is too large")
        if answer.status == 200:
            return body
        raise self._failed(f"answered with status {answer.status}: {_fault(body)}")

    def _failed(self, what: str) -> errors.DriverFailed:
        return errors.DriverFailed(f"The ramdisk of node {self._where} {what}.")


class Unreached(errors.DriverFailed):
    """Nobody answered; what was sent may have arrived."""


def of(task: Task, conf: cfg.ConfigOpts) -> Agent | None:
    """The agent that runs on the node's machine now; None if none has called yet."""
    info = task.node.driver_internal_info
    url = info.get("agent_url")
    if not url:
        return None
    return Agent(str(url), info.get("agent_secret_token"), info.get("agent_verify_ca"), conf, where=task.node.label)


def _context(certificate: str | None) -> ssl.SSLContext:
    """Trusts the agent's own certificate alone; without one, what the system trusts."""
    if certificate is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError):
        raise errors.DriverDataInvalid("The ramdisk's certificate cannot be read.") from None
    return context


def _fault(body: bytes) -> str:
    try:
        said = msgspec.json.decode(body[:65536])
        text = said.get("faultstring") or said.get("details") or said.get("message") if isinstance(said, dict) else said
    except msgspec.DecodeError:
        text = None
    return secrets.mask_text(" ".join(str(text or "no reason given").split()))[:LONGEST_TEXT]
