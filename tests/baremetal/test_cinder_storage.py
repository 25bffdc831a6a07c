"""Storage interface `cinder`: a node's volumes are attached while it may use them, and only then.

Every call goes over HTTP to a simulated Cinder with the real one's rules.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from sqlalchemy import select

from holdfast.db import tables
from holdfast.sim import cinder
from tests.application import Application
from tests.enrolment import enrol
from tests.volumes import INITIATOR, PROPERTIES, ask, bootable, give, mac, power

INSTANCE = "9f1c6c59-0d9c-4f63-bd2b-2a2f9f7a2c11"


def held(simulator: cinder.Simulator) -> list[tuple[str, str, str]]:
    return sorted((a["volume_id"], a["instance"], a["status"]) for a in simulator.state.attachments())


def properties(api: Application, node: str) -> list[dict[str, Any]]:
    """The targets' properties as stored, with their secrets."""
    targets, nodes = tables.volume_targets, tables.nodes
    statement = select(targets.c.properties).join_from(targets, nodes).where(nodes.c.uuid == node)
    with api.services.db.read() as connection:
        return [json.loads(text) for text in connection.execute(statement.order_by(targets.c.id)).scalars()]


def deployed(api: Application, *volumes: str) -> str:
    node = bootable(api.send, "cinder")
    for boot_index, volume in enumerate(volumes):
        give(api.send, node, volume, boot_index)
    ask(api.send, node, "active")
    api.settle(node, "active")
    return node


class TestLife:
    def test_deploy_attaches_and_tells_the_machine_how_to_connect(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        root, data = cinder_sim.state.create_volume(), cinder_sim.state.create_volume()
        node = deployed(cinder_api, root, data)
        assert held(cinder_sim) == sorted([(root, node, "attached"), (data, node, "attached")])
        initiator = INITIATOR.format("node-1")
        assert {tuple(export) for export in cinder_sim.state.exports()} == {
            (root, node, initiator),
            (data, node, initiator),
        }
        stored = properties(cinder_api, node)
        assert {document["auth_password"] for document in stored} == set(cinder_sim.state.secrets())
        assert all("attachment_id" not in document for document in stored)
        shown = cinder_api.send("GET", f"/v1/nodes/{node}")
        assert shown["power_state"] == "power on"
        assert shown["driver_internal_info"]["boot_from_volume"]
        script = cinder_api.call("GET", "/boot/ipxe/52-54-00-00-00-01").content.decode()
        assert f"volume-{root}" in script

    def test_tear_down_detaches_and_forgets_the_targets(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        root = cinder_sim.state.create_volume()
        node = deployed(cinder_api, root)
        ask(cinder_api.send, node, "deleted")
        cinder_api.settle(node, "available")
        assert held(cinder_sim) == []
        assert cinder_sim.state.exports() == []
        assert cinder_sim.state.volume_status(root) == "available"
        assert cinder_api.send("GET", f"/v1/volume/targets?node={node}")["targets"] == []
        assert len(cinder_api.send("GET", f"/v1/volume/connectors?node={node}")["connectors"]) == 1
        assert "boot_from_volume" not in cinder_api.send("GET", f"/v1/nodes/{node}")["driver_internal_info"]

    def test_an_active_node_keeps_its_volumes_only_while_it_is_on(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        root = cinder_sim.state.create_volume()
        node = deployed(cinder_api, root)
        before = properties(cinder_api, node)
        power(cinder_api.send, node, "power off")
        cinder_api.settle(node)
        assert held(cinder_sim) == []
        power(cinder_api.send, node, "power on")
        cinder_api.settle(node)
        assert held(cinder_sim) == [(root, node, "attached")]
        # A new export has a new secret, and the node knows it.
        assert properties(cinder_api, node) != before

    def test_a_reboot_keeps_them(self, cinder_api: Application, cinder_sim: cinder.Simulator) -> None:
        node = deployed(cinder_api, cinder_sim.state.create_volume())
        before = cinder_sim.state.attachments()
        power(cinder_api.send, node, "rebooting")
        cinder_api.settle(node)
        assert cinder_sim.state.attachments() == before

    def test_rebuild_keeps_them(self, cinder_api: Application, cinder_sim: cinder.Simulator) -> None:
        node = deployed(cinder_api, cinder_sim.state.create_volume())
        before = cinder_sim.state.attachments()
        ask(cinder_api.send, node, "rebuild")
        cinder_api.settle(node, "active")
        assert cinder_sim.state.attachments() == before

    def test_with_an_image_the_volumes_are_attached_and_the_disk_is_written(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        node = bootable(cinder_api.send, "cinder", instance_info={"image_source": "http://images/x"})
        volume = cinder_sim.state.create_volume()
        give(cinder_api.send, node, volume)
        ask(cinder_api.send, node, "active")
        cinder_api.settle(node, "active")
        assert held(cinder_sim) == [(volume, node, "attached")]
        assert "boot_from_volume" not in cinder_api.send("GET", f"/v1/nodes/{node}")["driver_internal_info"]
        assert cinder_api.call("GET", "/boot/ipxe/52-54-00-00-00-01").status == 404


class TestDelete:
    def test_a_deleted_node_leaves_no_attachment_behind(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        node = deployed(cinder_api, cinder_sim.state.create_volume())
        cinder_api.send("PUT", f"/v1/nodes/{node}/maintenance", {})
        refused = cinder_api.request("DELETE", f"/v1/nodes/{node}")
        assert refused.status == 409
        assert "is on and uses volumes" in refused.text
        # Off behind the service's back, or beyond its reach: recorded, and the attachment still there.
        cinder_sim.state.arm("error", "DELETE", ".", times=1)
        power(cinder_api.send, node, "power off")
        cinder_api.settle(node)
        assert len(held(cinder_sim)) == 1
        cinder_api.send("DELETE", f"/v1/nodes/{node}")
        assert held(cinder_sim) == []

    def test_a_node_without_an_instance_is_deleted_without_asking_cinder(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        node = bootable(cinder_api.send, "cinder")
        asked = len(cinder_sim.state.calls())
        cinder_api.send("DELETE", f"/v1/nodes/{node}")
        assert len(cinder_sim.state.calls()) == asked


class TestAdopt:
    def test_an_adopted_machine_finds_its_volume(self, api: Application) -> None:
        (node,) = enrol(
            api.send,
            1,
            state="manageable",
            storage_interface="external",
            boot_interface="ipxe",
            properties={"capabilities": "iscsi_boot:true"},
        )
        api.send("POST", "/v1/ports", {"node_uuid": node, "address": mac(1)})
        iqn = {"node_uuid": node, "type": "iqn", "connector_id": INITIATOR.format("node-1")}
        api.send("POST", "/v1/volume/connectors", iqn)
        give(api.send, node, "vol-1", **PROPERTIES)
        ask(api.send, node, "adopt")
        api.settle(node, "active")
        power(api.send, node, "power on")
        api.settle(node)
        assert api.call("GET", "/boot/ipxe/52-54-00-00-00-01").status == 200


class TestOthers:
    def test_an_attachment_made_for_the_instance_is_used_and_left_alone(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        """Nova attaches before it deploys, in the name of its server."""
        volume = cinder_sim.state.create_volume()
        handle = cinder_sim.state.handle
        connector = {"host": "10.0.0.9", "initiator": INITIATOR.format("node-1")}
        body = {"attachment": {"volume_uuid": volume, "instance_uuid": INSTANCE, "connector": connector}}
        theirs = handle("POST", "/attachments", {}, body)[1]["attachment"]["id"]
        handle("POST", f"/attachments/{theirs}/action", {}, {"os-complete": {}})
        node = bootable(cinder_api.send, "cinder", instance_uuid=INSTANCE)
        give(cinder_api.send, node, volume)
        ask(cinder_api.send, node, "active")
        cinder_api.settle(node, "active")
        assert properties(cinder_api, node)[0]["auth_password"] in cinder_sim.state.secrets()
        ask(cinder_api.send, node, "deleted")
        cinder_api.settle(node, "available")
        assert held(cinder_sim) == [(volume, INSTANCE, "attached")]

    def test_a_volume_of_somebody_else_fails_the_deploy_and_leaves_nothing(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        mine, theirs = cinder_sim.state.create_volume(), cinder_sim.state.create_volume()
        body = {"attachment": {"volume_uuid": theirs, "instance_uuid": INSTANCE}}
        cinder_sim.state.handle("POST", "/attachments", {}, body)
        node = bootable(cinder_api.send, "cinder")
        give(cinder_api.send, node, mine, 0)
        give(cinder_api.send, node, theirs, 1)
        ask(cinder_api.send, node, "active")
        shown = cinder_api.settle(node, "deploy failed")
        assert f"reserve volume {theirs}" in shown["last_error"]
        assert held(cinder_sim) == [(theirs, INSTANCE, "reserved")]
        assert cinder_sim.state.volume_status(mine) == "available"

    def test_a_volume_exported_in_another_way_is_refused(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        node = bootable(cinder_api.send, "cinder")
        give(cinder_api.send, node, cinder_sim.state.create_volume(kind="rbd"))
        ask(cinder_api.send, node, "active")
        assert "exports volume" in cinder_api.settle(node, "deploy failed")["last_error"]
        assert held(cinder_sim) == []


# What may go wrong: at which call, how, and before or after it had its effect.
CALLS = {
    "list": ("GET", r"^/attachments$"),
    "reserve": ("POST", r"^/attachments$"),
    "connect": ("PUT", r"^/attachments/"),
    "complete": ("POST", r"/action$"),
    "show": ("GET", r"^/attachments/"),
    "delete": ("DELETE", r"^/attachments/"),
}


class TestTrouble:
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("kind", ["error", "reset", "hang"])
    @pytest.mark.parametrize("call", CALLS)
    def test_one_lost_answer_changes_nothing(
        self, cinder_api: Application, cinder_sim: cinder.Simulator, call: str, kind: str, after: bool
    ) -> None:
        root = cinder_sim.state.create_volume()
        cinder_sim.state.arm(kind, *CALLS[call], after=after)
        node = deployed(cinder_api, root)
        assert held(cinder_sim) == [(root, node, "attached")]
        ask(cinder_api.send, node, "deleted")
        cinder_api.settle(node, "available")
        assert held(cinder_sim) == []

    def test_a_cinder_that_stays_away_fails_the_deploy_and_says_so(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        cinder_sim.state.arm("reset", "PUT", ".", times=99)
        node = bootable(cinder_api.send, "cinder")
        volume = cinder_sim.state.create_volume()
        give(cinder_api.send, node, volume)
        ask(cinder_api.send, node, "active")
        assert "the connection failed" in cinder_api.settle(node, "deploy failed")["last_error"]
        assert held(cinder_sim) == []

    def test_a_failed_detach_leaves_the_machine_off_and_says_so(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        root = cinder_sim.state.create_volume()
        node = deployed(cinder_api, root)
        cinder_sim.state.arm("error", "DELETE", ".", times=1)
        power(cinder_api.send, node, "power off")
        shown = cinder_api.settle(node)
        assert shown["power_state"] == "power off"
        assert "volumes are still attached" in shown["last_error"]
        ask(cinder_api.send, node, "deleted")
        cinder_api.settle(node, "available")
        assert held(cinder_sim) == []

    def test_a_failed_power_on_takes_the_volumes_back(
        self, cinder_api: Application, cinder_sim: cinder.Simulator
    ) -> None:
        node = deployed(cinder_api, cinder_sim.state.create_volume())
        power(cinder_api.send, node, "power off")
        cinder_api.settle(node)
        patch = [{"op": "add", "path": "/driver_info/fake_fail", "value": ["power.set_power_state"]}]
        cinder_api.send("PATCH", f"/v1/nodes/{node}", patch)
        power(cinder_api.send, node, "power on")
        assert cinder_api.settle(node)["last_error"]
        assert held(cinder_sim) == []

    def test_no_secret_is_logged_or_shown(
        self, cinder_api: Application, cinder_sim: cinder.Simulator, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        node = deployed(cinder_api, cinder_sim.state.create_volume())
        (secret,) = cinder_sim.state.secrets()
        shown = [
            cinder_api.request("GET", path).content.decode()
            for path in (f"/v1/nodes/{node}", f"/v1/volume/targets?detail=true&node={node}", "/v1/nodes?detail=true")
        ]
        flows = cinder_api.call("GET", f"/flows?subject={node}").content.decode()
        assert secret in json.dumps(properties(cinder_api, node))
        assert secret not in caplog.text
        assert not any(secret in text for text in [*shown, flows])
