"""Simulated machines behave like hardware: they keep their state, and they tell what was done to them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.sim import machines
from holdfast.sim.machines import EFFECTS_KEPT, FACTORY_BIOS, POWER_OFF, POWER_ON, Machine, Machines

NODE = "5f7e3a9c-0d3c-4f6e-8f0e-4b9d2c1a7e10"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "machines.sqlite"


@pytest.fixture
def fleet(file: Path) -> Machines:
    return Machines(file)


def test_a_machine_nobody_touched_is_off_and_reading_it_leaves_no_trace(fleet: Machines) -> None:
    assert fleet.get(NODE) == Machine()
    assert fleet.get(NODE).power_state == POWER_OFF
    assert fleet.known() == []


def test_asking_for_what_is_already_so_has_no_effect(fleet: Machines) -> None:
    instance = {"instance_uuid": "i-1", "image_source": None}
    for _ in range(3):
        fleet.set_power(NODE, POWER_ON, generation=1)
        fleet.set_boot_device(NODE, "disk", True, generation=1)
        fleet.install(NODE, instance, generation=1)
        fleet.set_bios(NODE, {"BootMode": "Bios"}, generation=1)
        fleet.set_raid(NODE, [{"size_gb": 10, "raid_level": "1"}], generation=1)
        fleet.set_rescued(NODE, True, generation=1)
        fleet.set_console(NODE, True, generation=1)
    assert fleet.counts(NODE) == {
        "power on": 1,
        "boot device": 1,
        "install": 1,
        "bios": 1,
        "raid": 1,
        "rescue": 1,
        "console on": 1,
    }
    assert fleet.get(NODE).disk == instance


def test_the_answer_tells_whether_there_was_an_effect(fleet: Machines) -> None:
    assert fleet.set_power(NODE, POWER_ON, generation=1)
    assert not fleet.set_power(NODE, POWER_ON, generation=1)
    assert fleet.reboot(NODE, generation=1)
    assert fleet.inject_nmi(NODE, generation=1)
    assert fleet.inject_nmi(NODE, generation=1)
    assert fleet.get(NODE).nmis == 2


def test_effects_are_written_down_in_order_with_their_generation(fleet: Machines) -> None:
    fleet.set_power(NODE, POWER_ON, generation=3)
    fleet.reboot(NODE, generation=4)
    fleet.set_power(NODE, POWER_OFF, generation=0)
    log = fleet.effects(NODE)
    assert [(e.number, e.effect, e.generation) for e in log] == [
        (1, "power on", 3),
        (2, "reboot", 4),
        (3, "power off", 0),
    ]


def test_the_log_keeps_the_last_effects_and_the_counters_keep_all(fleet: Machines) -> None:
    for _ in range(EFFECTS_KEPT + 7):
        fleet.inject_nmi(NODE, generation=1)
    log = fleet.effects(NODE)
    assert [e.number for e in log] == list(range(8, EFFECTS_KEPT + 8))
    assert fleet.counts(NODE) == {"nmi": EFFECTS_KEPT + 7}


def test_a_boot_device_for_once_is_used_up_by_one_boot(fleet: Machines) -> None:
    fleet.set_boot_device(NODE, "disk", True, generation=1)
    fleet.set_boot_device(NODE, "pxe", False, generation=1)
    fleet.set_power(NODE, POWER_ON, generation=1)
    assert fleet.get(NODE).booted_from == "pxe"
    fleet.reboot(NODE, generation=1)
    assert fleet.get(NODE).booted_from == "disk"
    assert fleet.get(NODE).boots == 2


def test_erasing_and_removing_tell_a_used_disk_from_a_blank_one(fleet: Machines) -> None:
    fleet.install(NODE, {"instance_uuid": "i-1"}, generation=1)
    fleet.remove(NODE, generation=1)
    assert fleet.get(NODE).disk is None
    fleet.erase(NODE, generation=1)
    assert fleet.get(NODE).disk == {}
    assert not fleet.remove(NODE, generation=1)
    assert fleet.counts(NODE) == {"install": 1, "remove": 1, "erase": 1}


def test_bios_goes_back_to_the_factory_settings(fleet: Machines) -> None:
    fleet.set_bios(NODE, {"BootMode": "Bios", "Turbo": "On"}, generation=1)
    assert fleet.get(NODE).bios == {**FACTORY_BIOS, "BootMode": "Bios", "Turbo": "On"}
    fleet.reset_bios(NODE, generation=1)
    assert fleet.get(NODE).bios == FACTORY_BIOS


def test_a_stale_generation_is_refused_changes_nothing_and_is_counted(fleet: Machines) -> None:
    fleet.set_power(NODE, POWER_ON, generation=5)
    with pytest.raises(errors.DriverFailed, match="stale"):
        fleet.set_power(NODE, POWER_OFF, generation=4)
    assert fleet.get(NODE).power_state == POWER_ON
    assert fleet.counts(NODE) == {"power on": 1, "refused": 1}


def test_a_higher_generation_fences_even_when_it_finds_nothing_to_do(fleet: Machines) -> None:
    fleet.set_power(NODE, POWER_OFF, generation=2)
    assert fleet.generation(NODE) == 2
    with pytest.raises(errors.DriverFailed, match="stale"):
        fleet.set_power(NODE, POWER_ON, generation=1)


def test_a_caller_outside_any_flow_is_never_refused_and_never_fences(fleet: Machines) -> None:
    fleet.set_power(NODE, POWER_ON, generation=2)
    fleet.set_power(NODE, POWER_OFF, generation=0)
    assert fleet.get(NODE).power_state == POWER_OFF
    assert fleet.generation(NODE) == 2


def test_every_changing_call_is_fenced(fleet: Machines) -> None:
    fleet.set_power(NODE, POWER_ON, generation=9)
    calls = {
        "set_power": (POWER_OFF,),
        "reboot": (),
        "set_boot_device": ("disk", True),
        "inject_nmi": (),
        "install": ({},),
        "adopt": ({},),
        "remove": (),
        "erase": (),
        "set_bios": ({"a": "b"},),
        "reset_bios": (),
        "set_raid": ([],),
        "set_rescued": (True,),
        "set_console": (True,),
        "set_indicator": ("led", "on"),
    }
    takes_generation = {
        name
        for name, method in vars(Machines).items()
        if not name.startswith("_") and "generation" in getattr(method, "__annotations__", {})
    }
    assert takes_generation == set(calls)
    before = fleet.get(NODE)
    for name, arguments in calls.items():
        with pytest.raises(errors.DriverFailed, match="stale"):
            getattr(fleet, name)(NODE, *arguments, generation=8)
    assert fleet.get(NODE) == before
    assert fleet.counts(NODE)["refused"] == len(calls)


def test_machines_are_kept_when_the_file_is_opened_again(fleet: Machines, file: Path) -> None:
    fleet.set_power(NODE, POWER_ON, generation=7)
    fleet.install(NODE, {"instance_uuid": "i-1"}, generation=7)
    fleet.close()
    again = Machines(file)
    assert again.get(NODE).power_state == POWER_ON
    assert again.get(NODE).disk == {"instance_uuid": "i-1"}
    assert again.generation(NODE) == 7
    assert again.counts(NODE) == {"power on": 1, "install": 1}


INJECTOR = f"""
import sys
from pathlib import Path
from holdfast.sim.machines import Machines
fleet = Machines(Path(sys.argv[1]))
for _ in range(50):
    fleet.inject_nmi({NODE!r}, generation=1)
"""


def test_threads_and_processes_lose_no_effect(fleet: Machines, file: Path) -> None:
    def inject() -> None:
        for _ in range(50):
            fleet.inject_nmi(NODE, generation=1)

    processes = [subprocess.Popen([sys.executable, "-c", INJECTOR, str(file)]) for _ in range(2)]
    threads = [threading.Thread(target=inject) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0]
    assert fleet.get(NODE).nmis == 300
    assert fleet.counts(NODE) == {"nmi": 300}
    assert fleet.effects(NODE)[-1].number == 300


WRITER = f"""
import itertools, sys
from pathlib import Path
from holdfast.sim.machines import Machines
fleet = Machines(Path(sys.argv[1]))
for turn in itertools.count():
    fleet.set_power({NODE!r}, "power on" if turn % 2 == 0 else "power off", generation=1)
    print(turn + 1, flush=True)
"""


@pytest.mark.parametrize("after", [1, 20, 77])
def test_a_writer_killed_at_any_moment_leaves_state_log_and_counters_that_agree(file: Path, after: int) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer, writer.stdout as told:
        for _ in range(after):
            told.readline()
        writer.send_signal(signal.SIGKILL)
        acknowledged = max([after, *(int(line) for line in told if line.endswith("\n"))])
    fleet = Machines(file)
    counts, last = fleet.counts(NODE), fleet.effects(NODE)[-1]
    # Everything that was acknowledged is there; at most the one effect under way may have come after.
    assert acknowledged <= sum(counts.values()) <= acknowledged + 1
    assert last.number == sum(counts.values())
    assert fleet.get(NODE).power_state == last.effect
    assert fleet.get(NODE).boots == counts["power on"]
    assert fleet.set_power(NODE, POWER_OFF if last.effect == POWER_ON else POWER_ON, generation=1)


def test_a_delay_passes_partly_before_and_partly_after_the_effect(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Machines(file, {"power": 4.0})
    seen: list[tuple[float, str]] = []
    monkeypatch.setattr(machines.time, "sleep", lambda seconds: seen.append((seconds, fleet.get(NODE).power_state)))
    fleet.set_power(NODE, POWER_ON, generation=1)
    assert seen == [(2.0, POWER_OFF), (2.0, POWER_ON)]


def test_users_of_one_file_in_a_process_share_one_connection(file: Path) -> None:
    assert machines.shared(file, {"power": 0}) is machines.shared(file.parent / "." / file.name, {"power": 0})
    assert machines.shared(file, {"power": 0}) is not machines.shared(file, {"power": 1})
