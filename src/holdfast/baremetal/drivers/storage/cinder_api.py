"""The calls to a Cinder: its attachments, at microversion 3.44, where an attachment can be completed.

Every call may be repeated after an unknown outcome; what Cinder refuses or does not answer is
`DriverFailed`. `connection_info` carries CHAP secrets: it is returned and never logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import requests
from keystoneauth1 import adapter, loading, session
from keystoneauth1 import exceptions as keystone_errors
from oslo_config import cfg

from holdfast import errors, secrets

LOG = logging.getLogger(__name__)

MICROVERSION = "3.44"

# auth_type: the options its plugin takes; each plugin is keystoneauth's of that name
AUTH_OPTIONS = {
    "none": (),
    "http_basic": ("username", "password"),
    "password": (
        "auth_url",
        "username",
        "password",
        "user_domain_name",
        "project_name",
        "project_domain_name",
    ),
    "v3applicationcredential": ("auth_url", "application_credential_id", "application_credential_secret"),
}


class Cinder:
    """One Cinder, as section `[cinder]` describes it. Threads may share it."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        section = conf.cinder
        if section.auth_type in ("none", "http_basic") and not section.endpoint_override:
            raise errors.DriverFailed(
                f"[cinder] auth_type is {section.auth_type!r}, so [cinder] endpoint_override must say where Cinder is."
            )
        options = {name: section[name] for name in AUTH_OPTIONS[section.auth_type]}
        if section.auth_type in ("none", "http_basic"):
            options["endpoint"] = section.endpoint_override
        plugin: Any = loading.get_plugin_loader(section.auth_type).load_from_options(**options)
        verify: bool | str = section.cafile or not section.insecure
        self._adapter = adapter.Adapter(
            session.Session(auth=plugin, verify=False if section.insecure else verify, timeout=section.timeout),
            service_type="block-storage",
            interface=section.interface,
            region_name=section.region_name,
            endpoint_override=section.endpoint_override,
            default_microversion=MICROVERSION,
            raise_exc=False,
            # A repeated POST must be the caller's decision: it looks first.
            connect_retries=0,
            user_agent="holdfast",
            # keystoneauth would log requests and answers, secrets and all, at debug level.
            logger=_SILENT,
        )

    def attachments(self, *, instance: str) -> list[dict[str, Any]]:
        """Every attachment made for that instance, without connection data."""
        found = self._call("GET", f"/attachments?instance_id={instance}")["attachments"]
        return [attachment for attachment in found if attachment.get("instance") == instance]

    def attachment(self, attachment: str) -> dict[str, Any]:
        """One attachment with its `connection_info`."""
        shown: dict[str, Any] = self._call("GET", f"/attachments/{attachment}")["attachment"]
        return shown

    def reserve(self, volume: str, instance: str) -> str:
        """Makes an attachment without a connector: the volume is this instance's from now on. Its id."""
        body = {"attachment": {"volume_uuid": volume, "instance_uuid": instance, "connector": None}}
        return str(self._call("POST", "/attachments", body, what=f"reserve volume {volume}")["attachment"]["id"])

    def connect(self, attachment: str, connector: Mapping[str, Any]) -> None:
        """Has the volume exported to whoever the connector describes."""
        body = {"attachment": {"connector": dict(connector)}}
        self._call("PUT", f"/attachments/{attachment}", body, what=f"export attachment {attachment}")

    def complete(self, attachment: str) -> None:
        self._call("POST", f"/attachments/{attachment}/action", {"os-complete": {}})

    def delete(self, attachment: str) -> None:
        """Ensures the attachment is gone: one that is not there is fine."""
        self._call("DELETE", f"/attachments/{attachment}", what=f"delete attachment {attachment}", missing_ok=True)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        what: str | None = None,
        missing_ok: bool = False,
    ) -> dict[str, Any]:
        what = what or f"{method} {path.partition('?')[0]}"
        try:
            answer = self._adapter.request(path, method, json=body) if body else self._adapter.request(path, method)
        except keystone_errors.ClientException as error:
            LOG.warning("Cinder could not be asked to %s: %s", what, secrets.mask_text(str(error)))
            raise errors.DriverFailed(f"Cinder could not be asked to {what}: {_kind(error)}.") from None
        if missing_ok and answer.status_code == 404:
            return {}
        if answer.status_code >= 300:
            raise errors.DriverFailed(f"Cinder did not {what}: {answer.status_code} {_told(answer)}")
        try:
            document: dict[str, Any] = answer.json() if answer.content else {}
        except ValueError:
            raise errors.DriverFailed(f"What answers at [cinder] endpoint_override to {what} is no Cinder.") from None
        return document


# Whoever turns debug logging on for everything must not find CHAP secrets in the log.
_SILENT = logging.getLogger(f"{__name__}.silent")
_SILENT.disabled = True


def _kind(error: keystone_errors.ClientException) -> str:
    """What went wrong, without the library's text: that may quote the URL with its credentials."""
    if isinstance(error, keystone_errors.ConnectTimeout | keystone_errors.RequestTimeout):
        return "it did not answer in time"
    if isinstance(error, keystone_errors.Unauthorized):
        return "its identity service refused the credentials of [cinder]"
    if isinstance(error, keystone_errors.SSLError):
        return "its certificate cannot be verified; see [cinder] cafile"
    if isinstance(error, keystone_errors.ConnectionError):
        return "the connection failed"
    if isinstance(error, keystone_errors.EndpointNotFound | keystone_errors.CatalogException):
        return "the catalog has no block-storage endpoint; set [cinder] endpoint_override"
    return type(error).__name__


def _told(answer: requests.Response) -> str:
    """Cinder's own sentence from a fault: `{"badRequest": {"code": 400, "message": "…"}}`."""
    try:
        (fault,) = answer.json().values()
        return secrets.mask_text(str(fault["message"]))[:300]
    except (ValueError, TypeError, KeyError, AttributeError):
        return answer.reason or ""
