"""Inspection registers what it finds of a machine's volume connectors, and takes nothing from others."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from holdfast.baremetal.drivers.fake.inspect import factory_names
from holdfast.baremetal.drivers.redfish.connection import LOGINS
from holdfast.baremetal.drivers.redfish.inspect import RedfishInspect
from tests.application import Application
from tests.enrolment import enrol, settle
from tests.redfish_bmc import StandIn, configure, node, stand_in

NODE = "6a0b8a3e-5b1a-4d6c-9d2e-3f5b7c9d1e21"


def inspect(api: Application, uuid: str) -> dict[str, str | None]:
    api.send("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "inspect"})
    shown = settle(api.send, uuid, wanted="manageable")
    return {"error": shown["last_error"], "capabilities": shown["properties"].get("capabilities")}


def registered(api: Application, uuid: str) -> dict[str, str]:
    found = api.send("GET", f"/v1/volume/connectors?node={uuid}")["connectors"]
    return {connector["type"]: connector["connector_id"] for connector in found}


class TestStored:
    def test_what_is_found_is_registered_and_repeating_it_adds_nothing(self, api: Application) -> None:
        (uuid,) = enrol(api.send, 1, state="manageable")
        for _ in range(2):
            found = inspect(api, uuid)
            assert found["error"] is None
            assert registered(api, uuid) == factory_names(uuid)
            assert found["capabilities"] == "iscsi_boot:true,fibre_channel_boot:true"

    def test_a_connector_of_another_node_is_reported_and_stays_there(self, api: Application) -> None:
        (owner,) = enrol(api.send, 1)
        (uuid,) = enrol(api.send, 1, state="manageable", uuid=NODE)
        theirs = factory_names(NODE)["iqn"]
        api.send("POST", "/v1/volume/connectors", {"node_uuid": owner, "type": "iqn", "connector_id": theirs})
        assert f"connector iqn {theirs}" in str(inspect(api, uuid)["error"])
        assert registered(api, owner) == {"iqn": theirs}
        assert "iqn" not in registered(api, uuid)

    def test_what_an_operator_says_about_a_capability_stays(self, api: Application) -> None:
        stated = {"capabilities": "iscsi_boot:false,boot_mode:uefi"}
        (uuid,) = enrol(api.send, 1, state="manageable", properties=stated)
        assert inspect(api, uuid)["capabilities"] == "iscsi_boot:false,boot_mode:uefi,fibre_channel_boot:true"


class TestRedfish:
    CHASSIS = "/redfish/v1/Chassis/1"

    @pytest.fixture
    def conf(self) -> cfg.ConfigOpts:
        return configure()

    def bmc(self, service: StandIn, *functions: dict[str, object], systems: int = 1) -> StandIn:
        """A machine with one adapter and these device functions, in a chassis with that many machines."""
        adapters, adapter = f"{self.CHASSIS}/NetworkAdapters", f"{self.CHASSIS}/NetworkAdapters/A"
        paths = [f"{adapter}/NetworkDeviceFunctions/{number}" for number in range(len(functions))]
        service.system["Links"] = {"Chassis": [{"@odata.id": self.CHASSIS}]}
        service.documents |= {
            self.CHASSIS: {
                "Id": "1",
                "Name": "Chassis",
                "ChassisType": "RackMount",
                "NetworkAdapters": {"@odata.id": adapters},
                "Links": {"ComputerSystems": [{"@odata.id": f"/redfish/v1/Systems/{n}"} for n in range(systems)]},
            },
            adapters: {"Name": "Adapters", "Members": [{"@odata.id": adapter}]},
            adapter: {
                "Id": "A",
                "Name": "Adapter",
                "NetworkDeviceFunctions": {"@odata.id": f"{adapter}/NetworkDeviceFunctions"},
            },
            f"{adapter}/NetworkDeviceFunctions": {"Name": "F", "Members": [{"@odata.id": path} for path in paths]},
            **{
                path: {"Id": str(number), "Name": "Function", **function}
                for number, (path, function) in enumerate(zip(paths, functions, strict=True))
            },
        }
        return service

    def test_iscsi_and_fibre_channel_names_are_found_with_their_capabilities(self, conf: cfg.ConfigOpts) -> None:
        with stand_in() as service:
            self.bmc(
                service,
                {"iSCSIBoot": {"InitiatorName": "iqn.2026-01.org.example:card"}},
                {"FibreChannel": {"WWNN": "20:00:00:00:00:00:00:01", "PermanentWWPN": "10:00:00:00:00:00:00:01"}},
                {"Ethernet": {"MACAddress": "52:54:00:00:00:01"}},
            )
            found = RedfishInspect(conf).inspect_hardware(node(service.driver_info()))
            LOGINS.close()
        assert found.connectors == (
            ("iqn", "iqn.2026-01.org.example:card"),
            ("wwnn", "20:00:00:00:00:00:00:01"),
            ("wwpn", "10:00:00:00:00:00:00:01"),
        )
        assert found.capabilities == {"iscsi_boot": "true", "fibre_channel_boot": "true"}

    def test_cards_without_names_say_nothing(self, conf: cfg.ConfigOpts) -> None:
        with stand_in() as service:
            self.bmc(
                service, {"iSCSIBoot": {"InitiatorName": ""}}, {"FibreChannel": {"WWPN": "00:00:00:00:00:00:00:00"}}
            )
            found = RedfishInspect(conf).inspect_hardware(node(service.driver_info()))
            LOGINS.close()
        assert found.connectors == ()
        assert found.capabilities == {}

    def test_cards_in_an_enclosure_of_several_machines_are_nobodys(self, conf: cfg.ConfigOpts) -> None:
        with stand_in() as service:
            self.bmc(service, {"iSCSIBoot": {"InitiatorName": "iqn.2026-01.org.example:card"}}, systems=2)
            found = RedfishInspect(conf).inspect_hardware(node(service.driver_info()))
            LOGINS.close()
        assert found.connectors == ()

    def test_a_bmc_that_knows_no_chassis_is_inspected_all_the_same(self, conf: cfg.ConfigOpts) -> None:
        with stand_in() as service:
            found = RedfishInspect(conf).inspect_hardware(node(service.driver_info()))
            LOGINS.close()
        assert found.connectors == ()
