"""The switches with which tests make things go wrong."""

from __future__ import annotations

import pytest

from holdfast import errors
from holdfast.flows.faults import VARIABLE, Faults


def test_nothing_happens_unless_it_is_armed() -> None:
    faults = Faults.from_environment({})
    faults.kill_at("deploy_node.deploy.do.before")
    faults.fail_at("deploy_node.deploy.do.before")


def test_an_error_happens_every_time_or_once() -> None:
    faults = Faults.from_environment({VARIABLE: "a.b.do.inside=error, a.c.undo.before=error-once"})
    for _ in range(2):
        with pytest.raises(errors.DriverFailed):
            faults.fail_at("a.b.do.inside")
    with pytest.raises(errors.DriverFailed):
        faults.fail_at("a.c.undo.before")
    faults.fail_at("a.c.undo.before")


@pytest.mark.parametrize(
    "text", ["a", "a.b.do=kill", "a.b.do.inside=burn", "a.b.do.sometimes=kill", "a.b.do.after=error"]
)
def test_a_fault_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=VARIABLE):
        Faults(text)
