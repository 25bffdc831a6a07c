"""Where a ramdisk may ask to be called back. It is a stranger's word until its token says otherwise, and
this service sits on networks that strangers do not reach: it must not become their hands (SSRF).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from oslo_config import cfg

from holdfast import errors

LONGEST = 255
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(conf: cfg.ConfigOpts) -> list[Network]:
    """`[agent] callback_networks`, read; raises where one of them is none."""
    found: list[Network] = []
    for text in conf.agent.callback_networks:
        try:
            found.append(ipaddress.ip_network(text.strip(), strict=False))
        except ValueError:
            raise cfg.ConfigFileValueError(f"[agent] callback_networks: {text!r} is not a network.") from None
    return found


def check(url: str, allowed: Sequence[Network], *, require_tls: bool = False) -> None:
    """Raises `InvalidValue` unless it is http(s)://<address>:<port> in an allowed network.

    Only addresses: a name could mean another machine at every look. Without a list of networks, every
    address will do that can belong to another machine.
    """
    try:
        parts = urlsplit(url)
        address = ipaddress.ip_address(parts.hostname or "")
        plain = (
            parts.scheme in (("https",) if require_tls else ("http", "https"))
            and parts.username is None
            and parts.path in ("", "/")
            and not (parts.query or parts.fragment)
            and parts.port != 0
            and url.isprintable()
            and " " not in url
        )
    except ValueError:
        raise refused(require_tls) from None
    if not plain or len(url) > LONGEST or getattr(address, "scope_id", None):
        raise refused(require_tls)
    address = getattr(address, "ipv4_mapped", None) or address
    if allowed:
        if not any(address in network for network in allowed):
            raise errors.InvalidValue("callback_url is outside the networks in which ramdisks are expected.")
    elif address.is_loopback or address.is_link_local or address.is_multicast or _is_nobody(address):
        raise errors.InvalidValue("callback_url must be the address of another machine.")


def refused(require_tls: bool) -> errors.InvalidValue:
    scheme = "https" if require_tls else "http or https"
    return errors.InvalidValue(f"callback_url must be {scheme}, an IP address and a port, and nothing else.")


def _is_nobody(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if address.is_unspecified or address.is_reserved:
        return True
    return isinstance(address, ipaddress.IPv4Address) and address in ipaddress.ip_network("0.0.0.0/8")
