"""The flows of the bare-metal service, one file each."""

from __future__ import annotations

from typing import Any

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
from holdfast.flows.flow import Flow, Registry

_ALL: tuple[Flow[Any], ...] = (
    manage_node.MANAGE,
    inspect_node.INSPECT,
    inspect_node.CONTINUE,
    clean_node.CLEAN,
    clean_node.CONTINUE,
    deploy_node.DEPLOY,
    deploy_node.CONTINUE,
    tear_down_node.TEAR_DOWN,
    adopt_node.ADOPT,
    rescue_node.RESCUE,
    rescue_node.CONTINUE,
    unrescue_node.UNRESCUE,
    abort_node.ABORT,
    set_power_state.SET_POWER,
    set_boot_device.SET_BOOT_DEVICE,
    attach_vif.ATTACH,
    detach_vif.DETACH,
    change_port.CHANGE,
    delete_node.DELETE,
    allocate_node.ALLOCATE,
)

FLOWS = Registry()
for _flow in _ALL:
    FLOWS.register(_flow)
