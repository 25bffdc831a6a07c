"""`flat`: the machine and its tenant share one network, which the switches carry to it all the time.

VIFs are bound while the machine is in use, which makes Neutron's DHCP and metadata work for it; no
switch is reconfigured. Only cleaning and inspection use a network of their own.
"""

from __future__ import annotations

from holdfast.baremetal.drivers.network.vifs import NeutronVifs
from holdfast.baremetal.task import Task


class FlatNetwork(NeutronVifs):
    properties = {
        "cleaning_network": "Network to clean this node on, instead of [neutron] cleaning_network. Optional.",
        "inspection_network": "Network to inspect this node on, instead of [neutron] inspection_network. Optional.",
    }

    def validate(self, task: Task) -> None:
        self._network(task, "cleaning")

    def add_provisioning_network(self, task: Task) -> None:
        self._bind_tenants(task)

    def remove_provisioning_network(self, task: Task) -> None:
        self._unbind_tenants(task)

    def add_rescuing_network(self, task: Task) -> None:
        self._bind_tenants(task)

    def remove_rescuing_network(self, task: Task) -> None:
        self._unbind_tenants(task)

    def configure_tenant_networks(self, task: Task) -> None:
        self._bind_tenants(task)

    def unconfigure_tenant_networks(self, task: Task) -> None:
        self._unbind_tenants(task)

    def add_cleaning_network(self, task: Task) -> None:
        self._add(task, "cleaning")

    def remove_cleaning_network(self, task: Task) -> None:
        self._remove(task, "cleaning")

    def add_inspection_network(self, task: Task) -> None:
        self._add(task, "inspection")

    def remove_inspection_network(self, task: Task) -> None:
        self._remove(task, "inspection")
