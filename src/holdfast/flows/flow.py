"""How a flow is declared: its steps as data, checked when the module is imported.

An action is `action(work, params)`. It must be safe to repeat after an unknown outcome, and what it
returns must be JSON: it is journalled, shown to later steps in `work.results`, and must hold no secret.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

import msgspec

if TYPE_CHECKING:
    from holdfast.services import Services

P = TypeVar("P", bound=msgspec.Struct)
Action = Callable[["Work", P], Any]
# The name of the step that starts the chained flow; no declared step may have it.
THEN = "then"

_NAMESPACE = uuid.UUID("6a6e7e0c-6f3c-4d0e-9d68-2c1b6f1f6a52")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Nothing(Enum):
    """The type of `NOTHING`: the step declares that there is nothing to undo."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING


@dataclass(frozen=True)
class Step(Generic[P]):
    """One step. Before the pivot it has an undo or `NOTHING`; the pivot and what follows have none."""

    name: str
    action: Action[P]
    undo: Action[P] | Literal[Nothing.NOTHING] | None = None
    pivot: bool = False
    attempts: int | None = None


class Flow(Generic[P]):
    """A kind of work: what it does, step by step, and how it is taken back.

    `then` decides, once all steps are done, which flow follows; it runs as a last durable step and so
    exactly once. `abandon` is called when an operator gives the flow up: it must release what the
    flow holds.
    """

    def __init__(
        self,
        kind: str,
        params_type: type[P],
        steps: list[Step[P]],
        *,
        subject: Callable[[P], str],
        summary: str,
        then: Callable[[Work, P], Next | None] | None = None,
        abandon: Callable[[Work, P], None] | None = None,
    ) -> None:
        self.kind = kind
        self.params_type = params_type
        self.steps = tuple(steps)
        self.subject = subject
        self.summary = summary
        self.then = then
        self.abandon = abandon

    @property
    def pivot(self) -> int:
        """Index of the first step whose failure no longer unwinds; past the end if there is none."""
        return next((i for i, step in enumerate(self.steps) if step.pivot), len(self.steps))

    def __repr__(self) -> str:
        return f"Flow({self.kind!r})"


@dataclass
class Next:
    """The flow that follows. `id` is `work.next_id`, so that a lock can be handed to it beforehand."""

    flow: Flow[Any]
    params: msgspec.Struct
    id: str


@dataclass
class Work:
    """What an action gets to see of the flow it belongs to."""

    flow_id: str
    kind: str
    generation: int
    services: Services
    results: dict[str, Any] = field(default_factory=dict)
    # While unwinding: the public text of the failure that caused it.
    error: str | None = None

    @property
    def lock(self) -> str:
        """The name under which this flow takes locks."""
        return f"{self.kind}/{self.flow_id}"

    @property
    def next_id(self) -> str:
        """The id of the flow that `then` would start: the same however often it is asked for."""
        return str(uuid.uuid5(_NAMESPACE, self.flow_id))

    def next_lock(self, flow: Flow[Any]) -> str:
        """The name under which that flow will take locks."""
        return f"{flow.kind}/{self.next_id}"


class Registry:
    """The flows of this installation, by kind. A declaration that breaks a rule is refused at import."""

    def __init__(self) -> None:
        self._flows: dict[str, Flow[Any]] = {}

    def register(self, flow: Flow[P]) -> Flow[P]:
        if flow.kind in self._flows:
            raise ValueError(f"There are two flows of kind {flow.kind!r}.")
        problems = list(_problems(flow))
        if problems:
            raise ValueError(f"Flow {flow.kind!r}: {'; '.join(problems)}.")
        self._flows[flow.kind] = flow
        return flow

    def get(self, kind: str) -> Flow[Any]:
        return self._flows[kind]

    def all(self) -> list[Flow[Any]]:
        return list(self._flows.values())


def _problems(flow: Flow[Any]) -> Iterator[str]:
    names = [step.name for step in flow.steps]
    if not names:
        yield "it has no steps"
    for name in [flow.kind, *names]:
        if not _NAME.fullmatch(name):
            yield f"{name!r} is not a name in lower case and underscores"
    if THEN in names:
        yield f"{THEN!r} is the name of the step that starts the next flow"
    if len(set(names)) != len(names):
        yield "two steps have the same name"
    if sum(step.pivot for step in flow.steps) > 1:
        yield "it has more than one pivot"
    for index, step in enumerate(flow.steps):
        if index < flow.pivot and step.undo is None:
            yield f"step {step.name!r} lies before the pivot and says neither how to undo it nor NOTHING"
        if index >= flow.pivot and step.undo is not None:
            yield f"step {step.name!r} lies at or behind the pivot and cannot have an undo"
        if step.attempts is not None and step.attempts < 1:
            yield f"step {step.name!r} is never attempted"
