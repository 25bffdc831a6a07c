"""/v1/nodes/<node>/bios: the BIOS settings the service last read from the machine."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from holdfast import errors
from holdfast.db.tables import bios_settings
from holdfast.web.routes import Reply, Request


def index(request: Request) -> Reply:
    return Reply(document={"bios": [_document(request, row) for row in _rows(request)]})


def show(request: Request) -> Reply:
    name = request.path["setting"]
    for row in _rows(request, name):
        return Reply(document={name: _document(request, row)})
    raise errors.NotFound(f"Node {request.subject.uuid} has no BIOS setting {name!r}.")


def _rows(request: Request, name: str | None = None) -> list[Any]:
    statement = select(bios_settings).where(bios_settings.c.node_id == request.subject.id)
    if name is not None:
        statement = statement.where(bios_settings.c.name == name)
    with request.services.db.read() as connection:
        return list(connection.execute(statement.order_by(bios_settings.c.name)).all())


def _document(request: Request, row: Any) -> dict[str, Any]:
    path = f"nodes/{request.subject.uuid}/bios/{row.name}"
    return {
        "name": row.name,
        "value": row.value,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "links": [
            {"href": f"{request.base}/v1/{path}", "rel": "self"},
            {"href": f"{request.base}/{path}", "rel": "bookmark"},
        ],
    }
