"""A Neutron to test against: real HTTP, and those rules of the real one that its users trip over.

Networks, subnets, segments and ports live in one SQLite file, so that they survive whoever used them. Kept
from the real service: a MAC address is unique on its network, no bound port changes it, `null` asks for a
fresh one; a port with a host is bound if the switches in its profile are known, else `binding_failed`.

Faults are armed with `arm`: the next requests that match are answered with an error, or cut off, before or
after they had their effect.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

SCHEMA = """
CREATE TABLE IF NOT EXISTS things (kind TEXT NOT NULL, id TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS faults (
    number INTEGER PRIMARY KEY, method TEXT NOT NULL, path TEXT NOT NULL, status INTEGER NOT NULL,
    after INTEGER NOT NULL, times INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS calls (number INTEGER PRIMARY KEY, call TEXT NOT NULL);
"""

KINDS = {"networks": "network", "subnets": "subnet", "segments": "segment", "ports": "port"}
NEW: dict[str, dict[str, Any]] = {
    "networks": {"name": "", "provider:physical_network": None, "segments": None},
    "subnets": {"network_id": "", "segment_id": None},
    "segments": {"network_id": "", "physical_network": None},
    "ports": {
        "name": "",
        "mac_address": None,
        "device_id": "",
        "device_owner": "",
        "fixed_ips": [],
        "extra_dhcp_opts": [],
        "security_groups": [],
        "binding:host_id": "",
        "binding:vnic_type": "normal",
        "binding:profile": {},
    },
}
SWITCH = "0a:00:00:00:00:01"
CUT = 0  # as a fault's status: no answer at all


class Refusal(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"NeutronError": {"type": kind, "message": message, "detail": ""}}


class NeutronSimulator:
    """The state of one simulated Neutron; several processes may open the same file."""

    def __init__(self, file: Path, switches: frozenset[str] = frozenset({SWITCH})) -> None:
        self._file = file
        self._switches = switches
        self._lock = threading.Lock()
        # Called with "before PUT /v2.0/ports/…", and with "after …" once a request had its effect.
        self.watch: Callable[[str], None] = lambda moment: None
        with self._transaction() as database:
            database.executescript(SCHEMA)

    # For tests

    def network(self, name: str, *, physical_network: str | None = None) -> str:
        return str(self.create("networks", {"name": name, "provider:physical_network": physical_network})["id"])

    def port(self, network: str, **more: Any) -> str:
        return str(self.create("ports", {"network_id": network, **more})["id"])

    def many(self, network: str, count: int) -> list[str]:
        return [self.port(network) for _ in range(count)]

    def show(self, port: str) -> dict[str, Any]:
        return self.get("ports", port)

    def ports(self, **filters: str) -> list[dict[str, Any]]:
        return self.find("ports", filters)

    def bound(self) -> dict[str, str]:
        """Every port that has a host, and which."""
        return {port["id"]: port["binding:host_id"] for port in self.ports() if port["binding:host_id"]}

    def arm(self, method: str, path: str, status: int, *, after: bool = False, times: int = 1) -> None:
        """The next `times` requests whose path matches are answered so (`CUT`: not at all)."""
        with self._transaction() as database:
            values = (method, path, status, after, times)
            database.execute("INSERT INTO faults (method, path, status, after, times) VALUES (?, ?, ?, ?, ?)", values)

    def disarm(self) -> None:
        with self._transaction() as database:
            database.execute("DELETE FROM faults")

    def calls(self) -> list[str]:
        """Every request so far: method and path."""
        with self._transaction() as database:
            return [row[0] for row in database.execute("SELECT call FROM calls ORDER BY number")]

    # What the API does

    def find(self, kind: str, filters: dict[str, str]) -> list[dict[str, Any]]:
        with self._transaction() as database:
            rows = database.execute("SELECT document FROM things WHERE kind = ? ORDER BY rowid", (kind,))
            found = [json.loads(row[0]) for row in rows]
        return [thing for thing in found if all(str(thing.get(k)) == v for k, v in filters.items() if k in thing)]

    def get(self, kind: str, ident: str) -> dict[str, Any]:
        with self._transaction() as database:
            return _get(database, kind, ident)

    def create(self, kind: str, given: dict[str, Any]) -> dict[str, Any]:
        with self._transaction() as database:
            if "network_id" in given:
                _get(database, "networks", given["network_id"])
            thing = {**NEW[kind], **given, "id": str(uuid.uuid4())}
            if kind == "ports":
                self._settle(database, thing, None)
            row = (kind, thing["id"], json.dumps(thing))
            database.execute("INSERT INTO things (kind, id, document) VALUES (?, ?, ?)", row)
            return thing

    def update(self, kind: str, ident: str, given: dict[str, Any]) -> dict[str, Any]:
        with self._transaction() as database:
            before = _get(database, kind, ident)
            thing = {**before, **given}
            if kind == "ports":
                self._settle(database, thing, before)
            database.execute("UPDATE things SET document = ? WHERE id = ?", (json.dumps(thing), ident))
            return thing

    def delete(self, kind: str, ident: str) -> None:
        with self._transaction() as database:
            _get(database, kind, ident)
            database.execute("DELETE FROM things WHERE id = ?", (ident,))

    def _settle(self, database: sqlite3.Connection, port: dict[str, Any], before: dict[str, Any] | None) -> None:
        """Checks a port's MAC address and works out its binding."""
        port["mac_address"] = (port["mac_address"] or _fresh_mac()).lower()
        if before and before["mac_address"] != port["mac_address"] and before["binding:host_id"]:
            raise Refusal(409, "PortBound", f"Port {port['id']} is bound; its MAC address stays.")
        for (other,) in database.execute("SELECT document FROM things WHERE kind = 'ports'"):
            there = json.loads(other)
            same = there["mac_address"] == port["mac_address"] and there["network_id"] == port["network_id"]
            if same and there["id"] != port["id"]:
                raise Refusal(409, "MacAddressInUse", f"The mac address {port['mac_address']} is in use.")
        links = port["binding:profile"].get("local_link_information") or []
        known = bool(links) and all(link.get("switch_id") in self._switches for link in links)
        host = port["binding:host_id"]
        port["binding:vif_type"] = "unbound" if not host else "other" if known else "binding_failed"

    def fault(self, method: str, path: str, *, after: bool) -> int | None:
        """The status to answer with instead, if one is armed for this request."""
        with self._transaction() as database:
            for number, armed, pattern, status in database.execute(
                "SELECT number, method, path, status FROM faults WHERE times > 0 AND after = ? ORDER BY number",
                (after,),
            ).fetchall():
                if armed == method and re.search(pattern, path):
                    database.execute("UPDATE faults SET times = times - 1 WHERE number = ?", (number,))
                    return int(status)
        return None

    def note(self, call: str) -> None:
        with self._transaction() as database:
            database.execute("INSERT INTO calls (call) VALUES (?)", (call,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, closing(sqlite3.connect(self._file, timeout=60, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            if database.in_transaction:
                database.execute("COMMIT")


def _fresh_mac() -> str:
    tail = uuid.uuid4().hex
    return "fa:16:3e:" + ":".join(tail[i : i + 2] for i in (0, 2, 4))


def _get(database: sqlite3.Connection, kind: str, ident: str) -> dict[str, Any]:
    row = database.execute("SELECT document FROM things WHERE kind = ? AND id = ?", (kind, ident)).fetchone()
    if row is None:
        raise Refusal(404, f"{KINDS[kind].capitalize()}NotFound", f"{KINDS[kind].capitalize()} {ident} not found.")
    document: dict[str, Any] = json.loads(row[0])
    return document


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    simulator: NeutronSimulator

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        self.simulator.note(f"{self.command} {url.path}")
        self.simulator.watch(f"before {self.command} {url.path}")
        status = self.simulator.fault(self.command, url.path, after=False)
        document: Any = None
        if status is None:
            try:
                found = self._answer(url.path, dict(parse_qsl(url.query)), body)
            except Refusal as refusal:
                found = refusal.status, refusal.body
            status, document = found
            self.simulator.watch(f"after {self.command} {url.path}")
            instead = self.simulator.fault(self.command, url.path, after=True)
            if instead is not None:
                status, document = instead, None
        if status == CUT:
            self.close_connection = True
            return
        text = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        try:
            self.wfile.write(text)
        except ConnectionError:
            pass  # whoever asked is dead

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def _answer(self, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        parts = [part for part in path.split("/") if part]
        if len(parts) < 2:
            host = self.headers.get("Host")
            links = [{"rel": "self", "href": f"http://{host}/v2.0/"}]
            version = {"id": "v2.0", "status": "CURRENT", "links": links}
            return 200, {"versions": [version]} if not parts else {"resources": [], "version": version}
        kind = parts[1]
        if kind not in KINDS:
            raise Refusal(404, "HTTPNotFound", "The resource could not be found.")
        single = KINDS[kind]
        match self.command, len(parts):
            case "GET", 2:
                return 200, {kind: self.simulator.find(kind, query)}
            case "POST", 2:
                return 201, {single: self.simulator.create(kind, body[single])}
            case "GET", 3:
                return 200, {single: self.simulator.get(kind, parts[2])}
            case "PUT", 3:
                return 200, {single: self.simulator.update(kind, parts[2], body[single])}
            case "DELETE", 3:
                self.simulator.delete(kind, parts[2])
                return 204, None
        raise Refusal(404, "HTTPNotFound", "The resource could not be found.")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextmanager
def serving(simulator: NeutronSimulator, port: int = 0) -> Iterator[str]:
    """The simulator on a port of the loopback interface; its URL."""
    handler = type("Handler", (_Handler,), {"simulator": simulator})
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
