"""The network configuration of a node (`network_data`), in the form OpenStack's config drives carry it:
links (cards, bonds, VLANs), the networks on them, and services such as DNS.

What is checked is what whoever boots from it cannot do without; other keys are passed on.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

from holdfast import errors
from holdfast.web.kinds import MAC, OBJECT

CARDS = ("bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif", "phy")
BOND_MODES = ("802.3ad", "balance-rr", "active-backup", "balance-xor", "broadcast", "balance-tlb", "balance-alb")

# where in the document, value
Check = Callable[[str, Any], None]


def _text(where: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise errors.InvalidValue(f"{where} must be a string.")


def _mac(where: str, value: Any) -> None:
    MAC.required().check(where, value.replace("-", ":") if isinstance(value, str) else value)


def _one_of(options: tuple[str, ...]) -> Check:
    def check(where: str, value: Any) -> None:
        if value not in options:
            raise errors.InvalidValue(f"{where} must be one of {', '.join(options)}.")

    return check


def _number(least: int, most: int) -> Check:
    def check(where: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise errors.InvalidValue(f"{where} must be a number from {least} to {most}.")

    return check


def _optional(check: Check) -> Check:
    return lambda where, value: None if value is None else check(where, value)


def _texts(where: str, value: Any) -> None:
    if not isinstance(value, list):
        raise errors.InvalidValue(f"{where} must be a list.")
    for index, item in enumerate(value):
        _text(f"{where}[{index}]", item)


def _address(*versions: int) -> Check:
    def check(where: str, value: Any) -> None:
        try:
            found = ipaddress.ip_interface(value).version if isinstance(value, str) else None
        except ValueError:
            found = None
        if found not in versions:
            raise errors.InvalidValue(f"{where} must be an IPv{' or IPv'.join(map(str, versions))} address.")

    return check


ANY_ADDRESS = _address(4, 6)

# type: the keys it needs, and those it may have
_COMMON = {"mtu": _optional(_number(1, 65535)), "vif_id": _text}
_CARD: tuple[dict[str, Check], dict[str, Check]] = ({"id": _text, "ethernet_mac_address": _mac}, _COMMON)
LINKS: Mapping[str, tuple[dict[str, Check], dict[str, Check]]] = {
    **dict.fromkeys(CARDS, _CARD),
    "bond": ({**_CARD[0], "bond_mode": _one_of(BOND_MODES), "bond_links": _texts}, _COMMON),
    "vlan": ({"id": _text, "vlan_mac_address": _mac, "vlan_id": _number(0, 4095), "vlan_link": _text}, _COMMON),
}


def _network(version: int) -> tuple[dict[str, Check], dict[str, Check]]:
    address = _address(version)
    route: dict[str, Check] = {"network": address, "netmask": address, "gateway": address}
    routes = _list_of({None: (route, {"services": _services})})
    needed: dict[str, Check] = {"id": _text, "link": _text, "network_id": _text}
    return needed, {"ip_address": address, "netmask": address, "routes": routes}


def _list_of(kinds: Mapping[Any, tuple[dict[str, Check], dict[str, Check]]]) -> Check:
    """A list of objects, each checked by the table entry of its `type`; the key None: they have no type."""

    def check(where: str, value: Any) -> None:
        if not isinstance(value, list):
            raise errors.InvalidValue(f"{where} must be a list.")
        for index, item in enumerate(value):
            here = f"{where}[{index}]"
            if not isinstance(item, dict):
                raise errors.InvalidValue(f"{here} must be an object.")
            kind = None if None in kinds else item.get("type")
            if not isinstance(kind, str | None) or kind not in kinds:
                raise errors.InvalidValue(f"{here}.type must be one of {', '.join(map(str, kinds))}.")
            needed, allowed = kinds[kind]
            for key, test in {**needed, **allowed}.items():
                if key in item:
                    test(f"{here}.{key}", item[key])
                elif key in needed:
                    raise errors.InvalidValue(f"{here} needs {key}.")

    return check


_services = _list_of({"dns": ({"address": ANY_ADDRESS}, {})})
PARTS: Mapping[str, Check] = {
    "links": _list_of(LINKS),
    "networks": _list_of(
        {
            **dict.fromkeys(("ipv4", "ipv4_dhcp"), _network(4)),
            **dict.fromkeys(("ipv6", "ipv6_dhcp", "ipv6_slaac"), _network(6)),
        }
    ),
    "services": _services,
}


def check(field: str, value: Any) -> str:
    """The document as it is stored, if it is a network configuration; an empty one is none."""
    stored: str = OBJECT.check(field, value)
    if not value:
        return stored
    for part, test in PARTS.items():
        if part not in value:
            raise errors.InvalidValue(f"{field} needs {', '.join(PARTS)}; it has no {part}.")
        test(f"{field}.{part}", value[part])
    return stored
