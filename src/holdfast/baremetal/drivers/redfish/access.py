"""Where a node's Redfish service is and how to log in: `driver_info`, checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers import driver_info

# driver_info key: what it means
PROPERTIES = {
    "redfish_address": "URL of the BMC: scheme, host and port, as https://10.0.0.5. Required.",
    "redfish_system_id": "Path of the system, as /redfish/v1/Systems/1. "
    "Required only where the BMC manages more than one.",
    "redfish_username": "User to log in as. Its role must allow the operations asked for.",
    "redfish_password": "That user's password.",
    "redfish_verify_ca": "Whether to verify the BMC's certificate, or the path of a CA bundle to verify it "
    "with. Default: true.",
    "redfish_auth_type": "How to log in: basic, session or auto. Default: [redfish] auth_type.",
}

ROOT = "/redfish/v1"
AUTH_TYPES = ("auto", "basic", "session")

# A path on the same host: `//host/x` would be another one.
_SYSTEM_ID = re.compile(r"/(?!/)[^\s?#\\]+")


@dataclass(frozen=True)
class Access:
    """How to reach one system. Two of them with the same `login` share a connection."""

    address: str  # scheme://host[:port]
    system_id: str | None
    root_prefix: str
    username: str | None
    password: str | None = field(repr=False)
    verify: bool | str
    auth_type: str

    def login(self) -> Access:
        return replace(self, system_id=None)


def read_access(conf: cfg.ConfigOpts, info: Mapping[str, Any]) -> Access:
    """`driver_info` as an Access; `DriverDataInvalid` says which key to mend."""
    system_id = _system_id(driver_info.text(info, "redfish_system_id"))
    # A service behind a gateway has a prefix of its own before the standard root.
    prefix, standard, _rest = (system_id or "").partition(f"{ROOT}/")
    username = driver_info.text(info, "redfish_username")
    password = driver_info.secret(info, "redfish_password")
    if password and not username:
        raise errors.DriverDataInvalid("driver_info/redfish_password needs redfish_username beside it.")
    return Access(
        address=_address(driver_info.required(info, "redfish_address", "the URL of the node's BMC")),
        system_id=system_id,
        root_prefix=f"{prefix if standard else ''}{ROOT}/",
        username=username,
        password=password or "" if username else None,
        verify=_verify_ca(info),
        auth_type=driver_info.choice(info, "redfish_auth_type", conf.redfish.auth_type, AUTH_TYPES),
    )


def _address(value: str) -> str:
    """Scheme and host; https where the scheme is left out."""
    invalid = driver_info.invalid(
        "redfish_address",
        "an http or https URL of scheme, host and port only, as https://10.0.0.5 "
        "(the path of the system goes to redfish_system_id, the login to redfish_username)",
    )
    try:
        parts = urlsplit(value if "://" in value else f"https://{value}")
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise invalid from None
    extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in ("http", "https") or not host or extra or re.search(r"[\s\\]", value):
        raise invalid
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _system_id(value: str | None) -> str | None:
    if value is not None and not _SYSTEM_ID.fullmatch(value):
        raise driver_info.invalid(
            "redfish_system_id", "the absolute path of a system on the BMC, as /redfish/v1/Systems/1"
        )
    return value.rstrip("/") if value else None


def _verify_ca(info: Mapping[str, Any]) -> bool | str:
    value = info.get("redfish_verify_ca")
    if isinstance(value, str) and "/" in value:
        if not os.access(value, os.R_OK):
            raise driver_info.invalid(
                "redfish_verify_ca",
                "true, false, or the path of a CA file or directory this service can read",
            )
        return value
    return driver_info.boolean(info, "redfish_verify_ca", True)
