"""fake-hardware does everything a machine can do, and fails or waits when its node says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import config, errors
from holdfast.baremetal.drivers.base import BOOT_DEVICES, BootDevice, Inspection, Outcome
from holdfast.baremetal.drivers.fake.rehearsal import Simulated
from holdfast.baremetal.drivers.registry import KINDS, Drivers
from holdfast.baremetal.task import Node, Port, Target, Task
from holdfast.sim.machines import FACTORY_BIOS, Machines

UUID = "0f6ae3a1-6a5c-4d29-9a57-0d6b7a7c3b11"
CANARY = "c4n4ry-s3cr3t"


@pytest.fixture
def drivers(tmp_path: Path) -> Drivers:
    return Drivers(config.load(environment={}, overrides=_overrides(tmp_path)))


@pytest.fixture
def fleet(tmp_path: Path) -> Machines:
    """The machines as somebody outside the service sees them."""
    return Machines(tmp_path / "fake-hardware.sqlite")


def _overrides(state_dir: Path, **more: Any) -> dict[tuple[str, str], Any]:
    return {
        ("DEFAULT", "state_dir"): str(state_dir),
        ("DEFAULT", "enabled_hardware_types"): ["fake-hardware"],
        **{("fake", name): value for name, value in more.items()},
    }


def task(generation: int = 1, ports: list[Port] | None = None, **fields: Any) -> Task:
    node = Node(id=1, uuid=UUID, name="rack01-u07", driver="fake-hardware", **fields)
    return Task(node, ports=ports or [], generation=generation)


def names(drivers: Drivers, phase: str) -> list[tuple[str, str, int]]:
    return [(s.interface, s.step, s.priority) for s in drivers.steps(task(), phase)]


class TestPower:
    def test_a_fresh_machine_is_off(self, drivers: Drivers) -> None:
        assert drivers.power(task()).get_power_state(task()) == "power off"

    @pytest.mark.parametrize(
        ("request_", "state"),
        [("power on", "power on"), ("soft power off", "power off"), ("power off", "power off")],
    )
    def test_it_is_switched_as_asked(self, drivers: Drivers, request_: str, state: str) -> None:
        power = drivers.power(task())
        power.set_power_state(task(), "power on")
        power.set_power_state(task(), request_, timeout=5)
        assert power.get_power_state(task()) == state
        assert request_ in power.get_supported_power_states(task())

    def test_a_reboot_is_an_effect_of_its_own_and_switches_on_what_was_off(
        self, drivers: Drivers, fleet: Machines
    ) -> None:
        power = drivers.power(task())
        power.reboot(task())
        power.reboot(task(), soft=True)
        assert fleet.counts(UUID) == {"power on": 1, "reboot": 1}

    def test_only_states_can_be_set(self, drivers: Drivers) -> None:
        with pytest.raises(errors.BadRequest):
            drivers.power(task()).set_power_state(task(), "rebooting")

    def test_work_that_was_taken_over_is_refused(self, drivers: Drivers) -> None:
        drivers.power(task()).set_power_state(task(generation=2), "power on")
        with pytest.raises(errors.DriverFailed, match="stale"):
            drivers.power(task()).set_power_state(task(generation=1), "power off")


class TestManagement:
    def test_boot_device_for_once_and_for_ever(self, drivers: Drivers) -> None:
        management = drivers.management(task())
        assert management.get_boot_device(task()) == BootDevice("pxe", False)
        management.set_boot_device(task(), "disk", persistent=True)
        assert management.get_boot_device(task()) == BootDevice("disk", True)
        management.set_boot_device(task(), "cdrom")
        assert management.get_boot_device(task()) == BootDevice("cdrom", False)
        drivers.power(task()).reboot(task())
        assert management.get_boot_device(task()) == BootDevice("disk", True)

    def test_a_device_it_lacks_is_refused_with_the_ones_it_has(self, drivers: Drivers) -> None:
        management = drivers.management(task())
        supported = management.get_supported_boot_devices(task())
        assert set(supported) < set(BOOT_DEVICES)
        with pytest.raises(errors.InvalidValue, match="pxe, disk"):
            management.set_boot_device(task(), "floppy")

    def test_nmi_reaches_the_machine(self, drivers: Drivers, fleet: Machines) -> None:
        drivers.management(task()).inject_nmi(task())
        assert fleet.get(UUID).nmis == 1

    def test_macs_are_those_of_the_ports_or_its_own(self, drivers: Drivers) -> None:
        management = drivers.management(task())
        own = management.get_mac_addresses(task())
        assert own == management.get_mac_addresses(task())
        assert len(set(own)) == 2
        port = Port(id=1, uuid="p", address="52:54:00:00:00:01")
        assert management.get_mac_addresses(task(ports=[port])) == ["52:54:00:00:00:01"]


class TestDeploy:
    def test_the_deploy_step_puts_the_instance_on_the_disk_once(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(instance_uuid="i-1", instance_info={"image_source": "http://images/a.raw"})
        drivers.deploy(work).prepare(work)
        for _ in range(2):
            assert drivers.deploy(work).execute_step(work, {"step": "deploy"}) is Outcome.DONE
        disk = fleet.get(UUID).disk or {}
        assert (disk["instance_uuid"], disk["image_source"]) == ("i-1", "http://images/a.raw")
        assert fleet.counts(UUID) == {"install": 1}

    def test_a_rebuild_writes_the_same_image_again(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(instance_uuid="i-1", instance_info={"image_source": "http://images/a.raw"})
        for _ in range(2):
            drivers.deploy(work).prepare(work)
            drivers.deploy(work).execute_step(work, {"step": "deploy"})
        assert fleet.counts(UUID) == {"install": 2}
        drivers.deploy(work).clean_up(work)
        assert work.node.driver_internal_info == {}

    def test_tear_down_takes_it_off_and_cleaning_wipes_the_disk(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(instance_uuid="i-1")
        deploy = drivers.deploy(work)
        deploy.execute_step(work, {"step": "deploy"})
        deploy.tear_down(work)
        deploy.clean_up(work)
        assert fleet.get(UUID).disk is None
        assert deploy.prepare_cleaning(work) is Outcome.DONE
        assert deploy.execute_step(work, {"step": "erase_devices", "args": {}}) is Outcome.DONE
        deploy.tear_down_cleaning(work)
        assert fleet.get(UUID).disk == {}

    def test_adoption_believes_that_the_instance_was_there(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(instance_uuid="i-1")
        drivers.deploy(work).take_over(work)
        assert (fleet.get(UUID).disk or {})["instance_uuid"] == "i-1"
        assert fleet.counts(UUID) == {"adopt": 1}

    def test_a_heartbeat_leaves_the_address_of_the_ramdisk(self, drivers: Drivers) -> None:
        work = task(driver_internal_info={"kept": 1})
        drivers.deploy(work).heartbeat(work, "http://192.0.2.7:9999", agent_version="11")
        info = work.node.driver_internal_info
        assert (info["kept"], info["agent_url"]) == (1, "http://192.0.2.7:9999")

    def test_the_power_of_the_machine_is_left_alone(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(instance_uuid="i-1")
        drivers.power(work).set_power_state(work, "power on")
        deploy = drivers.deploy(work)
        deploy.prepare(work)
        deploy.execute_step(work, {"step": "deploy"})
        deploy.tear_down(work)
        assert fleet.get(UUID).power_state == "power on"

    def test_an_instance_boots_from_disk_or_from_its_volume(self, drivers: Drivers, fleet: Machines) -> None:
        boot = drivers.boot(task())
        boot.prepare_ramdisk(task(), {"ipa-api-url": "http://127.0.0.1:6385"})
        assert fleet.get(UUID).boot_once == "pxe"
        boot.prepare_instance(task())
        assert fleet.get(UUID).boot_device == "disk"
        boot.prepare_instance(task(driver_internal_info={"boot_from_volume": "t-1"}))
        assert fleet.get(UUID).boot_device == "pxe"


class TestSteps:
    def test_the_clean_steps_come_in_order_and_only_one_runs_by_itself(self, drivers: Drivers) -> None:
        assert names(drivers, "clean") == [
            ("deploy", "erase_devices", 10),
            ("deploy", "erase_devices_metadata", 0),
            ("bios", "apply_configuration", 0),
            ("bios", "factory_reset", 0),
            ("raid", "create_configuration", 0),
            ("raid", "delete_configuration", 0),
        ]

    def test_the_deploy_step_comes_first(self, drivers: Drivers) -> None:
        assert names(drivers, "deploy")[0] == ("deploy", "deploy", 100)

    def test_erasing_may_be_aborted_and_settings_must_be_given(self, drivers: Drivers) -> None:
        steps = {(s.interface, s.step): s for s in drivers.steps(task(), "clean")}
        assert steps["deploy", "erase_devices"].abortable
        argsinfo = steps["bios", "apply_configuration"].argsinfo
        assert argsinfo is not None
        assert argsinfo["settings"]["required"]


class TestInspect:
    def test_it_finds_what_nobody_recorded(self, drivers: Drivers) -> None:
        work = task(properties={"cpus": 4, "memory_mb": None})
        found = drivers.inspect(work).inspect_hardware(work)
        assert isinstance(found, Inspection)
        assert set(found.properties) == {"memory_mb", "local_gb", "cpu_arch"}
        assert list(found.mac_addresses) == drivers.management(work).get_mac_addresses(work)

    def test_it_invents_no_ports_for_a_node_that_has_some(self, drivers: Drivers) -> None:
        work = task(ports=[Port(id=1, uuid="p", address="52:54:00:00:00:01")])
        found = drivers.inspect(work).inspect_hardware(work)
        assert isinstance(found, Inspection)
        assert found.mac_addresses == ()


class TestRaid:
    TARGET = {
        "logical_disks": [
            {"size_gb": 100, "raid_level": "1", "is_root_volume": True},
            {"size_gb": "MAX", "raid_level": "5"},
        ]
    }

    def test_creating_builds_the_target_and_records_it(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(target_raid_config=self.TARGET)
        for _ in range(2):
            drivers.raid(work).execute_step(work, {"step": "create_configuration"})
        assert work.node.raid_config == self.TARGET
        assert fleet.get(UUID).raid == self.TARGET["logical_disks"]
        assert fleet.counts(UUID) == {"raid": 1}

    def test_the_root_volume_can_be_left_for_later_and_added_without_deleting(self, drivers: Drivers) -> None:
        work = task(target_raid_config=self.TARGET)
        raid = drivers.raid(work)
        raid.execute_step(work, {"step": "create_configuration", "args": {"create_root_volume": False}})
        root, data = self.TARGET["logical_disks"]
        assert work.node.raid_config == {"logical_disks": [data]}
        for _ in range(2):
            raid.execute_step(work, {"step": "create_configuration", "args": {"delete_existing": False}})
        assert work.node.raid_config == {"logical_disks": [data, root]}

    def test_deleting_leaves_nothing(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(target_raid_config=self.TARGET)
        drivers.raid(work).execute_step(work, {"step": "create_configuration"})
        drivers.raid(work).execute_step(work, {"step": "delete_configuration"})
        assert work.node.raid_config == {}
        assert fleet.get(UUID).raid == []

    def test_creating_without_a_target_is_refused(self, drivers: Drivers) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="target_raid_config"):
            drivers.raid(task()).execute_step(task(), {"step": "create_configuration"})

    @pytest.mark.parametrize(
        "wrong",
        [
            {},
            {"logical_disks": []},
            {"logical_disks": "all"},
            {"logical_disks": [1]},
            {"logical_disks": [{"size_gb": 10, "raid_level": "1"}], "more": 1},
            {"logical_disks": [{"size_gb": 0, "raid_level": "1"}]},
            {"logical_disks": [{"size_gb": True, "raid_level": "1"}]},
            {"logical_disks": [{"size_gb": 10, "raid_level": "7"}]},
            {"logical_disks": [{"size_gb": 10, "raid_level": ["1"]}]},
            {"logical_disks": [{"size_gb": 10, "raid_level": "1", "colour": "red"}]},
            {"logical_disks": [{"size_gb": 10, "raid_level": "1", "is_root_volume": "yes"}]},
            {"logical_disks": [{"size_gb": 10, "raid_level": "1", "is_root_volume": True}] * 2},
        ],
    )
    def test_a_layout_that_cannot_be_built_is_refused(self, drivers: Drivers, wrong: Any) -> None:
        with pytest.raises(errors.InvalidValue):
            drivers.raid(task()).validate_raid_config(task(), wrong)

    def test_the_document_of_logical_disk_properties_names_what_is_accepted(self, drivers: Drivers) -> None:
        document = drivers.raid(task()).get_logical_disk_properties()
        assert {"size_gb", "raid_level", "is_root_volume"} <= document.keys()
        drivers.raid(task()).validate_raid_config(task(), self.TARGET)


class TestBios:
    def test_settings_are_applied_shown_and_reset(self, drivers: Drivers) -> None:
        bios = drivers.bios(task())
        assert bios.cache_bios_settings(task()) == FACTORY_BIOS
        settings = [{"name": "BootMode", "value": "Bios"}, {"name": "Cores", "value": 8}]
        bios.execute_step(task(), {"step": "apply_configuration", "args": {"settings": settings}})
        assert bios.cache_bios_settings(task()) == {**FACTORY_BIOS, "BootMode": "Bios", "Cores": "8"}
        bios.execute_step(task(), {"step": "factory_reset"})
        assert bios.cache_bios_settings(task()) == FACTORY_BIOS

    @pytest.mark.parametrize("settings", [None, [], "BootMode", [{"name": "BootMode"}], [1]])
    def test_settings_of_the_wrong_form_are_refused(self, drivers: Drivers, settings: Any) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="settings"):
            drivers.bios(task()).execute_step(task(), {"step": "apply_configuration", "args": {"settings": settings}})


class TestRescue:
    def test_a_machine_is_rescued_and_let_go(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(instance_info={"rescue_password": CANARY})
        assert drivers.rescue(work).rescue(work) is Outcome.DONE
        assert fleet.get(UUID).rescued
        assert drivers.rescue(work).unrescue(work) is Outcome.DONE
        assert not fleet.get(UUID).rescued

    def test_cleaning_up_leaves_no_machine_in_rescue(self, drivers: Drivers, fleet: Machines) -> None:
        work = task(instance_info={"rescue_password": CANARY})
        drivers.rescue(work).rescue(work)
        drivers.rescue(work).clean_up(work)
        assert not fleet.get(UUID).rescued

    def test_it_needs_a_password(self, drivers: Drivers, fleet: Machines) -> None:
        with pytest.raises(errors.DriverDataInvalid, match="password"):
            drivers.rescue(task()).rescue(task())
        assert not fleet.get(UUID).rescued


def test_the_console_can_be_started_and_stopped(drivers: Drivers) -> None:
    console = drivers.console(task())
    with pytest.raises(errors.DriverFailed, match="not running"):
        console.get_console(task())
    console.start_console(task())
    assert console.get_console(task())["url"].endswith(f"{UUID}/console")
    console.stop_console(task())
    with pytest.raises(errors.DriverFailed, match="not running"):
        console.get_console(task())


def test_an_image_is_not_written_over_a_boot_volume(drivers: Drivers) -> None:
    storage = drivers.interface("fake-hardware", "storage", "fake")
    volume = Target(uuid="t", volume_type="iscsi", volume_id="v", boot_index=0)
    work = task()
    assert storage.should_write_image(work)  # type: ignore[attr-defined]
    work.targets = [volume]
    assert not storage.should_write_image(work)  # type: ignore[attr-defined]
    work.node.instance_info = {"image_source": "http://images/a.raw"}
    assert storage.should_write_image(work)  # type: ignore[attr-defined]


class TestVendor:
    def test_every_declared_method_exists_and_comes_in_both_manners(self, drivers: Drivers) -> None:
        vendor = drivers.vendor(task())
        for method in [*vendor.methods, *vendor.driver_methods]:
            assert callable(getattr(vendor, method.name))
        assert {method.is_async for method in vendor.methods} == {True, False}
        assert {"GET", "POST"} <= {verb for method in vendor.methods for verb in method.http_methods}

    def test_echo_gives_back_whatever_it_gets(self, drivers: Drivers) -> None:
        vendor: Any = drivers.vendor(task())
        body = {"task": 1, "self": 2, "text": "hello"}
        assert vendor.echo(task(), **body) == body

    def test_a_machine_can_be_changed_behind_the_services_back(self, drivers: Drivers) -> None:
        vendor: Any = drivers.vendor(task())
        vendor.push_button(task(), task="of the client's", more=1)
        assert drivers.power(task()).get_power_state(task()) == "power on"
        vendor.pull_plug(task())
        told = vendor.effects(task())
        assert told["machine"]["power_state"] == "power off"
        assert told["counts"] == {"power on": 1, "power off": 1}
        assert [effect["effect"] for effect in told["effects"]] == ["power on", "power off"]
        assert vendor.fleet() == {"nodes": [UUID]}


# phase: how it is begun and gone on with
WAITS: dict[str, Any] = {
    "clean": lambda d, t: d.deploy(t).prepare_cleaning(t),
    "deploy": lambda d, t: d.deploy(t).execute_step(t, {"step": "deploy"}),
    "inspect": lambda d, t: d.inspect(t).inspect_hardware(t),
    "rescue": lambda d, t: d.rescue(t).rescue(t),
}
# phase: how it is given up
GIVE_UP: dict[str, Any] = {
    "clean": lambda d, t: d.deploy(t).tear_down_cleaning(t),
    "deploy": lambda d, t: d.deploy(t).clean_up(t),
    "inspect": lambda d, t: d.inspect(t).abort(t),
    "rescue": lambda d, t: d.rescue(t).clean_up(t),
}


@pytest.mark.parametrize("phase", WAITS)
class TestFakeWait:
    def waiting(self, phase: str) -> Task:
        return task(driver_info={"fake_wait": [phase]}, instance_info={"rescue_password": CANARY})

    def test_the_phase_goes_on_with_the_heartbeat_and_not_before(
        self, drivers: Drivers, fleet: Machines, phase: str
    ) -> None:
        work = self.waiting(phase)
        for _ in range(2):  # asked again without a heartbeat, after a crash say, it still waits
            assert WAITS[phase](drivers, work) is Outcome.WAIT
        assert fleet.counts(UUID) == {}
        drivers.deploy(work).heartbeat(work, "http://192.0.2.7:9999")
        assert WAITS[phase](drivers, work) is not Outcome.WAIT
        assert "fake_wait" not in work.node.driver_internal_info

    def test_a_heartbeat_the_service_recorded_itself_counts(self, drivers: Drivers, phase: str) -> None:
        work = self.waiting(phase)
        work.node.driver_internal_info = {"agent_last_heartbeat": "2024-05-01T10:00:00"}
        assert WAITS[phase](drivers, work) is Outcome.WAIT
        work.node.driver_internal_info["agent_last_heartbeat"] = "2024-05-01T10:00:20"
        assert WAITS[phase](drivers, work) is not Outcome.WAIT

    def test_the_next_time_it_waits_again(self, drivers: Drivers, phase: str) -> None:
        work = self.waiting(phase)
        WAITS[phase](drivers, work)
        drivers.deploy(work).heartbeat(work, "http://192.0.2.7:9999")
        WAITS[phase](drivers, work)
        assert WAITS[phase](drivers, work) is Outcome.WAIT

    def test_a_phase_given_up_leaves_no_mark(self, drivers: Drivers, phase: str) -> None:
        work = self.waiting(phase)
        WAITS[phase](drivers, work)
        drivers.deploy(work).heartbeat(work, "http://192.0.2.7:9999")
        GIVE_UP[phase](drivers, work)
        assert WAITS[phase](drivers, work) is Outcome.WAIT

    def test_other_phases_do_not_wait(self, drivers: Drivers, phase: str) -> None:
        work = self.waiting(phase)
        for other in WAITS.keys() - {phase}:
            assert WAITS[other](drivers, work) is not Outcome.WAIT


class TestFakeFail:
    def calls(self, drivers: Drivers) -> list[tuple[str, str]]:
        """Every method of the fake interfaces that takes a task."""
        found = []
        for kind in KINDS:
            if "fake" in drivers.enabled("fake-hardware", kind):
                interface = drivers.interface("fake-hardware", kind, "fake")
                found += [
                    (kind, name)
                    for name, method in vars(type(interface)).items()
                    if "task" in getattr(method, "__annotations__", {}) and not name.startswith("get_supported")
                ]
        return found

    def test_every_call_can_be_made_to_fail(self, drivers: Drivers, fleet: Machines) -> None:
        calls = self.calls(drivers)
        assert {"power.set_power_state", "deploy.deploy", "raid.create_configuration"} <= {
            ".".join(call) for call in calls
        }
        for kind, name in calls:
            work = task(driver_info={"fake_fail": f"{kind}.{name}, other.thing"})
            interface = drivers.interface("fake-hardware", kind, "fake")
            with pytest.raises(errors.DriverFailed, match=f"{kind}.{name} failed on node rack01-u07"):
                getattr(interface, name)(work)
        assert fleet.known() == []

    def test_a_failing_call_leaves_the_others_working(self, drivers: Drivers) -> None:
        work = task(driver_info={"fake_fail": ["power.reboot"]})
        drivers.power(work).set_power_state(work, "power on")
        with pytest.raises(errors.DriverFailed):
            drivers.power(work).reboot(work)

    def test_validation_can_be_made_to_fail(self, drivers: Drivers) -> None:
        work = task(driver_info={"fake_fail": ["deploy.validate"]})
        drivers.power(work).validate(work)
        with pytest.raises(errors.DriverDataInvalid, match="fake_fail"):
            drivers.deploy(work).validate(work)

    @pytest.mark.parametrize(
        "wrong", [{"fake_wait": ["lunch"]}, {"fake_wait": 7}, {"fake_fail": [7]}, {"fake_fail": {"a": 1}}]
    )
    def test_switches_of_the_wrong_form_fail_validation(self, drivers: Drivers, wrong: dict[str, Any]) -> None:
        work = task(driver_info=wrong)
        with pytest.raises(errors.DriverDataInvalid, match="fake_"):
            drivers.power(work).validate(work)

    def test_the_switches_are_documented_by_the_driver(self, drivers: Drivers) -> None:
        assert {"fake_wait", "fake_fail"} <= drivers.properties("fake-hardware").keys()


def test_no_secret_reaches_the_simulated_machines(drivers: Drivers, tmp_path: Path) -> None:
    work = task(
        instance_uuid="i-1",
        driver_info={"redfish_password": CANARY},
        instance_info={
            "rescue_password": CANARY,
            "configdrive": CANARY,
            "image_source": f"http://user:{CANARY}@images/a.raw",
        },
    )
    deploy = drivers.deploy(work)
    deploy.execute_step(work, {"step": "deploy"})
    deploy.heartbeat(work, "http://192.0.2.7:9999", agent_token=CANARY)
    drivers.rescue(work).rescue(work)
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"images/a.raw" in written
    assert CANARY.encode() not in written
    assert CANARY not in str(work.node.driver_internal_info)


def test_machines_are_kept_where_the_configuration_says(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "machines.sqlite"
    drivers = Drivers(config.load(environment={}, overrides=_overrides(tmp_path, state_file=str(file))))
    assert not file.exists()
    drivers.power(task()).set_power_state(task(), "power on")
    assert Machines(file).get(UUID).power_state == "power on"


def test_a_restarted_service_meets_the_machines_as_it_left_them(tmp_path: Path) -> None:
    for expected in ("power off", "power on"):
        drivers = Drivers(config.load(environment={}, overrides=_overrides(tmp_path)))
        assert drivers.power(task()).get_power_state(task()) == expected
        drivers.power(task()).set_power_state(task(), "power on")


def test_every_fake_interface_shares_the_machines(drivers: Drivers) -> None:
    interfaces = [i for i in drivers.all(task()).values() if isinstance(i, Simulated)]
    assert len(interfaces) == 10
    assert len({id(interface.machines) for interface in interfaces}) == 1
