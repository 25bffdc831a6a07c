"""Which port or port group of a node takes a VIF.

1. Free are ports without a VIF that are on one of the VIF's physical networks, or on none in particular.
2. A port group counts as one place while it has free members and nobody sits on it or on a member. Once
   a member has a VIF of its own the group is split and its free members are places; once the group
   itself has one, its members are not.
3. Best is a place known to be on one of the VIF's physical networks, then a port group, then a port
   that boots over the network, then the oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from holdfast import errors
from holdfast.baremetal.task import Port, Portgroup, Task

Place = Port | Portgroup


def choose(
    task: Task, vif: Mapping[str, Any], networks: Collection[str], carries: Callable[[Place], str | None]
) -> Place:
    """The best place for the VIF; `carries` tells the VIF on one. The caller may ask for one by
    `port_uuid` or `portgroup_uuid`, which must still be free."""
    found = [place for place in _places(task, networks, carries) if _is_asked_for(place, vif)]
    if not found:
        raise errors.BadRequest(
            f"Node {task.node.label} has not enough free physical ports for VIF {vif['id']}. "
            "Detach a VIF, or create another port."
        )
    return min(found, key=lambda place: _rank(task, place, networks))


def _places(task: Task, networks: Collection[str], carries: Callable[[Place], str | None]) -> Iterator[Place]:
    free = [
        port
        for port in task.ports
        if not carries(port) and (not networks or port.physical_network in (None, *networks))
    ]
    split = {port.portgroup_id for port in task.ports if carries(port)}
    for group in task.portgroups:
        members = [port for port in free if port.portgroup_id == group.id]
        if members and not carries(group):
            yield from members if group.id in split else [group]
    yield from (port for port in free if port.portgroup_id is None)


def _is_asked_for(place: Place, vif: Mapping[str, Any]) -> bool:
    port, group = vif.get("port_uuid"), vif.get("portgroup_uuid")
    return (port is None or (isinstance(place, Port) and place.uuid == str(port).lower())) and (
        group is None or (isinstance(place, Portgroup) and place.uuid == str(group).lower())
    )


def _rank(task: Task, place: Place, networks: Collection[str]) -> tuple[bool, bool, bool, int]:
    elsewhere = bool(networks) and _network(task, place) not in networks
    if isinstance(place, Portgroup):
        return (elsewhere, False, False, place.id)
    return (elsewhere, True, not place.pxe_enabled, place.id)


def _network(task: Task, place: Place) -> str | None:
    """The physical network of a place; all members of a group share one."""
    if isinstance(place, Port):
        return place.physical_network
    found = {port.physical_network for port in task.ports if port.portgroup_id == place.id}
    if len(found) > 1:
        raise errors.Conflict(
            f"The ports of port group {place.uuid} are on different physical networks: "
            f"{', '.join(sorted(str(name) for name in found))}. Give them the same one."
        )
    return found.pop()
