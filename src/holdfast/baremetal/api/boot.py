"""/boot: what machines fetch while they boot over the network. Public, in plain text; see `netboot.py`."""

from __future__ import annotations

from holdfast.baremetal import netboot
from holdfast.baremetal.api.ramdisk import limited
from holdfast.baremetal.drivers import ipxe_script
from holdfast.web import health
from holdfast.web.kinds import text
from holdfast.web.routes import Api, Param, Reply, Request, Route

TEXT = "text/plain; charset=us-ascii"
# A script holds what is true now, and may hold a secret.
UNSTORED = {"Cache-Control": "no-store"}


def first(_request: Request) -> Reply:
    return _plain(ipxe_script.first_script())


def script(request: Request) -> Reply:
    return _plain(netboot.script(request.services, request.path["mac"], request.remote))


def failed(request: Request) -> Reply:
    netboot.report(request.services, request.path["mac"], request.remote, request.query.get("failure", ""))
    return _plain("noted\n")


def leased(request: Request) -> Reply:
    netboot.note_lease(request.services, request.path["mac"], request.remote)
    return Reply(204)


def _plain(content: str) -> Reply:
    return Reply(content=content.encode("ascii"), content_type=TEXT, headers=UNSTORED)


ROUTES = [
    Route("GET", "/boot.ipxe", first, None, "The script every machine fetches first.", produces=TEXT),
    Route("GET", "/ipxe/{mac}", limited(script), None, "What the machine with this network card boots.", produces=TEXT),
    Route(
        "GET",
        "/ipxe/{mac}/failed",
        limited(failed),
        None,
        "A machine tells that it could not boot. iPXE can only GET.",
        query=[Param("failure", text(32))],
        produces=TEXT,
    ),
    Route(
        "POST",
        "/dhcp/{mac}",
        limited(leased),
        None,
        "A DHCP server tells that it has lent this network card an address.",
        success=204,
    ),
]

API = Api("boot", "/boot", ROUTES, None, health.error_body)
