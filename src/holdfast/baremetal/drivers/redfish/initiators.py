"""The names by which storage knows a machine's cards, as its BMC tells them (NetworkDeviceFunction)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.baremetal.drivers.redfish.connection import if_there

# connector type: where in a device function's document, the most telling first. What a fabric sees is the
# name in force, not the one the card was made with.
NAMES = {
    "iqn": (("iSCSIBoot", "InitiatorName"),),
    "wwnn": (("FibreChannel", "WWNN"), ("FibreChannel", "PermanentWWNN")),
    "wwpn": (("FibreChannel", "WWPN"), ("FibreChannel", "PermanentWWPN")),
}


def volume_connectors(system: Any) -> list[tuple[str, str]]:
    """(type, connector_id) of every card that has such a name, each once, in the BMC's order."""
    found: dict[tuple[str, str], None] = {}
    for function in _device_functions(system):
        for kind, places in NAMES.items():
            values = ((function.json.get(part) or {}).get(name) for part, name in places)
            name = next((value for value in values if isinstance(value, str) and value.strip(" 0:")), None)
            if name is not None:
                found[kind, name.strip()] = None
    return list(found)


def _device_functions(system: Any) -> Iterator[Any]:
    for chassis in if_there(lambda system: system.chassis, system) or ():
        systems = (chassis.json.get("Links") or {}).get("ComputerSystems") or [None]
        if len(systems) > 1:  # An enclosure of several machines: whose cards these are cannot be told.
            continue
        adapters = if_there(lambda chassis: chassis.network_adapters.get_members(), chassis) or ()
        for adapter in adapters:
            yield from if_there(lambda adapter: adapter.network_device_functions.get_members(), adapter) or ()
