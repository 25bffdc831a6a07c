"""For every flow of the bare-metal service, situations it runs in: the tests in `generic.py` use them all.

A scenario brings a new fake-hardware node to where the flow begins and names the state it should lead to.
A flow without one makes `test_every_flow.py` fail: add it here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
from sqlalchemy import select, update

from holdfast.baremetal import instances, nodes, states
from holdfast.baremetal.flows import (
    abort_node,
    adopt_node,
    clean_node,
    deploy_node,
    inspect_node,
    manage_node,
    rescue_node,
    set_boot_device,
    set_power_state,
    tear_down_node,
    unrescue_node,
)
from holdfast.baremetal.flows.node_work import NodeParams
from holdfast.db import tables
from holdfast.db.engine import now
from holdfast.flows.flow import Flow
from holdfast.services import Services

INSTANCE = {"image_source": "http://images/debian.qcow2", "image_checksum": "0" * 32, "root_gb": 10}


@dataclass(frozen=True)
class Scenario:
    """`setup` makes a node and returns the flow's parameters; `final` is the node's state in the end."""

    name: str
    flow: Flow[Any]
    setup: Callable[[Services], NodeParams]
    final: str


def enrolled(services: Services, **values: Any) -> str:
    """A new node, in `enroll`."""
    stored = {name: msgspec.json.encode(value).decode() for name, value in values.items()}
    return nodes.create(
        services.db, services.drivers, services.conf, {"driver": "fake-hardware", **stored}, states.ENROLL
    )


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
    return clean_node.CleanParams(node=manageable(services), event="clean", steps=steps)


def _rescue(services: Services) -> NodeParams:
    node = active(services)
    instances.remember(services.db, node, {"rescue_password": "canary-rescue"})
    return NodeParams(node=node)


def _power(target: str) -> Callable[[Services], set_power_state.PowerParams]:
    return lambda services: set_power_state.PowerParams(node=active(services), target=target)


def _abort(phase: str, event: str = "abort") -> Callable[[Services], abort_node.AbortParams]:
    return lambda services: abort_node.AbortParams(node=waiting(phase, services), event=event)


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
]
