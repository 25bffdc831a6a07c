"""`neutron`: a network for each purpose, and the tenant on its own. Neutron's switch drivers plug the
machine over, told by the `local_link_connection` of its ports which switch ports it is wired to."""

from __future__ import annotations

from holdfast.baremetal.drivers.network.vifs import NeutronVifs
from holdfast.baremetal.task import Task


class NeutronNetwork(NeutronVifs):
    tells_links = True
    properties = {
        f"{purpose}_network": f"Network for {purpose}, instead of [neutron] {purpose}_network. Optional."
        for purpose in ("cleaning", "provisioning", "inspection", "rescuing")
    }

    def validate(self, task: Task) -> None:
        self._network(task, "cleaning")
        self._network(task, "provisioning")

    def add_provisioning_network(self, task: Task) -> None:
        self._add(task, "provisioning")

    def remove_provisioning_network(self, task: Task) -> None:
        self._remove(task, "provisioning")

    def add_cleaning_network(self, task: Task) -> None:
        self._add(task, "cleaning")

    def remove_cleaning_network(self, task: Task) -> None:
        self._remove(task, "cleaning")

    def add_rescuing_network(self, task: Task) -> None:
        self._add(task, "rescuing")

    def remove_rescuing_network(self, task: Task) -> None:
        self._remove(task, "rescuing")

    def add_inspection_network(self, task: Task) -> None:
        self._add(task, "inspection")

    def remove_inspection_network(self, task: Task) -> None:
        self._remove(task, "inspection")

    def configure_tenant_networks(self, task: Task) -> None:
        self._bind_tenants(task)

    def unconfigure_tenant_networks(self, task: Task) -> None:
        self._unbind_tenants(task)
