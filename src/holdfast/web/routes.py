"""What a route table is made of: the route, the request a handler gets, the reply it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.web.kinds import Kind
from holdfast.web.versions import Negotiation, Version

if TYPE_CHECKING:
    from holdfast.services import Services
    from holdfast.web.auth import Caller
    from holdfast.web.resources import Resource

V1_1 = Version(1, 1)
JSON = "application/json"


@dataclass
class Request:
    """One request, negotiated, authenticated, its body parsed and checked."""

    services: Services
    caller: Caller
    version: Version
    base: str  # URL prefix of this API, for links
    id: str
    method: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None
    subject: Any = None  # what `Route.subject` loaded
    remote: str = ""


@dataclass
class Reply:
    """What goes back: bytes already encoded, or a document to encode, or a file to send, or nothing."""

    status: int = 200
    document: Any = None
    content: bytes | None = None
    file: Path | None = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = JSON

    def bytes(self) -> bytes:
        if self.content is not None:
            return self.content
        return b"" if self.document is None else msgspec.json.encode(self.document)


Handler = Callable[[Request], Reply]
SubjectLoader = Callable[[Request], Any]


@dataclass(frozen=True)
class Param:
    """A query argument."""

    name: str
    kind: Kind
    since: Version = V1_1
    about: str = ""


@dataclass(frozen=True)
class Route:
    """One row of a route table. `policy` None means public."""

    method: str
    path: str
    handler: Handler
    policy: str | None
    about: str
    since: Version = V1_1
    older: int = 404  # what a request in an older version gets
    success: int = 200
    body: type[msgspec.Struct] | Resource | type[list] | type[dict] | None = None  # type: ignore[type-arg]
    optional_body: bool = False
    query: Sequence[Param] = ()
    any_query: bool = False
    lists: Resource | None = None  # the route answers a page of these
    shows: Resource | None = None  # or one of these
    subject: SubjectLoader | None = None
    body_limit: str = "max_json_body_size"
    produces: str = JSON


@dataclass(frozen=True)
class Api:
    """One of the service's HTTP APIs: where it is mounted, how it negotiates, what it serves."""

    name: str
    prefix: str
    routes: Sequence[Route]
    negotiation: Negotiation | None
    error_body: Callable[[Any], Any]
    # Paths may leave this first element out, as Ironic's bookmark links do.
    implied: str = ""
    # What versions this service does not speak yet will serve: the end of a path, and the version.
    later: Sequence[tuple[str, Version]] = ()
