"""Who is calling.

`wrap` stands in front of the application and puts a `Caller` into every request's environment:

    noauth      everybody is the administrator; for a service on loopback only
    http_basic  users of an htpasswd file (bcrypt only); each of them is an administrator
    keystone    tokens, checked by keystonemiddleware; roles and scope decide (`web/policy.py`)

Public paths need no credentials in any mode. What a client says about its own identity (X-Roles
and the like) is removed before anything else looks at the request. Where no token is asked for, a
browser must not lend its owner's rights to a web page: see `_Strangers`.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from oslo_config import cfg

from holdfast.web import htpasswd

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LOG = logging.getLogger(__name__)

CALLER = "holdfast.caller"
"""Where in a request's environment the caller is found."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One authenticated (or anonymous) caller. `is_admin` means every rule but those that show secrets."""

    user_id: str | None = None
    user_name: str | None = None
    project_id: str | None = None
    project_name: str | None = None
    project_domain_id: str | None = None
    domain_id: str | None = None
    roles: frozenset[str] = frozenset()
    system_scope: str | None = None
    is_admin: bool = False


ADMIN = Caller(user_id="admin", user_name="admin", roles=frozenset({"admin"}), system_scope="all", is_admin=True)
ANONYMOUS = Caller()

# What a token middleware in front of us, or ours, tells about the caller. Nobody else may.
_IDENTITY_HEADERS = frozenset(
    (
        "HTTP_X_IDENTITY_STATUS",
        "HTTP_X_SERVICE_IDENTITY_STATUS",
        "HTTP_OPENSTACK_SYSTEM_SCOPE",
        "HTTP_X_IS_ADMIN_PROJECT",
        "HTTP_X_SERVICE_CATALOG",
        "HTTP_X_ROLE",
        "HTTP_X_TENANT",
        "HTTP_X_USER",
        *(
            f"HTTP_X_{whose}{name}"
            for whose in ("", "SERVICE_")
            for name in (
                "ROLES",
                "USER_ID",
                "USER_NAME",
                "USER_DOMAIN_ID",
                "USER_DOMAIN_NAME",
                "PROJECT_ID",
                "PROJECT_NAME",
                "PROJECT_DOMAIN_ID",
                "PROJECT_DOMAIN_NAME",
                "TENANT_ID",
                "TENANT_NAME",
                "DOMAIN_ID",
                "DOMAIN_NAME",
            )
        ),
    )
)


def check(conf: cfg.ConfigOpts) -> None:
    """ConfigFileValueError if this configuration would let everybody in, or nobody. Asks no network."""
    check_exposure(conf)
    if conf.auth_strategy == "http_basic":
        htpasswd.Users(conf.http_basic_auth_user_file)
    if conf.auth_strategy == "keystone":
        _token_verifier(conf)


def check_exposure(conf: cfg.ConfigOpts) -> None:
    """Refuse to serve administrators' rights to a network: `noauth` listens on loopback only."""
    if conf.auth_strategy == "noauth" and not _is_loopback(conf.api.host):
        raise cfg.ConfigFileValueError(
            f"auth_strategy is 'noauth' and [api] host is {conf.api.host!r}: everybody who reaches this "
            "address would be administrator. Listen on 127.0.0.1, or set auth_strategy to 'http_basic' "
            "or 'keystone'."
        )


def wrap(app: WSGIApplication, conf: cfg.ConfigOpts, is_public: Callable[[str], bool]) -> WSGIApplication:
    """`app` behind the configured authentication. `is_public` says which paths need no credentials."""
    if conf.auth_strategy == "noauth":
        return _noauth(app, _Strangers(conf.api.public_endpoint))
    if conf.auth_strategy == "http_basic":
        users = htpasswd.Users(conf.http_basic_auth_user_file)
        return _http_basic(app, users, _Strangers(conf.api.public_endpoint), is_public)
    return _keystone(app, conf, is_public)


class _Strangers:
    """Web pages of others that reach this service through the browser of somebody who may use it.

    Any page can make a browser send a POST to 127.0.0.1 (CSRF); a page whose name its owner lets point
    to 127.0.0.1 can read the answers as well (DNS rebinding). Clients that are no browsers send neither
    Origin nor Sec-Fetch-Site, and an address cannot be rebound, only a name can.
    """

    def __init__(self, public_endpoint: str | None) -> None:
        self._own = urllib.parse.urlsplit(public_endpoint or "").netloc.lower()

    def sent_page(self, environ: WSGIEnvironment) -> bool:
        """Whether a page of another site makes this request."""
        if environ.get("HTTP_SEC_FETCH_SITE") in ("cross-site", "same-site"):
            return True
        origin = environ.get("HTTP_ORIGIN")
        if origin is None:
            return False
        site = origin.lower().partition("://")[2]
        return not site or site not in (environ.get("HTTP_HOST", "").lower(), self._own)

    def named_host(self, environ: WSGIEnvironment) -> bool:
        """Whether the request is for a name that anybody could point here."""
        host = environ.get("HTTP_HOST", "localhost").lower()
        return host != self._own and _ADDRESS_OR_LOCALHOST.fullmatch(host) is None


_ADDRESS_OR_LOCALHOST = re.compile(r"(?:[0-9.]+|\[[0-9a-f:.]+\]|(?:[\w.-]+\.)?localhost)(?::\d+)?")
_FOREIGN_PAGE = "A web page of another site made this request; that is not allowed."


def _noauth(app: WSGIApplication, strangers: _Strangers) -> WSGIApplication:
    def handle(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        _drop_claims(environ)
        if strangers.sent_page(environ):
            return _refuse(start_response, 403, _FOREIGN_PAGE)
        if strangers.named_host(environ):
            return _refuse(
                start_response,
                403,
                "Without authentication this service answers to addresses and to localhost only. "
                "Set [api] public_endpoint to use another name.",
            )
        environ[CALLER] = ADMIN
        return app(environ, start_response)

    return handle


def _http_basic(
    app: WSGIApplication, users: htpasswd.Users, strangers: _Strangers, is_public: Callable[[str], bool]
) -> WSGIApplication:
    challenge = [("WWW-Authenticate", 'Basic realm="Baremetal API"')]

    def handle(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        _drop_claims(environ)
        if is_public(environ.get("PATH_INFO", "")):
            environ[CALLER] = ANONYMOUS
            return app(environ, start_response)
        if strangers.sent_page(environ):
            return _refuse(start_response, 403, _FOREIGN_PAGE)
        header = environ.get("HTTP_AUTHORIZATION")
        if header is None:
            return _refuse(start_response, 401, "Authorization required", challenge)
        try:
            name, password = htpasswd.parse(header)
        except ValueError as error:
            return _refuse(start_response, 400, str(error), challenge)
        try:
            known = users.check(name, password)
        except OSError as error:
            LOG.error("The file of users cannot be read: %s", error)
            return _refuse(start_response, 503, "Users cannot be checked at the moment. Try again later.")
        if not known:
            return _refuse(start_response, 401, "Incorrect username or password", challenge)
        environ[CALLER] = Caller(user_id=name, user_name=name, roles=ADMIN.roles, system_scope="all", is_admin=True)
        return app(environ, start_response)

    return handle


def _keystone(app: WSGIApplication, conf: cfg.ConfigOpts, is_public: Callable[[str], bool]) -> WSGIApplication:
    verify = _token_verifier(conf)

    def handle(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        _drop_claims(environ)
        # Public paths do not pass through the middleware at all: they answer while Keystone is down.
        if is_public(environ.get("PATH_INFO", "")):
            environ[CALLER] = ANONYMOUS
            return app(environ, start_response)
        refusal = verify(environ)
        if refusal is not None:
            return _refuse(start_response, *refusal)
        environ[CALLER] = _caller_of_token(environ)
        return app(environ, start_response)

    return handle


_Refusal = tuple[int, str, list[tuple[str, str]]]


def _token_verifier(conf: cfg.ConfigOpts) -> Callable[[WSGIEnvironment], _Refusal | None]:
    """What checks a request's token: a refusal, or None and identity headers in the environment."""
    try:
        from keystonemiddleware import auth_token
    except ImportError as error:
        raise cfg.ConfigFileValueError(
            "auth_strategy is 'keystone' but keystonemiddleware is missing: pip install 'holdfast[keystone]'."
        ) from error

    # The middleware never calls our application, only this: so what goes wrong inside it (no
    # Keystone, a wrong service password) stays apart from what the application does.
    admitted = "holdfast.token_admitted"

    def admit(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ[admitted] = True
        start_response("204 No Content", [])
        return []

    middleware = _middleware(auth_token, admit, conf)
    unavailable: _Refusal = (503, "The identity service cannot be asked at the moment. Try again later.", [])

    def verify(environ: WSGIEnvironment) -> _Refusal | None:
        answer: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            answer[:] = [int(status[:3]), headers]

        try:
            for _ in middleware(environ, start_response):
                pass
        except Exception:
            LOG.exception("A token could not be checked")
            return unavailable
        if environ.pop(admitted, False) and environ.get("HTTP_X_IDENTITY_STATUS") == "Confirmed":
            return None
        if answer and answer[0] >= 500:
            return unavailable
        challenge = [item for item in (answer[1] if answer else []) if item[0].lower() == "www-authenticate"]
        return 401, "The request you have made requires authentication.", challenge

    return verify


def _middleware(auth_token: Any, app: WSGIApplication, conf: cfg.ConfigOpts) -> Any:
    try:
        middleware = auth_token.AuthProtocol(app, {"oslo_config_config": conf, "delay_auth_decision": False})
    except Exception as error:  # the plugins of keystoneauth have errors of their own
        raise cfg.ConfigFileValueError(f"[keystone_authtoken] cannot be used: {error}") from error
    if not conf.keystone_authtoken.auth_type:
        raise cfg.ConfigFileValueError(
            "auth_strategy is 'keystone' but [keystone_authtoken] does not say how to reach it: "
            "set auth_type, auth_url and the service's credentials."
        )
    return middleware


def _caller_of_token(environ: WSGIEnvironment) -> Caller:
    return Caller(
        user_id=environ.get("HTTP_X_USER_ID"),
        user_name=environ.get("HTTP_X_USER_NAME"),
        project_id=environ.get("HTTP_X_PROJECT_ID"),
        project_name=environ.get("HTTP_X_PROJECT_NAME"),
        project_domain_id=environ.get("HTTP_X_PROJECT_DOMAIN_ID"),
        domain_id=environ.get("HTTP_X_DOMAIN_ID"),
        roles=frozenset(filter(None, (role.strip() for role in environ.get("HTTP_X_ROLES", "").split(",")))),
        system_scope=environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE"),
    )


def _drop_claims(environ: WSGIEnvironment) -> None:
    if not _IDENTITY_HEADERS.isdisjoint(environ):
        for header in _IDENTITY_HEADERS:
            environ.pop(header, None)


def _refuse(
    start_response: StartResponse, status: int, message: str, headers: Iterable[tuple[str, str]] = ()
) -> Iterable[bytes]:
    body = msgspec.json.encode({"error": {"message": message, "code": status}})
    reason = HTTPStatus(status).phrase
    start_response(
        f"{status} {reason}",
        [("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers],
    )
    return [body]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
