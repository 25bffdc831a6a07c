"""/images: what agents write to the disks of their machines, when the image is a file of ours."""

from __future__ import annotations

from holdfast.baremetal import image_files
from holdfast.web import health
from holdfast.web.routes import Api, Reply, Request, Route


def show(request: Request) -> Reply:
    path = image_files.find(request.services, request.path["node"], request.path["secret"])
    return Reply(file=path, content_type="application/octet-stream", headers={"Cache-Control": "no-store"})


ROUTES = [Route("GET", "/{node}/{secret}", show, None, "The image that goes onto a node.")]

API = Api("images", "/images", ROUTES, None, health.error_body)
