"""A whole run: the stages and the other parts that were asked for, and one report of them."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass

from bench import machine, targets
from bench.deploys import measure_flows
from bench.postgresql import TITLES
from bench.profile import profiles
from bench.report import Report
from bench.services import SERVICES
from bench.stage import MINOR, QUICK, Plan, Stage, run_stage
from bench.storm import measure_storm
from bench.workers import measure_workers
from bench.workloads import WORKLOADS, Workload

BUSY_CORES = 0.2

# size of the fleet: who is measured with it, and for about how many seconds
SIZES = {
    1_000: (("ironic", "holdfast"), 240.0),
    10_000: (("ironic", "holdfast"), 390.0),
    100_000: (("holdfast",), 120.0),
}
QUICK_SECONDS = 200.0
PARTS = ("requests", "flows", "storm", "workers")
QUICK_PARTS = ("requests", "flows")
ROUNDS_BESIDE = 2


@dataclass(frozen=True)
class Options:
    """What was asked for on the command line."""

    plan: Plan
    databases: list[str]
    sizes: list[int]
    workloads: list[Workload]
    services: list[str]
    parts: list[str]

    @property
    def is_whole(self) -> bool:
        """Whether this is a run to be published: a full or quick one with nothing left out."""
        return (self.workloads, self.services) == (list(WORKLOADS), list(SERVICES)) and (
            (self.databases, self.sizes, self.parts) == usual(quick=self.plan is QUICK)
        )

    def stages(self) -> list[Stage]:
        found = []
        for database in self.databases:
            for size in self.sizes:
                usual, seconds = SIZES.get(size, (("ironic", "holdfast"), 420.0))
                services = tuple(name for name in usual if name in self.services)
                if services:
                    found.append(Stage(database, size, services, QUICK_SECONDS if self.plan is QUICK else seconds))
        return found


def usual(quick: bool) -> tuple[list[str], list[int], list[str]]:
    """The databases, sizes and parts of a run of which nothing was left out."""
    if quick:
        return ["sqlite"], [min(SIZES)], list(QUICK_PARTS)
    return list(TITLES), list(SIZES), list(PARTS)


def compare(options: Options) -> Report:
    """Run everything; no process that this starts is left when it returns or fails."""
    began = time.monotonic()
    report = Report({"date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC", **machine.description()})
    bystanders = machine.Bystanders()
    if "requests" in options.parts:
        for stage in options.stages():
            report.stages.append(run_stage(stage, options.plan, options.workloads))
        report.verdicts += targets.verdicts(report.stages)
    measure_beside(options, report)
    report.profiles = profiles((verdict.database, verdict.workload) for verdict in report.verdicts if not verdict.met)
    others = bystanders.cores()
    for results in report.stages:
        report.about |= results.versions
    report.about |= {
        "settings": "defaults, but no power sync, no cleaning, and ramdisks may call in every state",
        "API version": f"1.{MINOR}",
        "other processes": f"{others:.2f} cores busy on average during the run",
        "plan": f"{options.plan.name}, {(time.monotonic() - began) / 60:.0f} minutes",
    }
    if others > BUSY_CORES:
        report.notes.append(f"other processes kept {others:.1f} cores busy: only CPU times and memory can be relied on")
    return report


def measure_beside(options: Options, report: Report) -> None:
    """The parts that have tables of their own."""
    rounds = 1 if options.plan is QUICK else ROUNDS_BESIDE
    for database in options.databases:
        if "flows" in options.parts:
            report.parts.append(measure_flows(database, options.services, rounds))
        if "storm" in options.parts:
            part, verdicts = measure_storm(database, options.services, quick=options.plan is QUICK)
            report.parts.append(part)
            report.verdicts += verdicts
    if "workers" in options.parts and "postgresql" in options.databases and "holdfast" in options.services:
        part, verdicts = measure_workers(rounds)
        report.parts.append(part)
        report.verdicts += verdicts
