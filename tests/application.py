"""The application inside the test process: WSGI calls instead of sockets, everything else real.

One at a time: the flow engine is one per process.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from sqlalchemy import event

from holdfast import app, config
from holdfast.db import schema
from holdfast.db.engine import Database
from holdfast.db.prepared import Prepared
from holdfast.services import Services
from tests import enrolment
from tests.postgres import Cluster

VERSION_HEADER = "X-OpenStack-Ironic-API-Version"


@dataclass(frozen=True)
class Answer:
    """`headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def text(self) -> str:
        """What an error of the bare-metal API tells its reader."""
        inner = json.loads(self.json["error_message"])
        return str(inner.get("faultstring") or inner["description"])


class Application:
    def __init__(self, services: Services, wsgi: Any = None) -> None:
        self.services = services
        self._wsgi: Any = wsgi or app.build_wsgi(services)

    @property
    def wsgi(self) -> Any:
        return self._wsgi

    def call(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **environ: Any,
    ) -> Answer:
        """One raw request. `target` is the path with its query, percent-encoded as on the wire."""
        path, _, query = target.partition("?")
        environment: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "6385",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": "127.0.0.1:6385",
            "REMOTE_ADDR": "127.0.0.1",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body or b""),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        if body is not None:
            environment |= {"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/json"}
        for name, value in (headers or {}).items():
            key = name.upper().replace("-", "_")
            environment[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
        begun: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            begun[:] = [int(status[:3]), {name.lower(): value for name, value in headers}]

        answer = self._wsgi({**environment, **environ}, start_response)
        content = b"".join(answer)
        if hasattr(answer, "close"):
            answer.close()
        return Answer(begun[0], begun[1], content)

    def request(
        self, method: str, path: str, document: Any = None, *, version: str | None = "latest", **headers: str
    ) -> Answer:
        """One request of the bare-metal API; the path is below its prefix."""
        given = {VERSION_HEADER: version} if version else {}
        body = None if document is None else json.dumps(document).encode()
        return self.call(method, f"/baremetal{path}", body, {**given, **headers})

    def send(self, method: str, path: str, document: Any = None) -> Any:
        answer = self.request(method, path, document)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.content!r}"
        return answer.json if answer.content else None

    def enrol(self, count: int = 1, *, state: str = "enroll", **fields: Any) -> list[str]:
        return enrolment.enrol(self.send, count, state=state, **fields)

    def settle(self, node: str, wanted: str | None = None) -> dict[str, Any]:
        return enrolment.settle(self.send, node, wanted=wanted)

    @contextmanager
    def counted(self) -> Iterator[list[str]]:
        """Collects the statements the database is sent meanwhile by this thread: others have their own work."""
        statements: list[str] = []
        thread = threading.get_ident()

        def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if threading.get_ident() == thread:
                statements.append(statement)

        prepared = Prepared._executed

        def note_prepared(statement: Prepared, connection: Any, values: Any) -> Any:
            note(connection, None, str(statement._statement))
            return prepared(statement, connection, values)

        db = self.services.db
        engines = [db.writer, db.reader] if db.is_sqlite else [db.writer]  # PostgreSQL's reader is a view of its writer
        for engine in engines:
            event.listen(engine, "before_cursor_execute", note)
        try:
            # Hot statements go past SQLAlchemy's events.
            with pytest.MonkeyPatch.context() as patching:
                patching.setattr(Prepared, "_executed", note_prepared)
                yield statements
        finally:
            for engine in engines:
                event.remove(engine, "before_cursor_execute", note)


@contextmanager
def running(state_dir: Path, *, database: str | None = None, **settings: Any) -> Iterator[Application]:
    """The application at work. `settings` are options such as `api__max_limit=5`."""
    overrides: dict[tuple[str, str], Any] = {
        ("DEFAULT", "state_dir"): str(state_dir),
        ("database", "connection"): None if database is None or database.startswith("sqlite") else database,
        ("flows", "retry_delay"): 0.0,
    }
    for name, value in settings.items():
        section, _, option = name.rpartition("__")
        overrides[section or "DEFAULT", option] = value
    conf = config.load(environment={}, overrides=overrides)
    db = Database(config.database_url(conf), pool_size=1)
    schema.upgrade(db)
    db.close()
    services = app.build_services(conf)
    services.flows.launch()
    try:
        yield Application(services)
    finally:
        services.flows.close()
        services.db.close()


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Application]:
    """A fresh application on SQLite."""
    with running(tmp_path / "state") as application:
        yield application


@pytest.fixture(scope="module")
def shared_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """One application for all tests of a module that do not mind each other's nodes."""
    with running(tmp_path_factory.mktemp("application")) as application:
        yield application


@pytest.fixture
def either_api(database_url: str, tmp_path: Path) -> Iterator[Application]:
    """A fresh application on each kind of database in turn."""
    with running(tmp_path / "state", database=database_url) as application:
        yield application


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def shared_either_api(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    """One application for all tests of a module, on each kind of database in turn."""
    where = tmp_path_factory.mktemp("application")
    if request.param == "sqlite":
        with running(where) as application:
            yield application
        return
    cluster: Cluster = request.getfixturevalue("postgres_cluster")
    database = cluster.create()
    with running(where, database=cluster.url(database)) as application:
        yield application
    cluster.drop(database)
