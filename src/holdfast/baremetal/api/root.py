"""The version documents of the bare-metal API: what clients read first."""

from __future__ import annotations

from typing import Any

from holdfast.baremetal.versions import MAXIMUM, MINIMUM
from holdfast.web.routes import Reply, Request
from holdfast.web.versions import Version as V

# name of a collection: the version it appeared in
COLLECTIONS = {
    "chassis": V(1, 1),
    "nodes": V(1, 1),
    "ports": V(1, 1),
    "drivers": V(1, 1),
    "lookup": V(1, 22),
    "heartbeat": V(1, 22),
    "portgroups": V(1, 23),
    "volume": V(1, 32),
    "conductors": V(1, 49),
    "allocations": V(1, 52),
    "events": V(1, 54),
    "deploy_templates": V(1, 55),
}


def versions(request: Request) -> Reply:
    document = _version(request.base)
    return Reply(
        document={
            "name": "OpenStack Ironic API",
            "description": "The bare-metal API of Holdfast, compatible with Ironic's.",
            "default_version": document,
            "versions": [document],
        }
    )


def v1(request: Request) -> Reply:
    document: dict[str, Any] = {
        "id": "v1",
        "links": [{"href": f"{request.base}/v1/", "rel": "self"}],
        "media_types": {"base": "application/json", "type": "application/vnd.openstack.ironic.v1+json"},
        "version": _version(request.base),
    }
    for name, since in COLLECTIONS.items():
        if request.version >= since:
            document[name] = links(request.base, name)
    return Reply(document=document)


def links(base: str, path: str) -> list[dict[str, str]]:
    return [
        {"href": f"{base}/v1/{path}/", "rel": "self"},
        {"href": f"{base}/{path}/", "rel": "bookmark"},
    ]


def _version(base: str) -> dict[str, Any]:
    return {
        "id": "v1",
        "links": [{"href": f"{base}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "min_version": str(MINIMUM),
        "version": str(MAXIMUM),
    }
