"""The OpenAPI 3.1 document, generated from the route and resource tables: what they say is what it says.

`x-holdfast-since` names the microversion that brought a path, an argument or a field; what belongs to a
version that is not advertised yet is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from holdfast import __version__
from holdfast.web import patch
from holdfast.web.resources import Field, Resource
from holdfast.web.routes import JSON, Api, Route
from holdfast.web.versions import Version

Json = dict[str, Any]

SINCE = "x-holdfast-since"
_PARAM = re.compile(r"\{(\w+)\}")

LINKS: Json = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"href": {"type": "string"}, "rel": {"type": "string"}},
        "required": ["href", "rel"],
    },
}
PAGING: Mapping[str, tuple[Json, str]] = {
    "limit": ({"type": "integer", "minimum": 1}, "Most items in one page; the service has a limit of its own."),
    "marker": ({"type": "string"}, "The last item of the page before."),
    "sort_key": ({"type": "string"}, "The field to sort by; the order of creation without it."),
    "sort_dir": ({"enum": ["asc", "desc"]}, "The direction to sort in."),
    "fields": ({"type": "string"}, "Names of the fields to show, with commas."),
    "detail": ({"type": "boolean"}, "Show all fields. Excludes `fields`."),
}
# What may go wrong on any route; the rest is told by the route's table.
ERRORS = {
    400: "Something in the request is wrong; the text says what.",
    401: "Credentials are missing or wrong.",
    403: "The caller may not do this.",
    404: "There is no such thing, or not in this version.",
    405: "The method is not offered in this version.",
    406: "The version, or the form of the answer, is not offered.",
    409: "The state of things forbids it now: a lock, a duplicate, a transition under way.",
    413: "The body is too large.",
    503: "The service cannot do it at the moment; try again.",
}
PATCH: Json = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "op": {"enum": list(patch.OPERATIONS)},
            "path": {"type": "string", "pattern": "^(/[A-Za-z0-9_-]+)+$", "maxLength": 1024},
            "value": {},
        },
        "required": ["op", "path"],
        "additionalProperties": False,
    },
}


def document(apis: Sequence[Api]) -> Json:
    """All APIs in one document; plain data, ready to encode."""
    served = [(api, [route for route in api.routes if _is_spoken(api, route.since)]) for api in apis]
    structs = sorted({r.body for _, routes in served for r in routes if _is_struct(r.body)}, key=_struct_name)
    references, schemas = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    bodies = dict(zip(structs, references, strict=True))
    paths: dict[str, Json] = {}
    for api, routes in served:
        schemas |= {_error_name(api): _error_schema(api)}
        for route in routes:
            for resource in (route.body, route.shows, route.lists):
                if isinstance(resource, Resource):
                    schemas |= _resource_schemas(api, resource)
            operations = paths.setdefault(api.prefix + route.path or "/", {})
            operations[route.method.lower()] = _operation(api, route, bodies)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "Attaches volumes, networks and agents to machines, and never loses one.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [_tag(api) for api in apis],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "parameters": {_version_name(api): _version_parameter(api) for api in apis if api.negotiation},
            "responses": {_error_name(api, status): _error(api, status) for api in apis for status in ERRORS},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
            },
        },
        # Without authentication, with a password, with a token: the operator chooses.
        "security": [{}, {"basic": []}, {"token": []}],
    }


def _tag(api: Api) -> Json:
    tag: Json = {"name": api.name}
    if api.negotiation:
        tag["x-holdfast-versions"] = {"min": str(api.negotiation.minimum), "max": str(api.negotiation.maximum)}
    return tag


def _operation(api: Api, route: Route, bodies: Mapping[Any, Json]) -> Json:
    operation: Json = {
        "operationId": _identifier(api, route),
        "summary": route.about,
        "tags": [api.name],
        "parameters": [*_parameters(api, route)],
        "responses": _responses(api, route),
    }
    if route.body is not None:
        schema = bodies[route.body] if _is_struct(route.body) else _body_schema(route)
        operation["requestBody"] = {"required": not route.optional_body, "content": {JSON: {"schema": schema}}}
    if route.policy is None:
        operation["security"] = []
    else:
        operation["x-holdfast-policy"] = route.policy
    if api.negotiation and route.since > api.negotiation.minimum:
        operation[SINCE] = str(route.since)
    return operation


def _identifier(api: Api, route: Route) -> str:
    words = re.sub(r"[^A-Za-z0-9]+", "_", _PARAM.sub(r"by_\1", route.path)).strip("_")
    return "_".join(filter(None, (api.name, route.method.lower(), words)))


# -- what is sent


def _parameters(api: Api, route: Route) -> Iterable[Json]:
    if api.negotiation:
        yield {"$ref": f"#/components/parameters/{_version_name(api)}"}
    for name in _PARAM.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    for param in route.query:
        if _is_spoken(api, param.since):
            yield _argument(api, param.name, _plain(param.kind.schema), param.about, param.since)
    if route.lists is not None:
        for name, (schema, about) in PAGING.items():
            since = {"fields": route.lists.fields_since, "detail": route.lists.detail_since}.get(name)
            if since is None or _is_spoken(api, since):
                yield _argument(api, name, schema, about, since)
        for entry in route.lists.filters:
            if _is_spoken(api, entry.since):
                yield _argument(api, entry.name, _plain(entry.kind.schema), entry.about, entry.since)
    elif route.shows is not None and route.method == "GET":
        yield _argument(api, "fields", *PAGING["fields"], route.shows.fields_since)


def _argument(api: Api, name: str, schema: Json, about: str, since: Version | None) -> Json:
    argument: Json = {"name": name, "in": "query", "schema": schema}
    if about:
        argument["description"] = about
    return argument | _since(api, since)


def _body_schema(route: Route) -> Json:
    if isinstance(route.body, Resource):
        return _reference(f"{_name(route.body)}Create")
    if route.body is list:
        return _reference(f"{_name(route.shows)}Patch") if route.shows else PATCH
    return {"type": "object"}


def _version_name(api: Api) -> str:
    return f"{api.name}Version"


def _version_parameter(api: Api) -> Json:
    assert api.negotiation  # noqa: S101
    return {
        "name": api.negotiation.header,
        "in": "header",
        "description": f"The microversion of the request: {api.negotiation.minimum} (also without this header) "
        f"to {api.negotiation.maximum}, or `latest`.",
        "schema": {"type": "string", "pattern": r"^(latest|[0-9]+\.[0-9]+)$", "default": "latest"},
    }


# -- what is answered


def _responses(api: Api, route: Route) -> Json:
    possible = set(ERRORS) - {405}
    if route.policy is None:
        possible -= {401, 403}
    if api.negotiation and route.since > api.negotiation.minimum:
        possible.add(route.older)
    failures = {
        str(status): {"$ref": f"#/components/responses/{_error_name(api, status)}"} for status in sorted(possible)
    }
    return {str(route.success): _success(route)} | failures


def _success(route: Route) -> Json:
    response: Json = {"description": HTTPStatus(route.success).phrase}
    if route.success in (202, 204):
        return response
    schema: Json = {}
    if route.lists is not None:
        whole, brief = _reference(_name(route.lists)), _reference(f"{_name(route.lists)}Summary")
        items = {"type": "array", "items": {"anyOf": [brief, whole]}}
        properties = {route.lists.key: items, "next": {"type": "string", "format": "uri"}}
        schema = {"type": "object", "properties": properties, "required": [route.lists.key]}
    elif route.shows is not None:
        schema = _reference(_name(route.shows))
    response["content"] = {route.produces: {"schema": schema}}
    return response


def _error_name(api: Api, status: int | str = "Error") -> str:
    return f"{api.name.capitalize()}{status}"


def _error(api: Api, status: int) -> Json:
    return {"description": ERRORS[status], "content": {JSON: {"schema": _reference(_error_name(api))}}}


def _error_schema(api: Api) -> Json:
    if api.negotiation:
        about = "A JSON document inside a string: `faultstring` (or `description`) is for the reader."
        properties: Json = {"error_message": {"type": "string", "description": about}, "code": {"type": "string"}}
        # What the door refuses (401, 403) has the form of the others.
        return {
            "anyOf": [_object(properties, ["error_message", "code"]), _object({"error": {"type": "object"}}, ["error"])]
        }
    inner = _object({"code": {"type": ["string", "integer"]}, "message": {"type": "string"}}, ["code", "message"])
    return _object({"error": inner}, ["error"])


# -- resources


def _resource_schemas(api: Api, resource: Resource) -> Json:
    """The resource as it is shown, in lists and alone, and as it is created and changed."""
    name = _name(resource)
    shown = [field for field in resource.fields if not field.write_only and _is_spoken(api, field.since)]
    links = {link.name: LINKS | _since(api, link.since) for link in resource.links if _is_spoken(api, link.since)}
    properties = {field.name: _field(api, field) for field in shown} | {"links": LINKS} | links
    brief = {n: s for n, s in properties.items() if n == "links" or n in resource.summary}
    created = [field for field in resource.fields if field.create and _is_spoken(api, field.since)]
    required = [field.name for field in created if field.required]
    patchable = [field for field in resource.fields if field.patch and _is_spoken(api, field.since)]
    schemas = {name: _object(properties, []), f"{name}Summary": _object(brief, [])}
    if created:
        fields = {field.name: _field(api, field) for field in created}
        schemas[f"{name}Create"] = _object(fields, required, closed=True)
    if patchable:
        about = f"Attributes that can be patched: {', '.join(field.name for field in patchable)}."
        schemas[f"{name}Patch"] = {"description": about, **PATCH}
    return schemas


def _field(api: Api, field: Field) -> Json:
    return dict(field.kind.schema) | _since(api, field.since)


def _name(resource: Resource) -> str:
    return "".join(word.capitalize() for word in resource.noun.split())


def _object(properties: Json, required: list[str], *, closed: bool = False) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if closed:
        schema["additionalProperties"] = False
    return schema


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _plain(schema: Mapping[str, Any]) -> Json:
    """A kind's schema for an argument, which is never null."""
    plain = dict(schema)
    if isinstance(plain.get("type"), list):
        plain["type"] = plain["type"][0]
    return plain


def _since(api: Api, since: Version | None) -> Json:
    if since is None or api.negotiation is None or since <= api.negotiation.minimum:
        return {}
    return {SINCE: str(since)}


def _is_spoken(api: Api, since: Version) -> bool:
    return api.negotiation is None or since <= api.negotiation.maximum


def _struct_name(struct: Any) -> str:
    return str(struct.__name__)


def _is_struct(body: Any) -> bool:
    return isinstance(body, type) and issubclass(body, msgspec.Struct)
