"""The HTTP edge: from a WSGI request to a handler's arguments, and from its reply or error to the wire.

Order of work for every route: version, credentials (done by `auth.wrap` before), arguments, body,
subject, policy, handler. Whatever goes wrong leaves in the API's own error format; nothing else in
the code base knows HTTP status lines.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import falcon
import msgspec
from sqlalchemy.exc import DBAPIError, OperationalError

from holdfast import errors, secrets
from holdfast.services import Services
from holdfast.web import body, metrics
from holdfast.web.auth import ANONYMOUS
from holdfast.web.lists import PAGING
from holdfast.web.resources import Resource
from holdfast.web.routes import JSON, Api, Reply, Request, Route
from holdfast.web.versions import Negotiation, Version, negotiate

LOG = logging.getLogger("holdfast.api")


def build(services: Services, apis: Sequence[Api]) -> falcon.App[falcon.Request, falcon.Response]:
    """The WSGI application that serves these APIs on one port."""
    app: falcon.App[falcon.Request, falcon.Response] = falcon.App(
        middleware=[_Paths(apis)], media_type=JSON, sink_before_static_route=False
    )
    # An answer without a body has no content type: ironicclient tries to decode what claims to be JSON.
    app.resp_options.default_media_type = None  # type: ignore[assignment]
    app.req_options.strip_url_path_trailing_slash = True
    app.req_options.auto_parse_form_urlencoded = False
    for api in apis:
        by_path: dict[str, dict[str, Route]] = {}
        for route in api.routes:
            by_path.setdefault(route.path, {})[route.method] = route
        for path, methods in by_path.items():
            app.add_route(api.prefix + path or "/", _resource(services, api, methods))
    # Falcon has a handler of its own for its own errors; both kinds leave in the API's format.
    app.add_error_handler(falcon.HTTPError, _unrouted(apis))
    app.add_error_handler(Exception, _unrouted(apis))
    return app


def public_paths(apis: Sequence[Api]) -> Callable[[str], bool]:
    """Tells whether a path is served without credentials: those whose every route has no policy."""
    patterns = []
    for api in apis:
        guarded = {route.path for route in api.routes if route.policy is not None}
        for path in {route.path for route in api.routes} - guarded:
            template = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(api.prefix + path))
            patterns.append(template or "/")
            if api.implied and path.startswith(api.implied + "/"):
                patterns.append(template.replace(re.escape(api.implied), "", 1))
    matcher = re.compile(f"(?:{'|'.join(patterns)})/?")
    return lambda path: matcher.fullmatch(path) is not None


class _Paths:
    """Lets clients leave out the version element of a path, as Ironic's bookmark links do."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self._implied = [(api.prefix + "/", api.implied) for api in apis if api.implied]

    def process_request(self, req: falcon.Request, _resp: falcon.Response) -> None:
        for prefix, implied in self._implied:
            rest = req.path.removeprefix(prefix)
            if rest and rest != req.path and f"/{rest}/".find(implied + "/") != 0:
                req.path = prefix.rstrip("/") + implied + "/" + rest


def _request_id() -> str:
    """A UUID behind `req-`, without the object that the standard library makes of one."""
    digits = os.urandom(16).hex()
    return f"req-{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def _resource(services: Services, api: Api, methods: dict[str, Route]) -> Any:
    """A Falcon resource whose responders interpret the routes of one path."""
    responders = {
        f"on_{method.lower()}": staticmethod(_responder(services, api, route)) for method, route in methods.items()
    }
    if "on_get" in responders:
        responders.setdefault("on_head", responders["on_get"])
    responders["on_options"] = staticmethod(_options(api, sorted(name[3:].upper() for name in responders)))
    return type("Routes", (), responders)()


def _options(api: Api, methods: Sequence[str]) -> Callable[..., None]:
    def respond(req: falcon.Request, resp: falcon.Response, **_path: str) -> None:
        _send(api, req, resp, Reply(200, headers={"Allow": ", ".join(methods)}), _request_id())

    return respond


def _responder(services: Services, api: Api, route: Route) -> Callable[..., None]:
    known = {param.name for param in route.query}
    if route.lists is not None:
        known |= {*PAGING, *(entry.name for entry in route.lists.filters)}
    if route.shows is not None and route.method == "GET":
        known.add("fields")
    # Looking them up by their labels for each request would take longer than counting.
    counted: dict[int, Any] = {}

    def respond(req: falcon.Request, resp: falcon.Response, **path: str) -> None:
        started = time.perf_counter()
        request_id = _request_id()
        try:
            reply = _serve(services, api, route, known, req, path, request_id)
        except Exception as error:
            reply = _failure(api, error, request_id)
        _send(api, req, resp, reply, request_id)
        seconds = time.perf_counter() - started
        if reply.status not in counted:
            labels = (api.prefix + route.path, route.method, str(reply.status))
            counted[reply.status] = metrics.REQUESTS.labels(*labels)
        counted[reply.status].observe(seconds)
        LOG.debug("%s %s %s %.1f ms [%s]", route.method, req.path, reply.status, seconds * 1000, request_id)

    return respond


def _serve(
    services: Services,
    api: Api,
    route: Route,
    known: Iterable[str],
    req: falcon.Request,
    path: dict[str, str],
    request_id: str,
) -> Reply:
    version = route.since
    if api.negotiation is not None:
        version = negotiate(
            api.negotiation,
            req.get_header(api.negotiation.header),
            req.get_header("OpenStack-API-Version"),
        )
        req.context.version = version
        if version < route.since:
            raise _too_old(route)
    if JSON not in (req.accept or JSON) and not req.client_accepts_json:
        raise errors.NotAcceptable("This service speaks JSON only.")
    query = _query(req.query_string)
    unknown = [] if route.any_query else sorted(query.keys() - known)
    if unknown:
        if route.lists is not None:
            route.lists.require_spoken("Filtering by", *unknown)
        raise errors.UnknownArgument(f"Unknown argument: {', '.join(unknown)[:200]}.")
    if "\x00" in req.path or "%00" in req.query_string:
        raise errors.BadRequest("NUL characters are not allowed.")
    request = Request(
        services=services,
        caller=req.env.get("holdfast.caller", ANONYMOUS),
        version=version,
        base=_base_url(services, req) + api.prefix,
        id=request_id,
        method=req.method,
        path=path,
        query=query,
        remote=req.remote_addr,
    )
    if route.subject is not None:
        request.subject = route.subject(request)
    elif route.policy is not None:
        services.policy.authorize(route.policy, request.caller)
    request.body = _body(services, route, req, request)
    return route.handler(request)


def _base_url(services: Services, req: falcon.Request) -> str:
    """What links start with: the configured URL, or the one the client used."""
    conf = services.conf.api
    public, host = conf.public_endpoint, req.env.get("HTTP_HOST")
    if public is None and host:
        return f"{req.scheme}://{host}"
    return str(public or f"{req.scheme}://{conf.host}:{conf.port}").rstrip("/")


def _query(text: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=200))
    except ValueError:
        raise errors.BadRequest("There are too many arguments in the query.") from None


def _too_old(route: Route) -> errors.HoldfastError:
    if route.older == 405:
        return errors.MethodNotAllowed(f"{route.method} needs API version {route.since} or later here.")
    if route.older == 406:
        return errors.NewerVersionNeeded(f"{route.path} needs API version {route.since} or later.")
    return errors.NotFound("The resource could not be found.")


def _body(services: Services, route: Route, req: falcon.Request, request: Request) -> Any:
    # A chunked body has no length beforehand: Falcon's bounded stream takes it for an empty one.
    chunked = "chunked" in (req.get_header("Transfer-Encoding") or "").lower()
    if route.body is None and not chunked and not req.content_length:
        return None
    conf = services.conf.api
    length, stream = (None, req.stream) if chunked else (req.content_length, req.bounded_stream)
    content = body.read(stream, length, conf[route.body_limit] * 1024)
    if route.body is None:
        if content.strip() not in (b"", b"{}", b"null"):
            raise errors.BadRequest("This request takes no body.")
        return None
    if not content.strip():
        if route.optional_body:
            return None
        raise errors.BadRequest("This request needs a JSON body.")
    if "json" not in (req.content_type or JSON):
        raise errors.BadRequest(f"The body must be JSON ({JSON}), not {str(req.content_type)[:80]}.")
    document = body.parse(content, conf.max_json_body_depth, conf.max_json_body_keys)
    if isinstance(route.body, Resource):
        return route.body.parse_create(document, request.version)
    if route.body in (list, dict):
        if not isinstance(document, route.body):
            shape = "array" if route.body is list else "object"
            raise errors.InvalidValue(f"The request body must be a JSON {shape}.")
        return document
    try:
        return msgspec.convert(document, route.body)
    except msgspec.ValidationError as error:
        raise errors.InvalidValue(f"The request body is not right: {error}.") from None


def _failure(api: Api, error: Exception, request_id: str) -> Reply:
    if isinstance(error, falcon.HTTPError):  # what it finds wrong with a header, on first use
        error = _from_falcon(error)
    if isinstance(error, OperationalError) or (isinstance(error, DBAPIError) and error.connection_invalidated):
        LOG.error("The database did not answer [%s]: %s", request_id, secrets.mask_text(str(error.orig)))
        error = errors.Unavailable("The database does not answer right now. Try again in a moment.")
    elif not isinstance(error, errors.HoldfastError):
        LOG.exception("Unexpected error [%s]", request_id)
        error = errors.HoldfastError(
            f"An unexpected error occurred. The log of the service has the details under {request_id}."
        )
    headers = {"Retry-After": "1"} if error.status == 503 else {}
    return Reply(status=error.status, document=api.error_body(error), headers=headers)


def _send(api: Api, req: falcon.Request, resp: falcon.Response, reply: Reply, request_id: str) -> None:
    resp.status = reply.status
    content = reply.bytes()
    if reply.file is not None:
        resp.set_stream(_chunks(reply.file), reply.file.stat().st_size)
    else:
        resp.data = content
    if content or reply.file is not None:
        resp.content_type = reply.content_type
    for name, value in {**version_headers(api, req), **reply.headers}.items():
        resp.set_header(name, value)
    resp.set_header("Openstack-Request-Id", request_id)
    resp.set_header("X-Openstack-Request-Id", request_id)


def _chunks(path: Path) -> Iterator[bytes]:
    """In larger pieces than Falcon's own: images have gigabytes."""
    with path.open("rb") as file:
        while chunk := file.read(262144):
            yield chunk


def version_headers(api: Api, req: falcon.Request) -> dict[str, str]:
    """The range on every answer, the effective version where one was agreed on."""
    if api.negotiation is None:
        return {}
    return _version_headers(api.negotiation, getattr(req.context, "version", None))


@lru_cache(maxsize=256)
def _version_headers(agreed: Negotiation, version: Version | None) -> dict[str, str]:
    headers = {
        f"{agreed.header.removesuffix('-Version')}-Minimum-Version": str(agreed.minimum),
        f"{agreed.header.removesuffix('-Version')}-Maximum-Version": str(agreed.maximum),
        "Vary": agreed.header,
    }
    if version is not None:
        headers[agreed.header] = str(version)
    return headers


def _unrouted(apis: Sequence[Api]) -> Callable[..., None]:
    """Answers what never reached a route (unknown path, method not offered) in the API's format."""

    def handle(req: falcon.Request, resp: falcon.Response, error: Exception, _params: Any) -> None:
        api = next((api for api in apis if api.prefix and f"{req.path}/".startswith(api.prefix + "/")), apis[-1])
        request_id = _request_id()
        headers: dict[str, str] = {}
        if isinstance(error, falcon.HTTPError):
            headers = dict(error.headers or {})
            for path, since in api.later:
                if error.status_code == 404 and req.path.rstrip("/").endswith(path):
                    error = errors.NotFound(f"{path} needs API version {since}, which this service does not speak yet.")
                    break
        reply = _failure(api, error, request_id)
        reply.headers.update(headers)
        _send(api, req, resp, reply, request_id)

    return handle


def _from_falcon(error: falcon.HTTPError) -> errors.HoldfastError:
    status = error.status_code
    if status == 405:
        return errors.MethodNotAllowed("The method is not offered here.")
    if status == 404:
        return errors.NotFound("The resource could not be found.")
    if status == 413:
        return errors.TooLarge("The request body is too large.")
    return errors.BadRequest(error.description or HTTPStatus(status).phrase)
