"""What Neutron is told about a port or port group of a node."""

from __future__ import annotations

from typing import Any

from holdfast.baremetal.task import Port, Portgroup, Task

VNIC_TYPE = "baremetal"
UNBOUND: dict[str, Any] = {"binding_host_id": "", "binding_profile": {}}


def reserved(task: Task) -> dict[str, Any]:
    """The binding of a VIF whose node is not on its network yet: Neutron knows whose it is, no switch does."""
    return {"binding_host_id": task.node.uuid, "binding_vnic_type": VNIC_TYPE, "binding_profile": {}}


def plugged(task: Task, place: Port | Portgroup) -> dict[str, Any]:
    """The binding that makes Neutron's switch drivers put the place onto the VIF's network."""
    return {**reserved(task), "binding_profile": profile(task, place)}


def profile(task: Task, place: Port | Portgroup) -> dict[str, Any]:
    """Which switch ports the place is wired to, and how a port group bonds them."""
    wired = members(task, place)
    links = [port.local_link_connection for port in wired if port.local_link_connection]
    found: dict[str, Any] = {"local_link_information": links}
    if isinstance(place, Portgroup):
        found["local_group_information"] = {
            "id": place.uuid,
            "name": place.name,
            "bond_mode": place.mode,
            # Options of Linux' bonding driver; those who read them here expect names that begin with "bond".
            "bond_properties": {
                name if name.startswith("bond") else f"bond_{name}": value for name, value in place.properties.items()
            },
        }
    if networks := {port.physical_network for port in wired if port.physical_network}:
        found["physical_network"] = sorted(networks)[0]
    return found


def members(task: Task, place: Port | Portgroup) -> list[Port]:
    if isinstance(place, Port):
        return [place]
    return [port for port in task.ports if port.portgroup_id == place.id]
