"""/v1/drivers: the enabled hardware types, and vendor passthru of drivers and nodes."""

from __future__ import annotations

import inspect
import socket
from typing import Any

from holdfast import config, errors
from holdfast.baremetal import nodes
from holdfast.baremetal.drivers.base import VendorInterface, VendorMethod
from holdfast.web.kinds import BOOLEAN
from holdfast.web.resources import newer
from holdfast.web.routes import Reply, Request
from holdfast.web.versions import Version as V

INTERFACE_SINCE = {"storage": V(1, 33), "rescue": V(1, 38), "bios": V(1, 40)}


def index(request: Request) -> Reply:
    query = request.query
    for name in ("type", "detail"):
        if name in query and request.version < V(1, 30):
            raise newer(f"The argument {name}", V(1, 30))
    if query.get("type") not in (None, "classic", "dynamic"):
        raise errors.InvalidValue("type must be classic or dynamic.")
    detail = bool(BOOLEAN.check("detail", query.get("detail")))
    names = [] if query.get("type") == "classic" else request.services.drivers.types()
    return Reply(document={"drivers": [_document(request, name, detail) for name in names]})


def show(request: Request) -> Reply:
    return Reply(document=_document(request, _driver(request), detail=True))


def properties(request: Request) -> Reply:
    return Reply(document=request.services.drivers.properties(_driver(request)))


def logical_disk_properties(request: Request) -> Reply:
    drivers, name = request.services.drivers, _driver(request)
    raid: Any = drivers.interface(name, "raid", drivers.defaults(name)["raid"])
    return Reply(document=dict(raid.get_logical_disk_properties()))


def methods(request: Request) -> Reply:
    vendor = _driver_vendor(request)
    return Reply(document={method.name: method.document() for method in vendor.driver_methods})


def call(request: Request) -> Reply:
    vendor = _driver_vendor(request)
    method = _method(request, vendor.driver_methods)
    result = _invoke(vendor, method, request)
    return Reply(202) if method.is_async else Reply(document=result)


def node_methods(request: Request) -> Reply:
    with request.services.db.read() as connection:
        task = nodes.load_task(connection, request.subject.uuid)
    vendor = request.services.drivers.vendor(task)
    return Reply(document={method.name: method.document() for method in vendor.methods})


def node_call(request: Request) -> Reply:
    services = request.services
    with nodes.working(services, request.subject.uuid) as task:
        vendor = services.drivers.vendor(task)
        method = _method(request, vendor.methods)
        vendor.validate(task)
        result = _invoke(vendor, method, request, task)
    return Reply(202) if method.is_async else Reply(document=result)


def _invoke(vendor: VendorInterface, method: VendorMethod, request: Request, *before: Any) -> Any:
    """Calls a vendor method with the body's keys as its arguments."""
    implementation = getattr(vendor, method.name)
    try:
        bound = inspect.signature(implementation).bind(*before, **(request.body or {}))
    except TypeError as error:
        raise errors.BadRequest(f"The vendor method {method.name} does not take that: {error}.") from None
    return implementation(*bound.args, **bound.kwargs)


def _method(request: Request, offered: tuple[VendorMethod, ...]) -> VendorMethod:
    name = request.path.get("method") or request.query.get("method")
    for method in offered:
        if method.name == name:
            if request.method not in method.http_methods:
                raise errors.BadRequest(
                    f"The vendor method {name} takes {', '.join(method.http_methods)}, not {request.method}."
                )
            return method
    known = ", ".join(method.name for method in offered) or "none"
    raise errors.BadRequest(f"There is no vendor method {str(name)[:80]!r}. There are: {known}.")


def _driver(request: Request) -> str:
    name = request.path["driver"]
    if not request.services.drivers.supports(name):
        raise errors.NotFound(f"Driver {name} could not be found.")
    return name


def _driver_vendor(request: Request) -> VendorInterface:
    drivers, name = request.services.drivers, _driver(request)
    vendor = drivers.interface(name, "vendor", drivers.defaults(name)["vendor"])
    assert isinstance(vendor, VendorInterface)  # noqa: S101
    return vendor


def _document(request: Request, name: str, detail: bool) -> dict[str, Any]:
    drivers, version = request.services.drivers, request.version
    path = f"drivers/{name}"
    document: dict[str, Any] = {
        "name": name,
        "hosts": [socket.gethostname()],
        "links": _links(request.base, path),
    }
    if version >= V(1, 14):
        document["properties"] = _links(request.base, f"{path}/properties")
    if version >= V(1, 30):
        document["type"] = "dynamic"
        for kind in config.INTERFACES:
            if version >= INTERFACE_SINCE.get(kind, V(1, 30)):
                document[f"default_{kind}_interface"] = drivers.defaults(name)[kind] if detail else None
                document[f"enabled_{kind}_interfaces"] = drivers.enabled(name, kind) if detail else None
    return document


def _links(base: str, path: str) -> list[dict[str, str]]:
    return [{"href": f"{base}/v1/{path}", "rel": "self"}, {"href": f"{base}/{path}", "rel": "bookmark"}]
