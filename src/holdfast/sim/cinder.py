"""A Cinder to test against: real HTTP, and the state rules of the real one.

Volumes and attachments live in one SQLite file, so that they survive whoever used them. What the real
service does is kept, its warts included: answers of POST and PUT show the state before the call, a
volume that is not multi-attach has one instance, a delete of what is gone is 404. Each connected
attachment counts as an export; `exports` is what the array would say.

Faults are armed with `arm`: the next requests that match are answered with an error, cut off, or left
hanging, before or after they had their effect.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

PORTAL = "192.0.2.50:3260"
NEWEST = (3, 71)

SCHEMA = """
CREATE TABLE IF NOT EXISTS volumes (
    id TEXT PRIMARY KEY, status TEXT NOT NULL, multiattach INTEGER NOT NULL, kind TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS attachments (
    id TEXT PRIMARY KEY, volume_id TEXT NOT NULL REFERENCES volumes (id), instance TEXT,
    status TEXT NOT NULL, connector TEXT, connection TEXT, secret TEXT, made INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS faults (
    number INTEGER PRIMARY KEY, method TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
    after INTEGER NOT NULL, times INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS calls (number INTEGER PRIMARY KEY, call TEXT NOT NULL);
"""

# What Nova reads of a volume and nobody here decides.
_NEW_VOLUME: dict[str, Any] = {
    "name": "",
    "description": None,
    "size": 10,
    "availability_zone": "nova",
    "created_at": "2026-01-01T00:00:00.000000",
    "attachments": [],
    "volume_type": "sim",
    "snapshot_id": None,
    "bootable": "true",
    "metadata": {},
}

# In alphabetical order the first of the remaining attachments' states decides about the volume.
_VOLUME_STATUS = {"attached": "in-use", "attaching": "attaching", "reserved": "reserved"}


class Refusal(Exception):
    """An answer that is a fault, under the name Cinder gives it."""

    NAMES = {400: "badRequest", 401: "unauthorized", 404: "itemNotFound", 409: "conflictingRequest"}

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = {self.NAMES.get(status, "computeFault"): {"code": status, "message": message}}


class Export(NamedTuple):
    """What the array presents to somebody."""

    volume: str
    host: str
    initiator: str | None


class State:
    """Volumes and attachments in a file. Threads and processes may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.executescript(SCHEMA)

    # For tests

    def create_volume(self, *, volume: str | None = None, multiattach: bool = False, kind: str = "iscsi") -> str:
        volume = volume or str(uuid.uuid4())
        with self._open() as db:
            db.execute("INSERT INTO volumes VALUES (?, 'available', ?, ?)", (volume, multiattach, kind))
        return volume

    def volume_status(self, volume: str) -> str:
        with self._open() as db:
            return str(_volume(db, volume)["status"])

    def attachments(self) -> list[dict[str, Any]]:
        """Every attachment: volume_id, instance, status."""
        with self._open() as db:
            return [_summary(row) for row in db.execute("SELECT * FROM attachments ORDER BY made")]

    def exports(self) -> list[Export]:
        with self._open() as db:
            rows = db.execute("SELECT * FROM attachments WHERE connector IS NOT NULL ORDER BY made").fetchall()
        documents = [(row["volume_id"], json.loads(row["connector"])) for row in rows]
        return [Export(volume, c.get("host", ""), c.get("initiator")) for volume, c in documents]

    def secrets(self) -> list[str]:
        """Every CHAP secret given out: none may be found anywhere but in targets."""
        with self._open() as db:
            return [row[0] for row in db.execute("SELECT secret FROM attachments WHERE secret IS NOT NULL")]

    def calls(self) -> list[str]:
        """Method and path of every request so far, ids replaced by {id}."""
        with self._open() as db:
            return [row[0] for row in db.execute("SELECT call FROM calls ORDER BY number")]

    def arm(self, kind: str, method: str, path: str, *, after: bool = False, times: int = 1) -> None:
        """`kind`: `error` (500), `reset` (the connection is cut) or `hang` (no answer). `path` is a regular
        expression; `after`: once the request has had its effect."""
        with self._open() as db:
            db.execute(
                "INSERT INTO faults (method, path, kind, after, times) VALUES (?, ?, ?, ?, ?)",
                (method, path, kind, after, times),
            )

    # What the HTTP side calls

    def fault(self, method: str, path: str, *, after: bool) -> str | None:
        with self._open() as db:
            for row in db.execute("SELECT * FROM faults WHERE times > 0 AND method = ? AND after = ?", (method, after)):
                if re.search(row["path"], path):
                    db.execute("UPDATE faults SET times = times - 1 WHERE number = ?", (row["number"],))
                    return str(row["kind"])
        return None

    def handle(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        with self._open() as db:
            shown = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "{id}", path)
            db.execute("INSERT INTO calls (call) VALUES (?)", (f"{method} {shown}",))
            for verb, pattern, action in ROUTES:
                match = re.fullmatch(pattern, path)
                if match and verb == method:
                    return action(db, query, body, *match.groups())
        raise Refusal(404, "The resource could not be found.")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        db.row_factory = sqlite3.Row
        try:
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.rollback()
                raise
            db.commit()
        finally:
            db.close()


def _volume(db: sqlite3.Connection, volume: str) -> sqlite3.Row:
    row = db.execute("SELECT * FROM volumes WHERE id = ?", (volume,)).fetchone()
    if row is None:
        raise Refusal(404, f"Volume {volume} could not be found.")
    found: sqlite3.Row = row
    return found


def _attachment(db: sqlite3.Connection, attachment: str) -> sqlite3.Row:
    row = db.execute("SELECT * FROM attachments WHERE id = ?", (attachment,)).fetchone()
    if row is None:
        raise Refusal(404, f"Volume attachment {attachment} could not be found.")
    found: sqlite3.Row = row
    return found


def _summary(row: sqlite3.Row) -> dict[str, Any]:
    return {name: row[name] for name in ("id", "status", "instance", "volume_id")}


def _detail(row: sqlite3.Row) -> dict[str, Any]:
    return {
        **_summary(row),
        "attached_at": "2026-01-01T00:00:00.000000" if row["connector"] else "",
        "detached_at": "",
        "attach_mode": "rw" if row["connector"] else "null",
        "connection_info": json.loads(row["connection"]) if row["connection"] else {},
    }


def _versions(_db: sqlite3.Connection, _query: dict[str, str], _body: Any) -> tuple[int, Any]:
    newest = ".".join(map(str, NEWEST))
    return 200, {"versions": [{"id": "v3.0", "status": "CURRENT", "version": newest, "min_version": "3.0"}]}


def _show_volume(db: sqlite3.Connection, _query: dict[str, str], _body: Any, volume: str) -> tuple[int, Any]:
    row = _volume(db, volume)
    known = {"id": row["id"], "status": row["status"], "multiattach": bool(row["multiattach"])}
    return 200, {"volume": {**_NEW_VOLUME, **known}}


def _list(db: sqlite3.Connection, query: dict[str, str], _body: Any, detail: str | None) -> tuple[int, Any]:
    unknown = query.keys() - {"volume_id", "instance_id", "status", "limit", "marker", "all_tenants"}
    if unknown:
        raise Refusal(400, f"Invalid filters {', '.join(sorted(unknown))} are found in query options.")
    rows = db.execute("SELECT * FROM attachments ORDER BY made").fetchall()
    for name, column in (("volume_id", "volume_id"), ("instance_id", "instance"), ("status", "status")):
        if name in query:
            rows = [row for row in rows if row[column] == query[name]]
    return 200, {"attachments": [(_detail if detail else _summary)(row) for row in rows]}


def _create(db: sqlite3.Connection, _query: dict[str, str], body: Any) -> tuple[int, Any]:
    wanted = _named(body, "attachment", {"volume_uuid", "instance_uuid", "connector"})
    volume, instance = _volume(db, str(wanted.get("volume_uuid"))), wanted.get("instance_uuid")
    others = db.execute("SELECT instance FROM attachments WHERE volume_id = ?", (volume["id"],)).fetchall()
    same = bool(others) and all(row["instance"] == instance for row in others)
    free = {"available", "in-use"} if volume["multiattach"] else {"available"}
    if volume["status"] not in free and not (same and volume["status"] in ("in-use", "reserved")):
        raise Refusal(400, f"Invalid volume: Volume {volume['id']} status must be available, not {volume['status']}.")
    attachment = str(uuid.uuid4())
    db.execute(
        "INSERT INTO attachments (id, volume_id, instance, status, made) VALUES (?, ?, ?, 'reserved', ?)",
        (attachment, volume["id"], instance, time.time_ns()),
    )
    if volume["status"] == "available" or volume["multiattach"]:
        db.execute("UPDATE volumes SET status = 'reserved' WHERE id = ?", (volume["id"],))
    before = _detail(_attachment(db, attachment))
    if wanted.get("connector"):
        _connect(db, attachment, wanted["connector"])
    return 200, {"attachment": before}


def _update(db: sqlite3.Connection, _query: dict[str, str], body: Any, attachment: str) -> tuple[int, Any]:
    connector = _named(body, "attachment", {"connector"}).get("connector")
    row = _attachment(db, attachment)
    if not isinstance(connector, dict) or not connector:
        raise Refusal(400, "Invalid input: connector must be an object with at least one key.")
    siblings = db.execute(
        "SELECT 1 FROM attachments WHERE volume_id = ? AND id != ? AND connection IS NOT NULL",
        (row["volume_id"], attachment),
    ).fetchone()
    if siblings and not _volume(db, row["volume_id"])["multiattach"]:
        raise Refusal(409, "Duplicate connectors or improper volume status: another attachment is connected.")
    _connect(db, attachment, connector)
    shown = {**_detail(_attachment(db, attachment)), "status": row["status"], "attached_at": ""}
    return 200, {"attachment": shown}


def _connect(db: sqlite3.Connection, attachment: str, connector: dict[str, Any]) -> None:
    if not connector.get("host"):
        raise Refusal(500, "The server has either erred or is incapable of performing the requested operation.")
    row = _attachment(db, attachment)
    volume = _volume(db, row["volume_id"])
    secret = row["secret"] or f"chap-{uuid.uuid4().hex[:12]}"
    if volume["kind"] == "iscsi":
        if not connector.get("initiator"):
            raise Refusal(400, "Invalid input received: Connector doesn't have required information: initiator")
        data: dict[str, Any] = {
            "target_discovered": False,
            "target_portal": PORTAL,
            "target_iqn": f"iqn.2010-10.org.openstack:volume-{volume['id']}",
            "target_lun": 1,
            "auth_method": "CHAP",
            "auth_username": f"user-{volume['id'][:8]}",
            "auth_password": secret,
        }
    else:
        data = {"target_wwn": ["50060e801049cfd1"], "target_lun": 1}
        secret = None
    connection = {
        **data,
        "driver_volume_type": volume["kind"],
        "attachment_id": attachment,
        "enforce_multipath": False,
        "volume_id": volume["id"],
        "qos_specs": None,
        "access_mode": "rw",
        "encrypted": False,
        "cacheable": False,
    }
    db.execute(
        "UPDATE attachments SET status = 'attaching', connector = ?, connection = ?, secret = ? WHERE id = ?",
        (json.dumps(connector), json.dumps(connection), secret, attachment),
    )
    db.execute("UPDATE volumes SET status = 'attaching' WHERE id = ?", (volume["id"],))


def _complete(db: sqlite3.Connection, _query: dict[str, str], body: Any, attachment: str) -> tuple[int, Any]:
    if not isinstance(body, dict) or "os-complete" not in body:
        raise Refusal(400, "There is no such action.")
    row = _attachment(db, attachment)
    db.execute("UPDATE attachments SET status = 'attached' WHERE id = ?", (attachment,))
    db.execute("UPDATE volumes SET status = 'in-use' WHERE id = ?", (row["volume_id"],))
    return 204, None


def _show(db: sqlite3.Connection, _query: dict[str, str], _body: Any, attachment: str) -> tuple[int, Any]:
    return 200, {"attachment": _detail(_attachment(db, attachment))}


def _delete(db: sqlite3.Connection, _query: dict[str, str], _body: Any, attachment: str) -> tuple[int, Any]:
    volume = _attachment(db, attachment)["volume_id"]
    db.execute("DELETE FROM attachments WHERE id = ?", (attachment,))
    left = db.execute("SELECT * FROM attachments WHERE volume_id = ? ORDER BY status", (volume,)).fetchall()
    status = _VOLUME_STATUS[left[0]["status"]] if left else "available"
    db.execute("UPDATE volumes SET status = ? WHERE id = ?", (status, volume))
    return 200, {"attachments": [_summary(row) for row in left]}


def _named(body: Any, key: str, known: set[str]) -> dict[str, Any]:
    inner = body.get(key) if isinstance(body, dict) else None
    if not isinstance(inner, dict) or inner.keys() - known:
        raise Refusal(400, f"Invalid input for field/attribute {key}.")
    return inner


ROUTES = (
    ("GET", r"/?", _versions),
    ("GET", r"/volumes/([^/]+)", _show_volume),
    ("GET", r"/attachments(/detail)?", _list),
    ("POST", r"/attachments", _create),
    ("GET", r"/attachments/([^/]+)", _show),
    ("PUT", r"/attachments/([^/]+)", _update),
    ("DELETE", r"/attachments/([^/]+)", _delete),
    ("POST", r"/attachments/([^/]+)/action", _complete),
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        parts = urlsplit(self.path)
        path = re.sub(r"^/v3(/[0-9a-f]{32})?", "", parts.path)
        try:
            if self._broken(path, after=False):
                return
            self._check_headers(path)
            body = json.loads(content) if content else None
            status, document = self.server.state.handle(self.command, path, dict(parse_qsl(parts.query)), body)
            if self._broken(path, after=True):
                return
        except Refusal as refusal:
            status, document = refusal.status, refusal.body
        self._answer(status, document)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def _check_headers(self, path: str) -> None:
        """Attachments appeared with 3.27, their completion with 3.44: older requests find nothing."""
        if self.server.token is not None and self.headers.get("Authorization") != self.server.token:
            raise Refusal(401, "This server could not verify that you are authorized.")
        match = re.search(r"volume (\d+)\.(\d+)", self.headers.get("OpenStack-API-Version") or "")
        version = (int(match[1]), int(match[2])) if match else (3, 0)
        if version > NEWEST:
            raise Refusal(406, "Version is not supported by the API.")
        if path.startswith("/attachments") and version < ((3, 44) if path.endswith("/action") else (3, 27)):
            raise Refusal(404, "The resource could not be found.")

    def _broken(self, path: str, *, after: bool) -> bool:
        kind = self.server.state.fault(self.command, path, after=after)
        if kind == "error":
            self._answer(500, Refusal(500, "The server has either erred.").body)
        elif kind == "reset":
            self.close_connection = True
        elif kind == "hang":
            self.close_connection = True
            self.server.released.wait(60)
        return kind is not None

    def _answer(self, status: int, document: Any) -> None:
        content = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("x-openstack-request-id", f"req-{uuid.uuid4()}")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing: tests read `State.calls`."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, state: State, port: int, token: str | None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.state = state
        self.token = token
        self.released = threading.Event()

    def handle_error(self, *_: Any) -> None:
        """A client that gave up is no news."""


class Simulator(NamedTuple):
    state: State
    url: str


@contextmanager
def serving(path: Path, *, port: int = 0, token: str | None = None) -> Iterator[Simulator]:
    """A Cinder on loopback whose state is in that file. `token`: the Authorization header it wants."""
    state = State(path)
    server = _Server(state, port, token)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield Simulator(state, f"http://127.0.0.1:{server.server_address[1]}/v3")
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
