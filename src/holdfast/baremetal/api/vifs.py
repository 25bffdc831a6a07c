"""/v1/nodes/<node>/vifs: the VIFs of a node (spec 003)."""

from __future__ import annotations

from holdfast import errors
from holdfast.baremetal import vifs
from holdfast.baremetal.api.nodes import subject
from holdfast.web.kinds import IDENT, UUID, is_uuid
from holdfast.web.routes import Reply, Request, Route
from holdfast.web.versions import Version as V

# Where a client may want a VIF; before 1.67 handed on like any other key.
PLACES = ("port_uuid", "portgroup_uuid")


def index(request: Request) -> Reply:
    return Reply(document={"vifs": vifs.vif_list(request.services, request.subject.uuid)})


def attach(request: Request) -> Reply:
    vif = {**request.body, "id": IDENT.check("id", request.body.get("id"))}
    for name in PLACES:
        if vif.get(name) is not None and request.version >= V(1, 67):
            vif[name] = UUID.check(name, vif[name])
    if all(vif.get(name) is not None for name in PLACES):
        raise errors.BadRequest(f"{' and '.join(PLACES)} exclude each other.")
    vifs.vif_attach(request.services, request.subject.uuid, vif, request.id)
    return Reply(204)


def detach(request: Request) -> Reply:
    given = request.path["vif"]
    # Whatever else it is, it is not attached, which is what Nova wants to be told.
    vif_id = IDENT.check("id", given) if is_uuid(given) else given
    vifs.vif_detach(request.services, request.subject.uuid, vif_id, request.id)
    return Reply(204)


VIFS = "/v1/nodes/{node}/vifs"

ROUTES: list[Route] = [
    Route(
        "GET",
        VIFS,
        index,
        "baremetal:node:vif:list",
        "List the VIFs of a node.",
        since=V(1, 28),
        subject=subject("baremetal:node:vif:list"),
    ),
    Route(
        "POST",
        VIFS,
        attach,
        "baremetal:node:vif:attach",
        "Attach a VIF to a node.",
        since=V(1, 28),
        success=204,
        body=dict,
        subject=subject("baremetal:node:vif:attach"),
    ),
    Route(
        "DELETE",
        VIFS + "/{vif}",
        detach,
        "baremetal:node:vif:detach",
        "Detach a VIF from a node.",
        since=V(1, 28),
        success=204,
        subject=subject("baremetal:node:vif:detach"),
    ),
]
