"""What is not one of the compatible APIs: the index, liveness, readiness, metrics, and the identity
version document that openstackclient insists on even when nobody asks for a token."""

from __future__ import annotations

from functools import cache

import msgspec
from sqlalchemy import text

from holdfast import __version__, errors
from holdfast.web import metrics, openapi, status
from holdfast.web.routes import Api, Reply, Request, Route

METRICS = "text/plain; version=0.0.4; charset=utf-8"


def index(request: Request) -> Reply:
    return Reply(
        document={
            "name": "Holdfast",
            "version": __version__,
            "apis": {"baremetal": f"{request.base}/baremetal", "identity": f"{request.base}/identity/v3"},
            "flows": f"{request.base}/flows",
            "openapi": f"{request.base}/openapi.json",
        }
    )


def alive(_request: Request) -> Reply:
    return Reply(document={"status": "ok"})


def ready(request: Request) -> Reply:
    """The database answers and is writable, and the flow engine runs."""
    services = request.services
    with services.db.write() as connection:
        connection.execute(text("SELECT 1"))
    if not services.flows.is_running:
        raise errors.Unavailable("The flow engine is not running.")
    return Reply(document={"status": "ok"})


def prometheus(_request: Request) -> Reply:
    return Reply(content=metrics.exposition(), content_type=METRICS)


def openapi_document(_request: Request) -> Reply:
    return Reply(content=_openapi())


@cache
def _openapi() -> bytes:
    # This API is part of what it describes, so the application, which knows all of them, imports it first.
    from holdfast.app import APIS

    return msgspec.json.encode(openapi.document(APIS))


def identity(request: Request) -> Reply:
    version = {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{request.base}/identity/v3/"}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }
    if request.path:
        return Reply(document={"version": version})
    return Reply(300, document={"versions": {"values": [version]}})


def error_body(error: errors.HoldfastError) -> dict[str, object]:
    return {"error": {"code": error.code, "message": error.public}}


ROUTES = [
    Route("GET", "/", index, None, "What this service offers."),
    Route("GET", "/healthz", alive, None, "The process lives."),
    Route("GET", "/readyz", ready, None, "The service can do its work."),
    Route("GET", "/metrics", prometheus, None, "Metrics in Prometheus' text format.", produces=METRICS),
    Route("GET", "/openapi.json", openapi_document, None, "This document: the OpenAPI description of every API."),
    status.ROUTE,
    Route("GET", "/identity", identity, None, "The identity versions.", success=300),
    Route("GET", "/identity/{version}", identity, None, "The identity version."),
]

API = Api("holdfast", "", ROUTES, None, error_body)
