"""What must hold of every registered flow. Runs in one process; the kill matrix is in tests/crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select

from holdfast import errors
from holdfast.baremetal.flows import FLOWS
from holdfast.db.tables import flows
from holdfast.flows.flow import Flow, Step, Work
from holdfast.services import Services
from tests.flows import generic
from tests.flows.scenarios import SCENARIOS, Scenario
from tests.flows.toy import settle

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=[s.name for s in SCENARIOS])
Steps = Callable[[Flow[Any]], tuple[Step[Any], ...]]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    services = generic.build(tmp_path_factory.mktemp("flows"))
    services.flows.launch()
    yield services
    generic.close(services)


Undisturbed = Callable[[Scenario], dict[str, Any]]


@pytest.fixture(scope="module")
def undisturbed(services: Services) -> Undisturbed:
    """The picture a scenario leaves when nothing goes wrong; drawn once."""
    drawn: dict[str, dict[str, Any]] = {}

    def draw(scenario: Scenario) -> dict[str, Any]:
        if scenario.name not in drawn:
            drawn[scenario.name] = run(services, scenario)[1]
        return drawn[scenario.name]

    return draw


@pytest.fixture(autouse=True)
def no_faults(services: Services) -> Iterator[None]:
    yield
    services.flows.faults.arm("")


def run(services: Services, scenario: Scenario, fault: str = "") -> tuple[str, dict[str, Any]]:
    """Runs a scenario on a new node to its rest; the node and its picture."""
    params = scenario.setup(services)
    services.flows.faults.arm(fault)
    try:
        services.flows.run(scenario.flow, params)
    except errors.HoldfastError:
        if not fault:
            raise
    services.flows.faults.arm("")
    node = scenario.node(params)
    generic.rest(services, node)
    return node, generic.picture(services, node, scenario.flow.subject(params))


def state_of(services: Services, node: str, kind: str) -> str | None:
    with services.db.read() as connection:
        wanted = flows.c.subject == node, flows.c.kind == kind
        rows = connection.execute(select(flows.c.state).where(*wanted).order_by(flows.c.created_at.desc()))
        state: str | None = rows.scalars().first()
        return state


def test_every_flow_has_a_scenario() -> None:
    assert generic.unscripted() == [], "Add a scenario to tests/flows/scenarios.py."


@every_scenario
def test_a_flow_leads_where_it_should(services: Services, scenario: Scenario) -> None:
    node, drawn = run(services, scenario)
    assert drawn["node"]["provision_state"] == scenario.final
    assert drawn["flows"][-1][1] == "done"
    assert drawn["node"]["reservation"] is None
    assert generic.problems(services, node) == []


@every_scenario
def test_every_action_may_be_repeated(
    services: Services, scenario: Scenario, undisturbed: Undisturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = undisturbed(scenario)
    params = scenario.setup(services)
    node = scenario.node(params)
    for flow in FLOWS.all():
        monkeypatch.setattr(flow, "steps", tuple(_replace(step, action=_twice(step.action)) for step in flow.steps))
    services.flows.run(scenario.flow, params)
    settle(services.flows)
    monkeypatch.undo()
    generic.rest(services, node)
    found = generic.picture(services, node, scenario.flow.subject(params))
    for part in ("node", "machine", "ports", "bindings", "allocations"):
        assert generic.differences(expected[part], found[part], part) == []
    assert generic.problems(services, node) == []


@every_scenario
@pytest.mark.parametrize("where", ["before", "inside"])
def test_a_failure_at_any_step_leaves_a_clean_slate_or_can_be_retried(
    services: Services, scenario: Scenario, undisturbed: Undisturbed, where: str
) -> None:
    expected = undisturbed(scenario)
    for index, step in enumerate(scenario.flow.steps):
        node, _drawn = run(services, scenario, f"{scenario.flow.kind}.{step.name}.do.{where}=error")
        if index < scenario.flow.pivot:
            assert state_of(services, node, scenario.flow.kind) != "stuck", step.name
        else:
            assert state_of(services, node, scenario.flow.kind) == "stuck", step.name
            (stuck,) = _stuck(services, node)
            services.flows.retry(stuck)
            generic.rest(services, node)
            found = generic.picture(services, node)
            assert generic.differences(expected["node"], found["node"]) == [], step.name
            assert generic.differences(expected["machine"], found["machine"]) == [], step.name
        assert generic.problems(services, node) == [], step.name


@every_scenario
def test_every_undo_may_be_repeated(services: Services, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = generic.unwinding_fault(scenario.flow)
    if fault is None:
        pytest.skip("the flow never unwinds")
    _node, expected = run(services, scenario, fault)
    params = scenario.setup(services)
    node = scenario.node(params)
    for flow in FLOWS.all():
        doubled = [_replace(step, undo=_twice(step.undo)) if callable(step.undo) else step for step in flow.steps]
        monkeypatch.setattr(flow, "steps", tuple(doubled))
    services.flows.faults.arm(fault)
    with pytest.raises(errors.DriverFailed):
        services.flows.run(scenario.flow, params)
    settle(services.flows)
    monkeypatch.undo()
    generic.rest(services, node)
    found = generic.picture(services, node, scenario.flow.subject(params))
    for part in ("node", "machine", "ports", "bindings", "allocations"):
        assert generic.differences(expected[part], found[part], part) == []
    assert generic.problems(services, node) == []


@every_scenario
def test_a_flow_that_is_given_up_leaves_no_lock_behind(services: Services, scenario: Scenario) -> None:
    pivot = scenario.flow.steps[min(scenario.flow.pivot, len(scenario.flow.steps) - 1)]
    node, _drawn = run(services, scenario, f"{scenario.flow.kind}.{pivot.name}.do.before=error")
    for flow_id in _stuck(services, node):
        services.flows.abandon(flow_id, "given up by a test")
        assert state_of(services, node, scenario.flow.kind) == "abandoned"
    # What it did half way is for the operator to look at; but nothing is held.
    assert generic.picture(services, node)["node"]["reservation"] is None
    assert not [problem for problem in generic.problems(services, node) if "locked" in problem]


def _stuck(services: Services, node: str) -> list[str]:
    with services.db.read() as connection:
        wanted = flows.c.subject == node, flows.c.state == "stuck"
        return list(connection.execute(select(flows.c.id).where(*wanted)).scalars())


def _replace(step: Step[Any], **changes: Any) -> Step[Any]:
    from dataclasses import replace

    return replace(step, **changes)


def _twice(action: Callable[[Work, Any], Any]) -> Callable[[Work, Any], Any]:
    """The action as it runs when its first outcome got lost: all of it, and then again."""

    def repeated(work: Work, params: Any) -> Any:
        first = action(work, params)
        second = action(work, params)
        if not (isinstance(second, dict) and second.get("wait")):
            assert first == second, f"repeated, it returned {second!r} after {first!r}"
        return second

    return repeated
