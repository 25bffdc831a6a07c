"""Verifies that the service can manage a node: enroll -> verifying -> manageable.

Contends with every other flow on the node; the guard is the node lock taken with the state change.
Nothing is changed on the hardware, so there is nothing to undo but the state: a failure goes back to
`enroll` with the reason in `last_error`.
"""

from __future__ import annotations

import logging

from holdfast import errors
from holdfast.baremetal import nodes, provision
from holdfast.baremetal.flows.node_work import NodeParams, abandon, fail, node_of
from holdfast.flows.flow import NOTHING, Flow, Step, Work

LOG = logging.getLogger(__name__)


def begin(work: Work, params: NodeParams) -> None:
    provision.begin(work.services.db, params.node, work.lock, "manage")


def validate(work: Work, params: NodeParams) -> None:
    with work.services.db.read() as connection:
        task = nodes.load_task(connection, params.node, work.generation)
    work.services.drivers.power(task).validate(task)
    work.services.drivers.management(task).validate(task)


def read_power_state(work: Work, params: NodeParams) -> str | None:
    with nodes.working(work.services, params.node, work.generation) as task:
        return work.services.drivers.power(task).get_power_state(task)


def cache_bios_settings(work: Work, params: NodeParams) -> None:
    """Shown by the API; a node whose BIOS cannot be read is still manageable."""
    with work.services.db.read() as connection:
        task = nodes.load_task(connection, params.node, work.generation)
    try:
        settings = work.services.drivers.bios(task).cache_bios_settings(task)
    except errors.HoldfastError as error:
        LOG.warning("The BIOS settings of node %s cannot be read: %s", params.node, error.public)
        return
    nodes.store_bios_settings(work.services.db, params.node, settings)


def finish(work: Work, params: NodeParams) -> None:
    provision.finish(work.services.db, params.node, work.lock, "done", power_state=work.results["read_power_state"])


MANAGE: Flow[NodeParams] = Flow(
    "manage_node",
    NodeParams,
    [
        Step("begin", begin, undo=fail),
        Step("validate", validate, undo=NOTHING),
        Step("read_power_state", read_power_state, undo=NOTHING),
        Step("cache_bios_settings", cache_bios_settings, undo=NOTHING),
        Step("finish", finish, pivot=True),
    ],
    subject=node_of,
    summary="verify that a node can be managed",
    abandon=abandon,
)
