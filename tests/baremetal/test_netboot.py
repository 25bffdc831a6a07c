"""/boot: machines get their script, nobody else does, and what they report is shown on the node."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import update

from holdfast.db.tables import nodes
from tests.application import Answer, Application
from tests.volumes import PROPERTIES, SECRET, ask, bootable, give, mac, power

SCRIPT = f"/boot/ipxe/{mac(1).replace(':', '-')}"


def deployed(api: Application, **properties: Any) -> str:
    node = bootable(api.send, "external")
    give(api.send, node, "vol-1", **{**PROPERTIES, **properties})
    ask(api.send, node, "active")
    api.settle(node, "active")
    return node


def fetch(api: Application, path: str = SCRIPT, remote: str = "127.0.0.1") -> Answer:
    return api.call("GET", path, REMOTE_ADDR=remote)


class TestScript:
    def test_a_deployed_machine_gets_its_volume(self, api: Application) -> None:
        deployed(api)
        answer = fetch(api)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["cache-control"] == "no-store"
        text = answer.content.decode()
        assert text.startswith("#!ipxe\n")
        assert "sanhook --drive 0x80 iscsi:192.0.2.7::3260:1:iqn.2010-10.org.example:vol-1" in text
        assert f"set password {SECRET}" in text
        assert "set initiator-iqn iqn.2026-01.org.example:node-1" in text
        assert f"chain --replace --autofree {SCRIPT.rpartition('/')[2]} ||" in text

    def test_colons_in_the_address_will_do(self, api: Application) -> None:
        deployed(api)
        assert fetch(api, f"/boot/ipxe/{mac(1).upper()}").status == 200
        assert fetch(api, f"/boot/ipxe/{mac(1).replace(':', '%3A')}").status == 200

    def test_the_first_script_tries_every_card(self, api: Application) -> None:
        text = fetch(api, "/boot/boot.ipxe").content.decode()
        assert "chain --autofree ipxe/${net${card}/mac:hexhyp} ||" in text

    def test_it_follows_the_target(self, api: Application) -> None:
        node = deployed(api)
        power(api.send, node, "power off")
        api.settle(node)
        (target,) = api.send("GET", f"/v1/volume/targets?node={node}")["targets"]
        patch = [{"op": "replace", "path": "/properties/target_lun", "value": 10}]
        api.send("PATCH", f"/v1/volume/targets/{target['uuid']}", patch)
        power(api.send, node, "power on")
        api.settle(node)
        assert ":3260:a:iqn" in fetch(api).content.decode()

    def test_a_value_that_cannot_go_into_a_script_stops_the_deploy(self, api: Application) -> None:
        node = bootable(api.send, "external")
        give(api.send, node, "vol-1", **{**PROPERTIES, "auth_password": "two words"})
        answer = api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": "active"})
        assert answer.status == 400
        assert "auth_password cannot be put into a boot script" in answer.text
        assert "two words" not in answer.text


class TestWhoMay:
    def test_not_before_the_deploy(self, api: Application) -> None:
        node = bootable(api.send, "external")
        give(api.send, node, "vol-1", **PROPERTIES)
        assert fetch(api).status == 404

    def test_not_while_the_machine_is_off_or_torn_down(self, api: Application) -> None:
        node = deployed(api)
        power(api.send, node, "power off")
        api.settle(node)
        assert fetch(api).status == 404
        power(api.send, node, "power on")
        api.settle(node)
        assert fetch(api).status == 200
        ask(api.send, node, "deleted")
        api.settle(node, "available")
        assert fetch(api).status == 404

    @pytest.mark.parametrize("remote", ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "", "nonsense"])
    def test_not_from_another_network(self, api: Application, remote: str) -> None:
        deployed(api)
        answer = fetch(api, remote=remote)
        assert answer.status == 404
        assert SECRET.encode() not in answer.content

    @pytest.mark.parametrize("remote", ["127.0.0.9", "::1", "::ffff:127.0.0.1"])
    def test_from_an_allowed_one(self, api: Application, remote: str) -> None:
        deployed(api)
        assert fetch(api, remote=remote).status == 200

    def test_not_by_a_card_that_does_not_boot(self, api: Application) -> None:
        node = deployed(api)
        other = {"node_uuid": node, "address": "52:54:00:00:00:99", "pxe_enabled": False}
        api.send("POST", "/v1/ports", other)
        assert fetch(api, "/boot/ipxe/52-54-00-00-00-99").status == 404

    @pytest.mark.parametrize("address", ["52-54-00-00-00-77", "x", "52-54-00-00-00-01%0A"])
    def test_every_refusal_is_the_same(self, api: Application, address: str) -> None:
        deployed(api)
        answers = {fetch(api, f"/boot/ipxe/{address}").content, fetch(api, remote="10.0.0.1").content}
        assert len(answers) == 1


class TestReports:
    def test_a_failure_is_shown_on_the_node_until_it_boots_again(self, api: Application) -> None:
        node = deployed(api)
        assert fetch(api, f"{SCRIPT}/failed?failure=hook-410d613c").status == 200
        shown = api.send("GET", f"/v1/nodes/{node}")
        assert shown["last_error"].startswith("The machine could not boot. A volume could not be connected")
        assert "wrong CHAP user or secret" in shown["driver_internal_info"]["boot_failure"]["reason"]
        fetch(api)
        shown = api.send("GET", f"/v1/nodes/{node}")
        assert shown["last_error"] is None
        assert "boot_failure" not in shown["driver_internal_info"]

    @pytest.mark.parametrize("failure", ["", "hook", "hook-zz", "<script>", "hook-1%0Aevil", "a" * 500])
    def test_nothing_but_a_report_gets_onto_the_node(self, api: Application, failure: str) -> None:
        node = deployed(api)
        assert fetch(api, f"{SCRIPT}/failed?failure={failure}").status == 400
        assert api.send("GET", f"/v1/nodes/{node}")["last_error"] is None

    def test_not_from_another_network(self, api: Application) -> None:
        node = deployed(api)
        assert fetch(api, f"{SCRIPT}/failed?failure=hook-410d613c", remote="10.0.0.1").status == 404
        assert api.send("GET", f"/v1/nodes/{node}")["last_error"] is None

    def test_not_about_a_machine_that_is_not_booting(self, api: Application) -> None:
        node = bootable(api.send, "external")
        assert fetch(api, f"{SCRIPT}/failed?failure=hook-410d613c").status == 404
        assert api.send("GET", f"/v1/nodes/{node}")["last_error"] is None


class TestLeases:
    """A DHCP server tells what it has lent. Anybody nearby could: it sets one mark, and says nothing."""

    def booting(self, api: Application, **marks: str) -> str:
        """A node whose machine was switched on for a ramdisk."""
        (node,) = api.enrol(state="manageable", driver_info={"fake_wait": ["clean"]})
        api.send("POST", "/v1/ports", {"node_uuid": node, "address": mac(1)})
        ask(api.send, node, "provide")
        api.settle(node, "clean wait")
        self.mark(api, node, power_on="2026-01-01T00:00:00+00:00", **marks)
        return node

    def mark(self, api: Application, node: str, **marks: str) -> None:
        with api.services.db.write() as connection:
            connection.execute(
                update(nodes)
                .where(nodes.c.uuid == node)
                .values(driver_internal_info=json.dumps({"boot_progress": marks} if marks else {}))
            )

    def tell(self, api: Application, address: str = mac(1), remote: str = "127.0.0.1") -> tuple[int, bytes]:
        answer = api.call("POST", f"/boot/dhcp/{address}", REMOTE_ADDR=remote)
        return answer.status, answer.content

    def progress(self, api: Application, node: str) -> list[str]:
        return list(api.send("GET", f"/v1/nodes/{node}")["driver_internal_info"].get("boot_progress", {}))

    def test_a_lease_is_a_mark_of_the_boot(self, api: Application) -> None:
        node = self.booting(api)
        assert self.tell(api) == (204, b"")
        assert self.progress(api, node) == ["power_on", "dhcp"]

    def test_a_renewal_changes_nothing(self, api: Application) -> None:
        node = self.booting(api, dhcp="2026-01-01T00:00:01+00:00")
        self.tell(api)
        shown = api.send("GET", f"/v1/nodes/{node}")["driver_internal_info"]["boot_progress"]
        assert shown["dhcp"] == "2026-01-01T00:00:01+00:00"

    def test_a_late_report_still_comes_before_the_script(self, api: Application) -> None:
        node = self.booting(api, script_fetched="2026-01-01T00:00:02+00:00")
        self.tell(api)
        assert self.progress(api, node) == ["power_on", "dhcp", "script_fetched"]
        shown = api.send("GET", f"/v1/nodes/{node}")["driver_internal_info"]["boot_progress"]
        assert shown["dhcp"] == shown["script_fetched"]

    def test_only_for_a_machine_whose_ramdisk_has_not_called_yet(self, api: Application) -> None:
        node = self.booting(api)
        cases = ({}, {"power_on": "x", "lookup": "y"}, {"power_on": "x", "powered_off": "y"})
        for marks in cases:
            self.mark(api, node, **marks)
            self.tell(api)
            assert self.progress(api, node) == list(marks)

    def test_only_while_a_ramdisk_is_expected(self, api: Application) -> None:
        node = self.booting(api)
        with api.services.db.write() as connection:
            connection.execute(update(nodes).where(nodes.c.uuid == node).values(provision_state="active"))
        self.tell(api)
        assert self.progress(api, node) == ["power_on"]

    def test_only_from_an_allowed_network(self, api: Application) -> None:
        node = self.booting(api)
        self.tell(api, remote="10.0.0.1")
        assert self.progress(api, node) == ["power_on"]

    def test_nobody_learns_which_cards_there_are(self, api: Application) -> None:
        self.booting(api)
        told = {self.tell(api, address) for address in (mac(1), mac(1), mac(2), "x", "06-01:23:45:67:89:ab", "%0A")}
        assert told | {self.tell(api, remote="10.0.0.1")} == {(204, b"")}
