"""/v1/volume and /v1/nodes/<node>/volume: where the volume connectors and targets are (spec 000)."""

from __future__ import annotations

from holdfast.baremetal.api.nodes import scope, subject
from holdfast.web.routes import Reply, Request, Route
from holdfast.web.versions import Version as V

SINCE = V(1, 32)


def root(request: Request) -> Reply:
    return Reply(document=_document(request.base, "volume"))


def of_node(request: Request) -> Reply:
    return Reply(document=_document(request.base, f"nodes/{request.path['node']}/volume"))


def _document(base: str, path: str) -> dict[str, list[dict[str, str]]]:
    return {
        "links": _links(base, f"{path}/"),
        "connectors": _links(base, f"{path}/connectors"),
        "targets": _links(base, f"{path}/targets"),
    }


def _links(base: str, path: str) -> list[dict[str, str]]:
    return [{"href": f"{base}/v1/{path}", "rel": "self"}, {"href": f"{base}/{path}", "rel": "bookmark"}]


ROUTES: list[Route] = [
    Route(
        "GET",
        "/v1/volume",
        root,
        "baremetal:volume:list_all",
        "Show where volume connectors and targets are.",
        since=SINCE,
        older=406,
        subject=scope("volume"),
    ),
    Route(
        "GET",
        "/v1/nodes/{node}/volume",
        of_node,
        "baremetal:volume:get",
        "Show where a node's volume connectors and targets are.",
        since=SINCE,
        older=406,
        subject=subject("baremetal:volume:get"),
    ),
]
