"""What the interfaces that talk to Neutron share.

A VIF is a port of Neutron's that somebody else made. While it is on a node, Neutron has the node's UUID as
its host and the address of the node's port as its MAC address; while the node is on the VIF's network,
the binding also says so (`binding.py`). Every call here looks before it acts and may be repeated.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from holdfast import errors
from holdfast.baremetal import states
from holdfast.baremetal.drivers.base import NetworkInterface
from holdfast.baremetal.drivers.network import binding
from holdfast.baremetal.drivers.network.client import CLIENT_ID_OPTION, Neutron, NeutronPort
from holdfast.baremetal.task import Port, Portgroup, Task

LOG = logging.getLogger(__name__)

# Ports of our own in Neutron have the node as their device and are called "holdfast <purpose> <port>".
OWNER = "baremetal:none"
PREFIX = "holdfast"


class NeutronVifs(NetworkInterface):
    calls_out = True
    # Whether Neutron is told which switch ports a machine is wired to, and must be able to use them.
    tells_links: ClassVar[bool] = False

    @cached_property
    def neutron(self) -> Neutron:
        return Neutron(self.conf)

    # VIFs

    def place_vif(self, task: Task, vif: Mapping[str, Any]) -> None:
        if self.tells_links:
            task = self._only_wired(task)
        super().place_vif(task, vif)

    def vif_attach(self, task: Task, vif: Mapping[str, Any]) -> None:
        self.place_vif(task, vif)
        vif_id = str(vif["id"])
        place = self.place_of(task, vif_id)
        if place is not None:
            self._bind(task, place, vif_id, plug=task.node.provision_state == states.ACTIVE)

    def vif_detach(self, task: Task, vif_id: str) -> None:
        place = self.place_of(task, vif_id)
        if place is not None:
            self._unbind(task, place, vif_id, reset_mac=True)
        super().vif_detach(task, vif_id)

    def physical_networks(self, task: Task, vif: Mapping[str, Any]) -> frozenset[str]:
        return self.neutron.physical_networks(self._existing(str(vif["id"])))

    # Changed ports

    def pushes(self, task: Task, changed: Port | Portgroup) -> bool:
        before = _counterpart(task, changed)
        if self.get_current_vif(before) is None:
            return False
        moved = changed.address is not None and changed.address != before.address
        return moved or changed.extra.get("client-id") != before.extra.get("client-id")

    def port_changed(self, task: Task, port: Port) -> None:
        self._push(task, port)

    def portgroup_changed(self, task: Task, portgroup: Portgroup) -> None:
        self._push(task, portgroup)

    def _push(self, task: Task, changed: Port | Portgroup) -> None:
        """Gives the VIF on a port the port's new MAC address and client id."""
        vif_id = self.get_current_vif(_counterpart(task, changed))
        if vif_id is None or self.neutron.port(vif_id) is None:
            return
        if vif_id == self.tenant_vif(changed):
            self._bind(task, changed, vif_id, plug=task.node.provision_state == states.ACTIVE)
        else:
            self._ensure(self._existing(vif_id), changed.address, binding.plugged(task, changed))
        if isinstance(changed, Port):
            self._identify(self._existing(vif_id), changed)

    # The tenants' networks

    def _bind_tenants(self, task: Task) -> None:
        found = list(self._tenants(task))
        if not found and task.node.provision_state in (states.DEPLOYING, states.DEPLOYWAIT):
            raise errors.DriverDataInvalid(
                f"Node {task.node.label} has no VIF, so there is no network to put it on. "
                f"Attach one first: `baremetal node vif attach {task.node.uuid} <port of Neutron>`."
            )
        for place, vif_id in found:
            port = self._bind(task, place, vif_id, plug=True)
            if isinstance(place, Port) and self.tells_links:
                self._identify(port, place)

    def _unbind_tenants(self, task: Task) -> None:
        for place, vif_id in self._tenants(task):
            self._unbind(task, place, vif_id, reset_mac=False)

    def _tenants(self, task: Task) -> Iterator[tuple[Port | Portgroup, str]]:
        places: list[Port | Portgroup] = [*task.ports, *task.portgroups]
        for place in places:
            if vif_id := self.tenant_vif(place):
                yield place, vif_id

    # Networks of ours

    def _network(self, task: Task, purpose: str) -> str:
        """The UUID of the network for a purpose: the node's own, or the configured one."""
        key = f"{purpose}_network"
        ident = task.node.driver_info.get(key) or self.conf.neutron[key]
        if not ident:
            raise errors.DriverDataInvalid(
                f"No {purpose} network is known. Set [neutron] {key}, or driver_info[{key}] of the node."
            )
        return self.neutron.network_id(str(ident))

    def _add(self, task: Task, purpose: str) -> None:
        """Makes a port of Neutron's on the network of that purpose for each port that boots from the network."""
        network = self._network(task, purpose)
        booting = [port for port in task.ports if port.pxe_enabled and (not self.tells_links or _is_wired(port))]
        if not booting:
            lacking = " with a local_link_connection" if self.tells_links else ""
            raise errors.DriverDataInvalid(
                f"Node {task.node.label} has no pxe_enabled port{lacking}; the {purpose} network needs one."
            )
        groups = self.conf.neutron[f"{purpose}_network_security_groups"]
        there = {port.name: port for port in self._ours(task, purpose)}
        for port in booting:
            found = there.pop(_name(purpose, port.uuid), None)
            if found is None or found.network_id != network:
                if found is not None:
                    self.neutron.delete_port(found.id)
                found = self._create(task, port, purpose, network, groups)
            else:
                found = self._ensure(found, port.address, binding.plugged(task, port))
            self._require_bound(found, task)
            port.internal_info = {**port.internal_info, f"{purpose}_vif_port_id": found.id}
        for stale in there.values():
            self.neutron.delete_port(stale.id)

    def _create(self, task: Task, port: Port, purpose: str, network: str, groups: list[str]) -> NeutronPort:
        options = {"extra_dhcp_opts": _dhcp(port)} if port.extra.get("client-id") else {}
        return self.neutron.create_port(
            name=_name(purpose, port.uuid),
            network_id=network,
            device_id=task.node.uuid,
            device_owner=OWNER,
            mac_address=port.address,
            is_admin_state_up=True,
            **({"security_group_ids": list(groups)} if groups else {}),
            **binding.plugged(task, port),
            **options,
        )

    def _remove(self, task: Task, purpose: str) -> None:
        """Deletes those ports, whatever the configuration says by now."""
        key = f"{purpose}_vif_port_id"
        noted = {str(port.internal_info[key]) for port in task.ports if port.internal_info.get(key)}
        for port_id in sorted(noted | {port.id for port in self._ours(task, purpose)}):
            self.neutron.delete_port(port_id)
        for port in task.ports:
            port.internal_info = {k: v for k, v in port.internal_info.items() if k != key}

    def _ours(self, task: Task, purpose: str = "") -> list[NeutronPort]:
        """Our own ports in Neutron for this node."""
        found = self.neutron.ports(device_id=task.node.uuid, device_owner=OWNER)
        return [port for port in found if port.name.startswith(f"{PREFIX} {purpose}")]

    # The end, and the check

    def reach(self, task: Task) -> None:
        self._ours(task)

    def let_go(self, task: Task) -> None:
        for place, vif_id in self._tenants(task):
            self._unbind(task, place, vif_id, reset_mac=True)
        for port in self._ours(task):
            self.neutron.delete_port(port.id)

    def audit(self, task: Task) -> Iterator[str]:
        carried = {vif_id for _place, vif_id in self._tenants(task)}
        for place, vif_id in self._tenants(task):
            port = self.neutron.port(vif_id)
            if port is None:
                yield f"Node {task.node.uuid} has VIF {vif_id}, which Neutron does not have."
                continue
            active = task.node.provision_state == states.ACTIVE
            if active and port.host != task.node.uuid:
                yield f"VIF {vif_id} of node {task.node.uuid} is not bound to it in Neutron."
            if not active and port.profile.get("local_link_information"):
                yield f"VIF {vif_id} of node {task.node.uuid} is still plugged in Neutron."
            if place.address and port.host and port.mac_address != place.address:
                yield f"VIF {vif_id} of node {task.node.uuid} has another MAC address in Neutron."
        noted = {str(v) for port in task.ports for k, v in port.internal_info.items() if k in self.SERVICE_VIF_KEYS}
        ours = {port.id for port in self._ours(task)}
        for port_id in sorted(ours - noted):
            yield f"Neutron has port {port_id} for node {task.node.uuid}, which does not know of it."
        for port_id in sorted(noted - ours):
            yield f"Node {task.node.uuid} has port {port_id} on a service network, which Neutron does not have."
        for port in self.neutron.ports(binding_host_id=task.node.uuid):
            if port.id not in carried | ours and port.host == task.node.uuid:
                yield f"Neutron's port {port.id} is bound to node {task.node.uuid}, which does not have it."

    # One port

    def _bind(self, task: Task, place: Port | Portgroup, vif_id: str, *, plug: bool) -> NeutronPort:
        wanted = binding.plugged(task, place) if plug and self.tells_links else binding.reserved(task)
        bound = self._ensure(self._existing(vif_id), place.address, wanted)
        if plug:
            self._require_bound(bound, task)
        return bound

    def _ensure(self, port: NeutronPort, address: str | None, wanted: Mapping[str, Any]) -> NeutronPort:
        """Brings a port to that MAC address and binding."""
        now: NeutronPort | None = port
        if address and port.mac_address != address:
            if port.host:  # Neutron changes no address of a bound port
                self.neutron.update_port(port.id, **binding.UNBOUND)
            now = self.neutron.update_port(port.id, mac_address=address)
        has = now and {
            "binding_host_id": now.host,
            "binding_vnic_type": now.vnic_type,
            "binding_profile": now.profile,
        }
        # One that failed to bind may work now: asking again makes Neutron try.
        if has != dict(wanted) or (now and now.vif_type == "binding_failed"):
            now = self.neutron.update_port(port.id, **wanted)
        if now is None:
            raise _unknown(port.id)
        return now

    def _unbind(self, task: Task, place: Port | Portgroup, vif_id: str, *, reset_mac: bool) -> None:
        """Returns a VIF as it came: unbound, and with an address that does not block the machine's own."""
        port = self.neutron.port(vif_id)
        if port is None or port.host not in ("", task.node.uuid):
            return  # deleted, or bound elsewhere by somebody: not ours any more
        if port.host or port.profile:
            self.neutron.update_port(vif_id, **binding.UNBOUND)
        if reset_mac and port.mac_address == place.address:
            self.neutron.update_port(vif_id, mac_address=None)

    def _identify(self, port: NeutronPort, place: Port) -> None:
        """Tells Neutron's DHCP by which client id the machine asks, if it has one."""
        client_id = place.extra.get("client-id")
        if port.client_id != client_id:
            self.neutron.update_port(port.id, extra_dhcp_opts=_dhcp(place))

    def _existing(self, vif_id: str) -> NeutronPort:
        port = self.neutron.port(vif_id)
        if port is None:
            raise _unknown(vif_id)
        return port

    def _require_bound(self, port: NeutronPort, task: Task) -> None:
        if port.vif_type != "binding_failed" or not self.tells_links:
            return
        said = f"Neutron cannot bind port {port.id} to node {task.node.label}"
        if self.conf.neutron.fail_on_port_binding_failure:
            raise errors.DriverDataInvalid(
                f"{said}. Do its mechanism drivers know the switch in the local_link_connection of the node's port?"
            )
        LOG.warning("%s", said)

    def _only_wired(self, task: Task) -> Task:
        """The task with only those ports that Neutron can be told the switch ports of."""
        wired = [port for port in task.ports if _is_wired(port) or self.tenant_vif(port)]
        return Task(task.node, wired, task.portgroups, generation=task.generation)


def _counterpart(task: Task, changed: Port | Portgroup) -> Port | Portgroup:
    """The port or port group as it is, of which `changed` is what it will be."""
    there: list[Port] | list[Portgroup] = task.ports if isinstance(changed, Port) else task.portgroups
    return next((place for place in there if place.id == changed.id), changed)


def _is_wired(port: Port) -> bool:
    """Without its switch port, a port can only be told to DHCP, by client id."""
    return bool(port.local_link_connection or port.extra.get("client-id"))


def _name(purpose: str, port_uuid: str) -> str:
    return f"{PREFIX} {purpose} {port_uuid}"


def _dhcp(port: Port) -> list[dict[str, Any]]:
    return [{"opt_name": CLIENT_ID_OPTION, "opt_value": port.extra.get("client-id")}]


def _unknown(vif_id: str) -> errors.BadRequest:
    return errors.BadRequest(f"VIF {vif_id} is not a port that Neutron has.")
