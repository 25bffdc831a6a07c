"""Calls of Neutron, through openstacksdk, which is imported when the first one is made.

A call either happened, or raises: `Unavailable` when Neutron cannot be reached, fails, or does not let
us in (flows try again); `DriverDataInvalid` with Neutron's own words when it refuses what was asked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
from oslo_config import cfg

from holdfast import errors
from holdfast.secrets import mask_text

LOG = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds for which the UUID behind a network's name is taken for granted.
NAMES_KEPT = 60.0
AUTH_OPTIONS = (
    "auth_url",
    "username",
    "password",
    "user_domain_name",
    "project_name",
    "project_domain_name",
    "application_credential_id",
    "application_credential_secret",
)


class NeutronPort(msgspec.Struct, frozen=True):
    """What we look at in a port of Neutron's."""

    id: str
    name: str
    network_id: str
    mac_address: str
    host: str
    vnic_type: str
    vif_type: str
    profile: dict[str, Any]
    subnets: tuple[str, ...]
    client_id: str | None

    @classmethod
    def of(cls, port: Any) -> NeutronPort:
        options = {option["opt_name"]: option["opt_value"] for option in port.extra_dhcp_opts or []}
        return cls(
            id=port.id,
            name=port.name or "",
            network_id=port.network_id,
            mac_address=(port.mac_address or "").lower(),
            host=port.binding_host_id or "",
            vnic_type=port.binding_vnic_type or "",
            vif_type=port.binding_vif_type or "",
            profile=port.binding_profile or {},
            subnets=tuple(ip["subnet_id"] for ip in port.fixed_ips or []),
            client_id=options.get(CLIENT_ID_OPTION),
        )


# The DHCP option a client identifies itself with: by its number, for any DHCP version.
CLIENT_ID_OPTION = "61"


class Neutron:
    """The Neutron of this installation. `attributes` have openstacksdk's names."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf.neutron
        self._lock = threading.Lock()
        self._proxy: Any = None
        self._names: dict[str, tuple[str, float]] = {}

    def port(self, port_id: str) -> NeutronPort | None:
        found = _call(f"read port {port_id}", lambda: self._network.get_port(port_id))
        return NeutronPort.of(found) if found else None

    def ports(self, **query: str) -> list[NeutronPort]:
        return [NeutronPort.of(port) for port in _call("list ports", lambda: list(self._network.ports(**query))) or []]

    def create_port(self, **attributes: Any) -> NeutronPort:
        made = _call("create a port", lambda: self._network.create_port(**attributes))
        if made is None:
            raise errors.DriverDataInvalid("Neutron does not have the network, or a security group, to create a port.")
        return NeutronPort.of(made)

    def update_port(self, port_id: str, **attributes: Any) -> NeutronPort | None:
        """None: the port is gone."""
        changed = _call(f"change port {port_id}", lambda: self._network.update_port(port_id, **attributes))
        return NeutronPort.of(changed) if changed else None

    def delete_port(self, port_id: str) -> None:
        _call(f"delete port {port_id}", lambda: self._network.delete_port(port_id, ignore_missing=True))

    def network_id(self, ident: str) -> str:
        """The UUID of the network with that UUID or name."""
        known, until = self._names.get(ident, ("", 0.0))
        if until > time.monotonic():
            return known
        found = {
            network.id
            for query in ({"id": ident}, {"name": ident})
            for network in _call(f"find network {ident}", partial(self._networks, query)) or []
        }
        if len(found) != 1:
            what = "more than one network" if found else "no network"
            raise errors.DriverDataInvalid(
                f"Neutron has {what} with the name or UUID {ident!r}. Use the UUID of one that is there."
            )
        self._names[ident] = (found.pop(), time.monotonic() + NAMES_KEPT)
        return self._names[ident][0]

    def physical_networks(self, port: NeutronPort) -> frozenset[str]:
        """Where the port's network is. Of a network with segments: that of the port's addresses, else all."""
        return _call(f"read network {port.network_id}", lambda: self._where(port)) or frozenset()

    def _where(self, port: NeutronPort) -> frozenset[str]:
        network = self._network.get_network(port.network_id)
        if not network.segments:
            return _named(network.provider_physical_network)
        everywhere = _named(*(segment.get("provider:physical_network") for segment in network.segments))
        of_addresses = [self._network.get_subnet(subnet).segment_id for subnet in port.subnets]
        segments = [self._network.get_segment(segment) for segment in of_addresses if segment]
        return _named(*(segment.physical_network for segment in segments)) or everywhere

    def _networks(self, query: dict[str, str]) -> list[Any]:
        return list(self._network.networks(**query))

    @property
    def _network(self) -> Any:
        """openstacksdk's proxy of the network service."""
        if self._proxy is None:
            with self._lock:
                if self._proxy is None:
                    self._proxy = self._connect()
        return self._proxy

    def _connect(self) -> Any:
        conf = self._conf
        if conf.auth_type is None:
            raise errors.DriverDataInvalid(
                "The node's network interface needs Neutron, and [neutron] auth_type is not set. "
                "Set up the section [neutron], or give the node the network interface noop."
            )
        try:
            from openstack import connection
        except ImportError as error:
            raise errors.UnsupportedByDriver(
                "The node's network interface needs openstacksdk: pip install 'holdfast[neutron]'."
            ) from error
        given = {name: conf[name] for name in AUTH_OPTIONS if conf[name] is not None}
        if conf.auth_type in ("none", "http_basic"):
            wanted = ("username", "password") if conf.auth_type == "http_basic" else ()
            given = {name: value for name, value in given.items() if name in wanted}
        elif conf.auth_type == "v3applicationcredential":
            given = {k: v for k, v in given.items() if k == "auth_url" or k.startswith("application_credential")}
        made: Any = connection.Connection(
            auth_type=conf.auth_type,
            auth={**given, **({"endpoint": conf.endpoint_override} if conf.auth_type == "http_basic" else {})},
            region_name=conf.region_name,
            network_endpoint_override=conf.endpoint_override,
            network_api_version="2",
            network_connect_retries=conf.retries,
            api_timeout=conf.request_timeout,
            cacert=conf.cafile,
            verify=not conf.insecure,
            app_name="holdfast",
        )
        return made.network


def _named(*names: str | None) -> frozenset[str]:
    return frozenset(name for name in names if name)


def _call(what: str, function: Callable[[], T]) -> T | None:
    """Calls Neutron; None if what is asked about is not there. Raises our errors."""
    try:
        return function()
    except errors.HoldfastError:
        raise
    except Exception as error:
        status = getattr(error, "status_code", None) or getattr(error, "http_status", None)
        if status == 404:
            return None
        if type(error).__module__.partition(".")[0] not in ("openstack", "keystoneauth1", "requests"):
            raise
        said = mask_text(str(getattr(error, "details", None) or error))[:500]
        LOG.warning("Neutron did not %s: %s", what, said)
        if status in (401, 403) or status is None or not 400 <= int(status) < 500:
            why = "does not let Holdfast in" if status in (401, 403) else "does not answer as it should"
            raise errors.Unavailable(f"Neutron {why} (asked to {what}); try again when it does.") from error
        raise errors.DriverDataInvalid(f"Neutron refuses to {what}: {said}") from error
