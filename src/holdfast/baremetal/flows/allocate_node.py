"""Finds a node for an allocation: allocating -> active, or error with the reason.

Contends with every other allocation, and with whoever takes a node away (maintenance, a deploy, a lock).
The guard is one compare-and-set on the node's row that also sets its `instance_uuid`; the
allocation's own row names this flow while it searches. The first step writes the request down, so the
caller has its answer; a search that finds nothing leaves the allocation in `error`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.baremetal import allocations
from holdfast.flows.flow import Flow, Step, Work


class AllocateParams(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of the allocation, checked."""

    uuid: str
    values: dict[str, Any]


def begin(work: Work, params: AllocateParams) -> None:
    allocations.begin(work.services.db, {**params.values, "uuid": params.uuid}, work.lock)


def end_without(work: Work, params: AllocateParams) -> None:
    """A request that never was answered leaves nothing; one that was says why it failed."""
    if "begin" in work.results:
        allocations.fail(work.services.db, params.uuid, work.lock, work.error)
    else:
        allocations.withdraw(work.services.db, params.uuid, work.lock)


def choose(work: Work, params: AllocateParams) -> str:
    return allocations.choose(work.services.db, params.uuid, work.lock)


def give_back(work: Work, params: AllocateParams) -> None:
    allocations.give_back(work.services.db, params.uuid, work.lock)


def abandon(work: Work, params: AllocateParams) -> None:
    give_back(work, params)
    allocations.fail(work.services.db, params.uuid, work.lock, work.error)


ALLOCATE: Flow[AllocateParams] = Flow(
    "allocate_node",
    AllocateParams,
    [
        Step("begin", begin, undo=end_without),
        Step("choose", choose, undo=give_back),
    ],
    subject=lambda params: params.uuid,
    summary="find a node for an allocation",
    abandon=abandon,
)
