"""Kills one scenario at every point: `python -m tests.crash.matrix DIR deploy`, or all of them without a name.

Each kill is real: a process runs the flow and ends itself with SIGKILL at the armed point; a second process
starts on what is left, carries on, and draws the picture, which must be that of an undisturbed run.
Processes are forked from one that has everything imported, so that a kill costs a second, not three.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from holdfast import errors
from holdfast.baremetal import ramdisk
from holdfast.flows.faults import VARIABLE
from holdfast.services import Services
from tests.flows import generic
from tests.flows.scenarios import SCENARIOS, Scenario
from tests.flows.toy import settle

WIDTH = 6  # kills at the same time; each spends most of its time waiting


class Situation(msgspec.Struct):
    """A scenario set up in a directory, ready to be copied and run."""

    node: str
    subject: str
    params: str


class Drawing(msgspec.Struct):
    """What the process that carried on found in the end."""

    picture: dict[str, Any]
    problems: list[str]


class Result(msgspec.Struct):
    """A kill, and what it broke."""

    point: str
    broken: list[str] = []


def run_scenario(scenario: Scenario, directory: Path) -> list[Result]:
    """All kills of a scenario, WIDTH at a time."""
    directory.mkdir(parents=True)
    template = directory / "template"
    must(in_process(partial(set_up, scenario, template)))
    calm = {"": undisturbed(scenario, template, directory / "calm")}
    kills = [("", point) for point in generic.forward_points(scenario, calm[""].picture)]
    if failure := generic.unwinding_fault(scenario.flow):
        calm[failure] = undisturbed(scenario, template, directory / "unwound", failure)
        kills += [(failure, point) for point in generic.unwinding_points(scenario)]
    workers = [
        fork(partial(kill_all, scenario, template, calm, kills[i::WIDTH], directory / f"results{i}"))
        for i in range(WIDTH)
    ]
    for worker in workers:
        must(wait(worker))
    return [
        result
        for i in range(WIDTH)
        for result in msgspec.json.decode((directory / f"results{i}").read_bytes(), type=list[Result])
    ]


def undisturbed(scenario: Scenario, template: Path, place: Path, failure: str = "") -> Drawing:
    must(in_process(partial(disturb, scenario, template, place, failure)))
    return recovered(place)


def kill_all(
    scenario: Scenario, template: Path, calm: dict[str, Drawing], kills: list[tuple[str, str]], out: Path
) -> None:
    """One worker's share of (what fails before, where it is killed)."""
    results = []
    for failure, point in kills:
        place = out.with_name(f"{out.name}.{point}")
        fault = ",".join(filter(None, (failure, f"{point}=kill")))
        status = in_process(partial(disturb, scenario, template, place, fault))
        result = Result(point, ["The flow never came to this point."])
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            result.broken = compare(calm[failure], recovered(place), scenario)
        if not result.broken:
            shutil.rmtree(place)
        results.append(result)
    out.write_bytes(msgspec.json.encode(results))


def compare(expected: Drawing, found: Drawing, scenario: Scenario) -> list[str]:
    parts = expected.picture.keys()
    if scenario.flow in ramdisk.CONTINUES.values():
        # A repeated step may have asked for one heartbeat more: another flow, the same end.
        parts -= {"flows", "steps"}
    return found.problems + [
        line
        for part in sorted(parts)
        for line in generic.differences(expected.picture[part], found.picture[part], part)
    ]


# In processes of their own


def set_up(scenario: Scenario, template: Path) -> None:
    with_services(template, lambda services: _set_up(scenario, services, template))


def _set_up(scenario: Scenario, services: Services, template: Path) -> None:
    params = scenario.setup(services)
    settle(services.flows)
    subject = scenario.flow.subject(params)
    situation = Situation(scenario.node(params), subject, msgspec.json.encode(params).decode())
    (template / "situation").write_bytes(msgspec.json.encode(situation))


def disturb(scenario: Scenario, template: Path, place: Path, fault: str) -> None:
    """Runs the flow in a copy of the template with a fault armed; does not return if that kills."""
    shutil.copytree(template, place)
    os.environ[VARIABLE] = fault
    situation = msgspec.json.decode((place / "situation").read_bytes(), type=Situation)
    params = msgspec.json.decode(situation.params, type=scenario.flow.params_type)

    def run(services: Services) -> None:
        try:
            services.flows.run(scenario.flow, params)
        except errors.HoldfastError:
            if "error" not in fault:
                raise
        generic.rest(services, situation.node)

    with_services(place, run)


def recovered(place: Path) -> Drawing:
    """Starts on what a killed process left, waits until all is at rest, and draws it."""
    must(in_process(lambda: with_services(place, lambda services: _draw(services, place))))
    return msgspec.json.decode((place / "drawing").read_bytes(), type=Drawing)


def _draw(services: Services, place: Path) -> None:
    situation = msgspec.json.decode((place / "situation").read_bytes(), type=Situation)
    generic.rest(services, situation.node)
    drawing = Drawing(
        generic.picture(services, situation.node, situation.subject), generic.problems(services, situation.node)
    )
    (place / "drawing").write_bytes(msgspec.json.encode(drawing))


def with_services(place: Path, function: Callable[[Services], None]) -> None:
    services = generic.build(place)
    services.flows.launch()
    function(services)
    generic.close(services)


def in_process(function: Callable[[], None]) -> int:
    return wait(fork(function))


def fork(function: Callable[[], None]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.environ.pop(VARIABLE, None)
        function()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def wait(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def must(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"A process ended with status {status}; see what it printed above.")


def main(names: list[str], directory: Path) -> int:
    broken = total = 0
    for scenario in SCENARIOS:
        if names and scenario.name not in names:
            continue
        results = run_scenario(scenario, directory / scenario.name.replace(" ", "-"))
        total += len(results)
        for result in results:
            broken += bool(result.broken)
            for line in result.broken:
                sys.stdout.write(f"{scenario.name}: killed at {result.point}: {line}\n")
        sys.stdout.write(f"{scenario.name}: {len(results)} kill points\n")
        sys.stdout.flush()
    sys.stdout.write(f"{total} kill points, {broken} broken\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], Path(sys.argv[1])))
