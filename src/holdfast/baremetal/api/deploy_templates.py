"""/v1/deploy_templates: the resource table and its handlers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.baremetal import deploy_templates, steps, traits
from holdfast.db import tables
from holdfast.web import lists
from holdfast.web.kinds import IDENT, OBJECT, SECRET_OBJECT, TIME, UUID, Kind, text
from holdfast.web.resources import Field, Resource
from holdfast.web.routes import Reply, Request, Route
from holdfast.web.versions import Version as V

SINCE = V(1, 55)
T = tables.deploy_templates.c


def _check_name(field: str, value: Any) -> str | None:
    given: str | None = text(traits.LONGEST, 1).check(field, value)
    return None if given is None else traits.check(given)


def _check_steps(_field: str, value: Any) -> str:
    return msgspec.json.encode(steps.check_deploy(value)).decode()


# Arguments of steps may hold secrets: shown masked, as other free-form documents are.
STEPS = replace(
    SECRET_OBJECT,
    check=_check_steps,
    schema={"type": "array", "items": {"type": "object"}, "minItems": 1, "maxItems": steps.MOST},
    empty=[],
)
NAME = Kind(_check_name, {"type": "string", "minLength": 1, "maxLength": traits.LONGEST})

TEMPLATE = Resource(
    noun="deploy template",
    key="deploy_templates",
    path="deploy_templates",
    table=tables.deploy_templates,
    fields=[
        Field("uuid", UUID, T.uuid, create=True),
        Field("name", NAME, T.name, create=True, patch=True, required=True),
        Field("steps", STEPS, T.steps, create=True, patch=True, required=True, sort=False),
        Field("extra", OBJECT, T.extra, create=True, patch=True, sort=False),
        Field("created_at", TIME, T.created_at),
        Field("updated_at", TIME, T.updated_at),
    ],
    summary=["uuid", "name"],
    later=[("description", V(1, 112))],
)


def _uuid(request: Request) -> str:
    """The template named in the path by UUID or name."""
    given = IDENT.check("The deploy template identifier", request.path["template"])
    with request.services.db.read() as connection:
        return str(deploy_templates.find(connection, given).uuid)


def index(request: Request) -> Reply:
    return lists.page(request, TEMPLATE)


def show(request: Request) -> Reply:
    uuid = _uuid(request)
    return Reply(document=lists.one(request, TEMPLATE, (T.uuid, uuid), deploy_templates.missing(uuid).public))


def create(request: Request) -> Reply:
    uuid = deploy_templates.create(request.services.db, request.body)
    return Reply(201, _full(request, uuid), headers={"Location": f"{request.base}/v1/deploy_templates/{uuid}"})


def update(request: Request) -> Reply:
    operations = TEMPLATE.check_patch(request.body, request.version)

    def changes(stored: Mapping[str, Any]) -> dict[str, Any]:
        return TEMPLATE.apply_patch(stored, operations)

    uuid = _uuid(request)
    deploy_templates.change(request.services.db, uuid, changes)
    return Reply(document=_full(request, uuid))


def destroy(request: Request) -> Reply:
    deploy_templates.destroy(request.services.db, _uuid(request))
    return Reply(204)


def _full(request: Request, uuid: str) -> msgspec.Raw:
    return lists.show(request, TEMPLATE.full(request.version), (T.uuid, uuid), deploy_templates.missing(uuid).public)


ALL = "/v1/deploy_templates"
ONE = ALL + "/{template}"
RULE = "baremetal:deploy_template:"

ROUTES: list[Route] = [
    Route("GET", ALL, index, RULE + "get", "List deploy templates.", since=SINCE, lists=TEMPLATE),
    Route(
        "POST",
        ALL,
        create,
        RULE + "create",
        "Create a deploy template.",
        since=SINCE,
        older=405,
        success=201,
        body=TEMPLATE,
        shows=TEMPLATE,
    ),
    Route("GET", ONE, show, RULE + "get", "Show a deploy template.", since=SINCE, shows=TEMPLATE),
    Route(
        "PATCH",
        ONE,
        update,
        RULE + "update",
        "Change a deploy template.",
        since=SINCE,
        older=405,
        body=list,
        shows=TEMPLATE,
    ),
    Route("DELETE", ONE, destroy, RULE + "delete", "Delete a deploy template.", since=SINCE, older=405, success=204),
]
