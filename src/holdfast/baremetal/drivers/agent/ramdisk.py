"""Booting a machine into its ramdisk and stopping it there, driving the agent's commands, and what it is told.

A command is known by its place in the agent's own list: those whose outcome was taken note of are in
`driver_internal_info.agent_commands_done`, and one of the right name that is not among them is the one we
started. So a process that died between sending a command and noting it finds it again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from oslo_config import cfg

from holdfast import errors, secrets
from holdfast.baremetal import boot_progress, states
from holdfast.baremetal.drivers.agent import client
from holdfast.baremetal.drivers.base import Interface
from holdfast.baremetal.task import Task

LOG = logging.getLogger(__name__)

DONE = "agent_commands_done"

# What the agent gets to see of a node and its ports. Of driver_info only what is meant for it.
NODE_KEYS = (
    "uuid",
    "name",
    "driver",
    "properties",
    "instance_info",
    "driver_internal_info",
    "extra",
    "instance_uuid",
    "resource_class",
    "provision_state",
    "target_provision_state",
    "clean_step",
    "deploy_step",
    "raid_config",
    "target_raid_config",
)
PORT_KEYS = ("uuid", "address", "pxe_enabled", "physical_network", "local_link_connection")
# In instance_info: too large for every call, and only for who writes the image.
LEFT_OUT = ("configdrive",)


def api_url(conf: cfg.ConfigOpts) -> str:
    """The bare-metal API as ramdisks reach it."""
    if conf.agent.api_url:
        return str(conf.agent.api_url).rstrip("/")
    if conf.api.ramdisk_host and conf.api.ramdisk_port:
        host, port = conf.api.ramdisk_host, conf.api.ramdisk_port
    else:
        host, port = conf.api.host, conf.api.port
    shown = f"[{host}]" if ":" in host else host
    base = conf.api.public_endpoint if not conf.api.ramdisk_port else None
    return f"{(base or f'http://{shown}:{port}').rstrip('/')}/baremetal"


def start(interface: Interface, task: Task, **params: str) -> None:
    """Boots the ramdisk, from off. Again after a crash: the machine is restarted."""
    _power_off(interface, task)
    arguments = {"ipa-api-url": api_url(interface.conf), **{k.replace("_", "-"): v for k, v in params.items()}}
    interface.drivers.boot(task).prepare_ramdisk(task, arguments)
    task.node.driver_internal_info = boot_progress.begun(task.node.driver_internal_info)
    # The machine asks for its script and its node as soon as it is on.
    task.save()
    interface.drivers.power(task).set_power_state(task, states.POWER_ON)
    task.node.power_state = states.POWER_ON


def stop(interface: Interface, task: Task) -> None:
    """Switches the machine off if it runs a ramdisk, and ends that boot."""
    if boot_progress.is_under_way(task.node.driver_internal_info):
        _power_off(interface, task)
    interface.drivers.boot(task).clean_up_ramdisk(task)


def shut_down(interface: Interface, task: Task, agent: client.Agent) -> None:
    """Like `stop`, but the ramdisk gets a chance to do it by itself, with its disks in order."""
    power = interface.drivers.power(task)
    try:
        agent.ask("standby.sync", {})
        agent.begin("standby.power_off", {}, ())
        until = time.monotonic() + interface.conf.agent.power_off_wait
        while power.get_power_state(task) != states.POWER_OFF and time.monotonic() < until:
            time.sleep(0.5)
    except errors.DriverFailed as error:
        LOG.info("Node %s is switched off without its ramdisk's help: %s", task.node.uuid, error.public)
    stop(interface, task)


def _power_off(interface: Interface, task: Task) -> None:
    power = interface.drivers.power(task)
    if power.get_power_state(task) != states.POWER_OFF:
        power.set_power_state(task, states.POWER_OFF)
    task.node.power_state = states.POWER_OFF
    task.node.driver_internal_info = boot_progress.forgotten(task.node.driver_internal_info)
    task.save()


def reach(task: Task, mark: str) -> None:
    task.node.driver_internal_info = boot_progress.reached(task.node.driver_internal_info, mark)


def drive(
    task: Task, agent: client.Agent, name: str, params: Callable[[], Mapping[str, Any]], what: str
) -> client.Command | None:
    """Starts a long command or looks how it is doing: None while it runs, the command when it has succeeded.

    Called again and again; raises `Conflict` when the command has failed: trying it again would not help.
    """
    info = task.node.driver_internal_info
    done = list(info.get(DONE) or ())
    short = name.partition(".")[2]
    commands = agent.commands()
    ours = [command for command in commands if command.command_name == short and command.id not in done]
    command = ours[-1] if ours else agent.begin(name, params(), [command.id for command in commands])
    if command.command_status == client.RUNNING:
        return None
    if command.command_status != client.SUCCEEDED:
        raise errors.Conflict(f"The ramdisk of node {task.node.label} failed at {what}: {command.failure}")
    task.node.driver_internal_info = {**info, DONE: [*done, command.id]}
    return command


def described(task: Task) -> dict[str, Any]:
    """The `node` and `ports` of a command, without a secret."""
    node = msgspec.to_builtins(task.node)
    shown = {key: secrets.mask(node[key]) for key in NODE_KEYS if key in node}
    shown["instance_info"] = {k: v for k, v in shown["instance_info"].items() if k not in LEFT_OUT}
    shown["driver_info"] = {
        key: secrets.mask(value)
        for key, value in task.node.driver_info.items()
        if key.startswith("agent_") and not secrets.is_secret(key)
    }
    ports = [{key: getattr(port, key) for key in PORT_KEYS} for port in task.ports]
    return {"node": shown, "ports": ports}
