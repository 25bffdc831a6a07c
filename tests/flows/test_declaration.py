"""A declaration that breaks a rule is refused when its module is imported."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.flows.flow import NOTHING, Flow, Registry, Step, Work
from tests.flows.toy import BUILD, TOYS


class Empty(msgspec.Struct):
    pass


def act(work: Work, params: Empty) -> None: ...


def flow(*steps: Step[Empty], kind: str = "flow") -> Flow[Empty]:
    return Flow(kind, Empty, list(steps), subject=lambda p: "", summary="")


REFUSED: list[tuple[str, list[Step[Any]]]] = [
    ("has no steps", []),
    ("same name", [Step("a", act, undo=NOTHING), Step("a", act, undo=NOTHING)]),
    ("neither how to undo", [Step("a", act)]),
    ("neither how to undo", [Step("a", act), Step("b", act, pivot=True)]),
    ("cannot have an undo", [Step("a", act, undo=act, pivot=True)]),
    ("cannot have an undo", [Step("a", act, pivot=True), Step("b", act, undo=NOTHING)]),
    ("more than one pivot", [Step("a", act, pivot=True), Step("b", act, pivot=True)]),
    ("starts the next flow", [Step("then", act, undo=NOTHING)]),
    ("never attempted", [Step("a", act, undo=NOTHING, attempts=0)]),
    ("lower case", [Step("A step", act, undo=NOTHING)]),
]


@pytest.mark.parametrize(("why", "steps"), REFUSED)
def test_a_broken_declaration_is_refused(why: str, steps: list[Step[Any]]) -> None:
    with pytest.raises(ValueError, match=why):
        Registry().register(flow(*steps))


def test_every_step_before_the_pivot_has_an_undo_or_says_there_is_nothing() -> None:
    registry = Registry()
    declared = flow(Step("a", act, undo=act), Step("b", act, undo=NOTHING), Step("c", act, pivot=True), Step("d", act))
    assert registry.register(declared) is declared
    assert registry.get("flow") is declared
    assert registry.all() == [declared]
    assert declared.pivot == 2


def test_a_flow_without_pivot_may_unwind_from_its_last_step() -> None:
    assert flow(Step("a", act, undo=act)).pivot == 1


def test_kinds_are_unique() -> None:
    registry = Registry()
    registry.register(flow(Step("a", act, undo=NOTHING)))
    with pytest.raises(ValueError, match="two flows"):
        registry.register(flow(Step("a", act, undo=NOTHING)))


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError):
        TOYS.get("unknown")


def test_locks_name_the_flow_and_the_one_that_follows() -> None:
    work = Work("0b3ec6f1-79b2-4b4f-92b6-0c5f9b9a3f0e", "buy", 1, None)  # type: ignore[arg-type]
    again = Work("0b3ec6f1-79b2-4b4f-92b6-0c5f9b9a3f0e", "buy", 7, None)  # type: ignore[arg-type]
    assert work.lock == "buy/0b3ec6f1-79b2-4b4f-92b6-0c5f9b9a3f0e"
    assert work.next_id == again.next_id != work.flow_id
    assert work.next_lock(BUILD) == f"build/{work.next_id}"
