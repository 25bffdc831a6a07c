"""For every flow of the bare-metal service, situations it runs in: the tests in `generic.py` use them all.

A scenario brings a new fake-hardware node to where the flow begins and names the state it should lead to.
A flow without one makes `test_every_flow.py` fail: add it here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from uuid import uuid4

import msgspec
from sqlalchemy import select, update

from holdfast.baremetal import connectors, instances, nodes, ports, states, targets
from holdfast.baremetal.flows import (
    abort_node,
    adopt_node,
    allocate_node,
    attach_vif,
    change_port,
    clean_node,
    delete_node,
    deploy_node,
    detach_vif,
    inspect_node,
    manage_node,
    rescue_node,
    set_boot_device,
    set_power_state,
    tear_down_node,
    unrescue_node,
)
from holdfast.baremetal.flows.node_work import NodeParams
from holdfast.baremetal.steps import REQUESTED_CLEAN
from holdfast.db import tables
from holdfast.db.engine import now
from holdfast.flows.flow import Flow
from holdfast.services import Services
from tests.flows import agent

INSTANCE = {"image_source": "http://images/debian.qcow2", "image_checksum": "0" * 32, "root_gb": 10}


@dataclass(frozen=True)
class Scenario:
    """`setup` makes a node and returns the flow's parameters; `final` is the node's state in the end, None if
    the node is gone then. `node` tells the node where the parameters do not."""

    name: str
    flow: Flow[Any]
    setup: Callable[[Services], Any]
    final: str | None
    node: Callable[[Any], str] = attrgetter("node")


def enrolled(services: Services, *, network: str = "noop", **values: Any) -> str:
    """A new node, in `enroll`."""
    stored = {name: msgspec.json.encode(value).decode() for name, value in values.items()}
    given = {"driver": "fake-hardware", "network_interface": network, **stored}
    return nodes.create(services.db, services.drivers, services.conf, given, states.ENROLL)


def manageable(services: Services, **values: Any) -> str:
    node = enrolled(services, **values)
    services.flows.run(manage_node.MANAGE, NodeParams(node=node))
    return node


def available(services: Services, **values: Any) -> str:
    node = manageable(services, **values)
    services.flows.run(clean_node.CLEAN, clean_node.CleanParams(node=node))
    return node


def active(services: Services) -> str:
    node = available(services)
    assign(services, node)
    services.flows.run(deploy_node.DEPLOY, deploy_node.DeployParams(node=node))
    return node


def rescued(services: Services) -> str:
    node = active(services)
    instances.remember(services.db, node, {"rescue_password": "canary-rescue"})
    services.flows.run(rescue_node.RESCUE, NodeParams(node=node))
    return node


def change(services: Services, node: str, column: str, document: dict[str, Any]) -> None:
    """Adds to one of the node's JSON columns."""
    table = tables.nodes
    with services.db.write() as connection:
        stored = connection.execute(select(table.c[column]).where(table.c.uuid == node)).scalar_one()
        merged = {**msgspec.json.decode(stored), **document}
        values = {column: msgspec.json.encode(merged).decode()}
        connection.execute(update(table).where(table.c.uuid == node).values(values))


def assign(services: Services, node: str) -> None:
    """What whoever deploys a node puts on it first."""
    change(services, node, "instance_info", INSTANCE)
    table = tables.nodes
    with services.db.write() as connection:
        connection.execute(update(table).where(table.c.uuid == node).values(instance_uuid=str(uuid4())))


def hear(services: Services, node: str) -> None:
    """The node's ramdisk calls; what waits for it is for the scenario to start."""
    change(services, node, "driver_internal_info", {"agent_last_heartbeat": now(), "agent_url": "http://10.0.0.9:9999"})


def waiting(phase: str, services: Services) -> str:
    """A node that waits for its ramdisk in that phase."""
    node = active(services) if phase == "rescue" else available(services) if phase == "deploy" else manageable(services)
    change(services, node, "driver_info", {"fake_wait": [phase]})
    match phase:
        case "inspect":
            services.flows.run(inspect_node.INSPECT, NodeParams(node=node))
        case "clean":
            services.flows.run(clean_node.CLEAN, clean_node.CleanParams(node=node))
        case "deploy":
            assign(services, node)
            services.flows.run(deploy_node.DEPLOY, deploy_node.DeployParams(node=node))
        case "rescue":
            instances.remember(services.db, node, {"rescue_password": "canary-rescue"})
            services.flows.run(rescue_node.RESCUE, NodeParams(node=node))
    return node


def _heard(phase: str) -> Callable[[Services], NodeParams]:
    def setup(services: Services) -> NodeParams:
        node = waiting(phase, services)
        hear(services, node)
        return NodeParams(node=node)

    return setup


def wired(services: Services) -> str:
    """A node with a port, on a network service."""
    node = manageable(services, network="neutron")
    ports.ensure(services.db, node, _mac())
    return node


def plugged(services: Services) -> tuple[str, str]:
    """Such a node with a VIF on its port; both."""
    node, vif = wired(services), str(uuid4())
    services.flows.run(attach_vif.ATTACH, attach_vif.AttachParams(node=node, vif={"id": vif}))
    return node, vif


def _mac() -> str:
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in uuid4().bytes[:3])


def _attach(services: Services) -> attach_vif.AttachParams:
    return attach_vif.AttachParams(node=wired(services), vif={"id": str(uuid4())})


def _detach(services: Services) -> detach_vif.DetachParams:
    node, vif = plugged(services)
    return detach_vif.DetachParams(node=node, vif_id=vif)


def _change_port(services: Services) -> change_port.ChangeParams:
    uuid, _vif = plugged(services)
    with services.db.read() as connection:
        node = nodes.find(connection, uuid)
        port = connection.execute(select(tables.ports).where(tables.ports.c.node_id == node.id)).one()
    return change_port.ChangeParams(
        node=uuid,
        table="ports",
        id=port.id,
        before={"address": port.address},
        after={"address": _mac()},
        state={name: getattr(node, name) for name in change_port.STATE},
    )


def _allocate(services: Services) -> allocate_node.AllocateParams:
    """The allocation's name is the node's UUID: there is no other candidate."""
    node = available(services)
    table = tables.nodes
    with services.db.write() as connection:
        connection.execute(update(table).where(table.c.uuid == node).values(resource_class=f"only-{node}"))
    values = {"name": node, "resource_class": f"only-{node}", "traits": "[]", "candidate_nodes": "[]", "extra": "{}"}
    return allocate_node.AllocateParams(uuid=str(uuid4()), values=values)


def _in(bring: Callable[[Services], str]) -> Callable[[Services], NodeParams]:
    return lambda services: NodeParams(node=bring(services))


def _deploy(services: Services) -> deploy_node.DeployParams:
    node = available(services)
    assign(services, node)
    return deploy_node.DeployParams(node=node)


def _deploy_with_ramdisk(services: Services) -> deploy_node.DeployParams:
    node = available(services)
    change(services, node, "driver_info", {"fake_wait": ["deploy"]})
    assign(services, node)
    return deploy_node.DeployParams(node=node)


def _rebuild(services: Services) -> deploy_node.DeployParams:
    return deploy_node.DeployParams(node=active(services), event="rebuild")


def _clean_by_hand(services: Services) -> clean_node.CleanParams:
    steps = [{"interface": "deploy", "step": "erase_devices"}]
    node = manageable(services)
    instances.remember(services.db, node, {}, {REQUESTED_CLEAN: steps})
    return clean_node.CleanParams(node=node, event="clean", by_hand=True)


def _rescue(services: Services) -> NodeParams:
    node = active(services)
    instances.remember(services.db, node, {"rescue_password": "canary-rescue"})
    return NodeParams(node=node)


def _power(target: str) -> Callable[[Services], set_power_state.PowerParams]:
    return lambda services: set_power_state.PowerParams(node=active(services), target=target)


def _abort(phase: str, event: str = "abort") -> Callable[[Services], abort_node.AbortParams]:
    return lambda services: abort_node.AbortParams(node=waiting(phase, services), event=event)


def with_volumes(services: Services) -> str:
    """An available node with two volumes of Cinder, of which it boots from one."""
    node = available(services, properties={"capabilities": "iscsi_boot:true"})
    change_interfaces(services, node, storage_interface="cinder", boot_interface="ipxe")
    ports.ensure(services.db, node, "02:" + ":".join(node[i : i + 2] for i in (0, 2, 4, 6, 9)))
    connectors.ensure(services.db, node, "iqn", f"iqn.2026-01.org.example:{node}")
    storage: Any = services.drivers.interface("fake-hardware", "storage", "cinder")
    for boot_index in (0, 1):
        volume = storage.cinder.state.create_volume()
        values = {"volume_type": "iscsi", "volume_id": volume, "boot_index": boot_index, "node_uuid": node}
        targets.create(services.db, values)
    return node


def active_with_volumes(services: Services) -> str:
    node = with_volumes(services)
    services.flows.run(deploy_node.DEPLOY, deploy_node.DeployParams(node=node))
    return node


def change_interfaces(services: Services, node: str, **interfaces: str) -> None:
    table = tables.nodes
    with services.db.write() as connection:
        connection.execute(update(table).where(table.c.uuid == node).values(**interfaces))


def _power_with_volumes(target: str) -> Callable[[Services], set_power_state.PowerParams]:
    def setup(services: Services) -> set_power_state.PowerParams:
        node = active_with_volumes(services)
        if target == states.POWER_ON:
            off = set_power_state.PowerParams(node=node, target=states.POWER_OFF)
            services.flows.run(set_power_state.SET_POWER, off)
        return set_power_state.PowerParams(node=node, target=target)

    return setup


def _deploy_from_volume(services: Services) -> deploy_node.DeployParams:
    return deploy_node.DeployParams(node=with_volumes(services))


def with_agent(services: Services) -> str:
    """A node that is worked on by an agent in a ramdisk."""
    node = manageable(services)
    change_interfaces(services, node, deploy_interface="direct")
    return node


def available_with_agent(services: Services) -> str:
    node = with_agent(services)
    table = tables.nodes
    with services.db.write() as connection:
        connection.execute(update(table).where(table.c.uuid == node).values(automated_clean=False))
    services.flows.run(clean_node.CLEAN, clean_node.CleanParams(node=node))
    assign(services, node)
    change(services, node, "instance_info", agent.INSTANCE)
    return node


def _deploy_with_agent(services: Services) -> deploy_node.DeployParams:
    return deploy_node.DeployParams(node=available_with_agent(services))


def _continue_deploy_with_agent(services: Services) -> NodeParams:
    """The image is being written."""
    node = available_with_agent(services)
    services.flows.run(deploy_node.DEPLOY, deploy_node.DeployParams(node=node))
    hear(services, node)
    services.flows.run(deploy_node.CONTINUE, NodeParams(node=node))
    hear(services, node)
    return NodeParams(node=node)


def _continue_cleaning_with_agent(services: Services) -> NodeParams:
    """The last step is under way."""
    node = with_agent(services)
    services.flows.run(clean_node.CLEAN, clean_node.CleanParams(node=node))
    for _ in range(2):
        hear(services, node)
        services.flows.run(clean_node.CONTINUE, NodeParams(node=node))
    hear(services, node)
    return NodeParams(node=node)


SCENARIOS: list[Scenario] = [
    Scenario("manage", manage_node.MANAGE, _in(enrolled), states.MANAGEABLE),
    Scenario("inspect", inspect_node.INSPECT, _in(manageable), states.MANAGEABLE),
    Scenario("continue inspection", inspect_node.CONTINUE, _heard("inspect"), states.MANAGEABLE),
    Scenario("provide", clean_node.CLEAN, lambda s: clean_node.CleanParams(node=manageable(s)), states.AVAILABLE),
    Scenario("clean by hand", clean_node.CLEAN, _clean_by_hand, states.MANAGEABLE),
    Scenario("continue cleaning", clean_node.CONTINUE, _heard("clean"), states.AVAILABLE),
    Scenario("deploy", deploy_node.DEPLOY, _deploy, states.ACTIVE),
    Scenario("deploy with a ramdisk", deploy_node.DEPLOY, _deploy_with_ramdisk, states.ACTIVE),
    Scenario("rebuild", deploy_node.DEPLOY, _rebuild, states.ACTIVE),
    Scenario("continue deploy", deploy_node.CONTINUE, _heard("deploy"), states.ACTIVE),
    Scenario("tear down", tear_down_node.TEAR_DOWN, _in(active), states.AVAILABLE),
    Scenario("tear down a rescued node", tear_down_node.TEAR_DOWN, _in(rescued), states.AVAILABLE),
    Scenario("deploy from a volume", deploy_node.DEPLOY, _deploy_from_volume, states.ACTIVE),
    Scenario("tear down with volumes", tear_down_node.TEAR_DOWN, _in(active_with_volumes), states.AVAILABLE),
    Scenario("power off with volumes", set_power_state.SET_POWER, _power_with_volumes(states.POWER_OFF), states.ACTIVE),
    Scenario("power on with volumes", set_power_state.SET_POWER, _power_with_volumes(states.POWER_ON), states.ACTIVE),
    Scenario(
        "provide with an agent",
        clean_node.CLEAN,
        lambda s: clean_node.CleanParams(node=with_agent(s)),
        states.AVAILABLE,
    ),
    Scenario("end cleaning with an agent", clean_node.CONTINUE, _continue_cleaning_with_agent, states.AVAILABLE),
    Scenario("deploy with an agent", deploy_node.DEPLOY, _deploy_with_agent, states.ACTIVE),
    Scenario("boot what the agent wrote", deploy_node.CONTINUE, _continue_deploy_with_agent, states.ACTIVE),
    Scenario("adopt", adopt_node.ADOPT, _in(lambda s: manageable(s, instance_info=INSTANCE)), states.ACTIVE),
    Scenario("rescue", rescue_node.RESCUE, _rescue, states.RESCUE),
    Scenario("continue rescue", rescue_node.CONTINUE, _heard("rescue"), states.RESCUE),
    Scenario("unrescue", unrescue_node.UNRESCUE, _in(rescued), states.ACTIVE),
    Scenario("abort cleaning", abort_node.ABORT, _abort("clean"), states.CLEANFAIL),
    Scenario("give up a silent deploy", abort_node.ABORT, _abort("deploy", "fail"), states.DEPLOYFAIL),
    Scenario("power off", set_power_state.SET_POWER, _power(states.POWER_OFF), states.ACTIVE),
    Scenario("reboot", set_power_state.SET_POWER, _power(states.REBOOT), states.ACTIVE),
    Scenario(
        "boot device",
        set_boot_device.SET_BOOT_DEVICE,
        lambda s: set_boot_device.BootDeviceParams(node=manageable(s), device="pxe", persistent=True),
        states.MANAGEABLE,
    ),
    Scenario("attach a VIF", attach_vif.ATTACH, _attach, states.MANAGEABLE),
    Scenario("detach a VIF", detach_vif.DETACH, _detach, states.MANAGEABLE),
    Scenario("change a port", change_port.CHANGE, _change_port, states.MANAGEABLE),
    Scenario("delete", delete_node.DELETE, _in(lambda s: plugged(s)[0]), None),
    Scenario("allocate", allocate_node.ALLOCATE, _allocate, states.AVAILABLE, node=lambda p: p.values["name"]),
]
