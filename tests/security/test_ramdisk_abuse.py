"""Strangers on the provisioning network: whatever they send to the endpoints for ramdisks is refused, changes
nothing, tells nothing, and is never an error of ours."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from holdfast import app
from holdfast.baremetal.flows import set_power_state
from holdfast.db import tables
from tests.application import Answer, Application, running
from tests.baremetal.test_waits import BEAT, waiting

MAC = "52:54:00:ab:05:01"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with running(tmp_path_factory.mktemp("abuse")) as application:
        yield application


class Victim:
    """A node that waits for its ramdisk, which has looked it up and sent a heartbeat."""

    def __init__(self, house: Application) -> None:
        self.house = house
        self.node = waiting(house, "clean")
        self.hold()
        self.token = house.send("GET", f"/v1/lookup?node_uuid={self.node}")["config"]["agent_token"]
        assert self.beat().status == 202

    def hold(self, by: str | None = "a/flow") -> None:
        """Somebody else is at work: heartbeats are only recorded, so that nothing moves by itself."""
        table = tables.nodes
        with self.house.services.db.write() as connection:
            connection.execute(table.update().where(table.c.uuid == self.node).values(reservation=by))

    def beat(self, **more: Any) -> Answer:
        body = {**BEAT, "agent_token": self.token, **more}
        body = {key: value for key, value in body.items() if value is not None}
        return self.house.request("POST", f"/v1/heartbeat/{self.node}", body)

    def row(self) -> dict[str, Any]:
        with self.house.services.db.read() as connection:
            row = connection.execute(select(tables.nodes).where(tables.nodes.c.uuid == self.node)).one()
        return dict(row._mapping)


@pytest.fixture
def victim(house: Application) -> Iterator[Victim]:
    made = Victim(house)
    yield made
    made.hold(None)


@pytest.mark.parametrize(
    "lie",
    [
        {"agent_token": None},
        {"agent_token": ""},
        {"agent_token": "******"},
        {"agent_token": "x" * 43},
        {"agent_token": "ü" * 43},
        {"agent_token": "x" * 100_000},
        {"callback_url": "http://192.0.2.66:9999"},
        {"callback_url": "https://192.0.2.7:9999"},
        {"callback_url": "http://192.0.2.7:9998"},
        {"agent_verify_ca": "-----BEGIN CERTIFICATE-----\nmine\n-----END CERTIFICATE-----"},
        {"agent_status": "hacked"},
        {"agent_version": "v" * 10_000},
        {"unknown": 1},
        {"callback_url": 1},
        {"callback_url": {"a": "b"}},
    ],
)
def test_a_lie_is_refused_and_changes_nothing(victim: Victim, lie: dict[str, Any]) -> None:
    before = victim.row()
    assert victim.beat(**lie).status == 400
    assert victim.row() == before


@pytest.mark.parametrize("version", ["1.22", "1.36", "1.61"])
def test_an_older_version_is_no_way_around_the_token(victim: Victim, version: str) -> None:
    before = victim.row()
    body = {"callback_url": BEAT["callback_url"]}
    assert victim.house.request("POST", f"/v1/heartbeat/{victim.node}", body, version=version).status == 400
    old = {"agent_url": BEAT["callback_url"]}
    path = f"/v1/nodes/{victim.node}/vendor_passthru/heartbeat"
    assert victim.house.request("POST", path, old, version=None).status == 400
    assert victim.row() == before


def test_a_second_lookup_gets_no_token(victim: Victim) -> None:
    for _ in range(3):
        found = victim.house.request("GET", f"/v1/lookup?node_uuid={victim.node}")
        assert found.json["config"]["agent_token"] == "******"
        assert victim.token.encode() not in found.content


def test_a_token_of_an_earlier_boot_is_refused(victim: Victim) -> None:
    victim.hold(None)
    house = victim.house
    table = tables.nodes
    with house.services.db.write() as connection:  # power cannot be changed while a node is being cleaned
        connection.execute(table.update().where(table.c.uuid == victim.node).values(provision_state="wait call-back"))
    params = set_power_state.PowerParams(node=victim.node, target="rebooting")
    house.services.flows.run(set_power_state.SET_POWER, params)
    assert victim.beat().status == 400
    fresh = house.send("GET", f"/v1/lookup?node_uuid={victim.node}")["config"]["agent_token"]
    assert fresh not in ("******", victim.token)
    assert victim.beat().status == 400


FORBIDDEN = [
    "http://127.0.0.1:6385",
    "http://127.1.2.3:80",
    "http://[::1]:6385",
    "http://0.0.0.0:80",
    "http://0.1.2.3:80",
    "http://169.254.169.254",
    "http://[fe80::1]:9999",
    "http://[fe80::1%25eth0]:9999",
    "http://[::ffff:127.0.0.1]:9999",
    "http://[::ffff:169.254.169.254]:9999",
    "http://224.0.0.1:9999",
    "http://255.255.255.255:9999",
    "http://[ff02::1]:9999",
    "http://localhost:9999",
    "http://metadata.google.internal",
    "http://2130706433:9999",
    "http://0x7f000001:9999",
    "http://0177.0.0.1:9999",
    "http://127.1:9999",
    "http://user:password@192.0.2.9:9999",
    "http://192.0.2.9:9999/v1/commands",
    "http://192.0.2.9:9999?x=1",
    "http://192.0.2.9:9999#x",
    "http://192.0.2.9:99999",
    "http://192.0.2.9:0",
    "http://192.0.2.9:9999\r\nX-Injected: 1",
    "http://192.0.2.9 :9999",
    "file:///etc/shadow",
    "gopher://192.0.2.9:70",
    "ftp://192.0.2.9",
    "//192.0.2.9:9999",
    "http:192.0.2.9",
    "http://",
    "",
]


@pytest.fixture(scope="module")
def silent(house: Application) -> tuple[str, str]:
    """A node whose ramdisk has not called yet, and the token it has."""
    node = waiting(house, "clean")
    return node, house.send("GET", f"/v1/lookup?node_uuid={node}")["config"]["agent_token"]


@pytest.mark.parametrize("url", FORBIDDEN)
def test_no_callback_leads_back_into_the_house(house: Application, silent: tuple[str, str], url: str) -> None:
    node, token = silent
    body = {**BEAT, "callback_url": url, "agent_token": token}
    assert house.request("POST", f"/v1/heartbeat/{node}", body).status == 400
    assert "agent_url" not in house.send("GET", f"/v1/nodes/{node}")["driver_internal_info"]


def test_ten_thousand_random_heartbeats_and_lookups_change_nothing(victim: Victim) -> None:
    house, dice = victim.house, random.Random(4)
    (idle,) = house.enrol()
    before = victim.row()
    with house.services.db.read() as connection:
        others = connection.execute(select(tables.nodes).where(tables.nodes.c.uuid != victim.node)).all()
        flows = connection.execute(select(tables.flows.c.id)).all()
    for number in range(10_000):
        answer = _random_request(house, dice, victim.node, idle)
        assert 400 <= answer.status < 500, (number, answer)
    assert victim.row() == before
    with house.services.db.read() as connection:
        assert connection.execute(select(tables.nodes).where(tables.nodes.c.uuid != victim.node)).all() == others
        assert connection.execute(select(tables.flows.c.id)).all() == flows


def _random_request(house: Application, dice: random.Random, victim: str, idle: str) -> Answer:
    node = dice.choice([victim, idle, _word(dice), f"{dice.getrandbits(128):032x}", "..", "%00", "é"])
    version = dice.choice([None, "1.22", "1.62", "latest", "9.9", "junk"])
    headers = {"X-OpenStack-Ironic-API-Version": version} if version else {}
    if dice.random() < 0.2:
        mac = ":".join(f"{dice.randrange(256):02x}" for _ in range(6))
        query = dice.choice([f"addresses={mac}", f"node_uuid={_word(dice)}", f"addresses={_word(dice)}", "a=b", ""])
        return house.call("GET", f"/baremetal/v1/lookup?{query}", headers=headers)
    body: Any = {
        "callback_url": dice.choice(["http://10.9.9.9:9999", _word(dice), None, 7]),
        "agent_token": dice.choice([_word(dice), None, [], ""]),
        "agent_version": dice.choice(["13.0.0", None, {}]),
        "agent_status": dice.choice([None, "end", _word(dice)]),
    }
    content = dice.choice([json.dumps(body).encode(), b"", b"{", _word(dice).encode(), b"[]", b'"x"'])
    path = dice.choice([f"/v1/heartbeat/{node}", f"/v1/nodes/{node}/vendor_passthru/heartbeat"])
    if dice.random() < 0.1:
        path = dice.choice(["/v1/continue_inspection", "/v1/drivers/x/vendor_passthru/lookup"])
    return house.call("POST", f"/baremetal{path}", content, headers)


def _word(dice: random.Random) -> str:
    return "".join(dice.choice(string.ascii_letters + string.digits) for _ in range(dice.randrange(1, 50)))


def test_every_reason_not_to_find_a_node_gives_the_same_bytes(house: Application) -> None:
    (idle,) = house.enrol(name="idle-one")
    house.send("POST", "/v1/ports", {"node_uuid": idle, "address": MAC})
    (other,) = house.enrol()
    house.send("POST", "/v1/ports", {"node_uuid": other, "address": "52:54:00:ab:05:02"})
    unknown = "11111111-1111-4111-8111-111111111111"
    lookups = [f"node_uuid={idle}", f"node_uuid={unknown}", f"addresses={MAC}", f"addresses={MAC},52:54:00:ab:05:02"]
    lookups += ["addresses=00:00:00:00:00:01"]
    answers = [house.request("GET", f"/v1/lookup?{query}") for query in lookups]
    idents = [idle, unknown, "idle-one", "nobody"]
    answers += [house.request("POST", f"/v1/heartbeat/{ident}", BEAT) for ident in idents]
    answers += [
        house.request("POST", f"/v1/nodes/{ident}/vendor_passthru/heartbeat", {"agent_url": BEAT["callback_url"]})
        for ident in idents
    ]
    answers += [
        house.request("POST", "/v1/drivers/any/vendor_passthru/lookup", {"inventory": {"interfaces": [mac]}})
        for mac in ({"mac_address": MAC}, {"mac_address": "00:00:00:00:00:01"})
    ]
    report = {"inventory": {"interfaces": [{"mac_address": MAC}]}}
    answers.append(house.request("POST", "/v1/continue_inspection", report, version=None))
    assert {answer.status for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1


def test_old_ramdisks_get_the_same_fields_and_no_more(house: Application) -> None:
    node = waiting(house, "clean")
    mac = "52:54:00:ab:05:03"
    house.send("POST", "/v1/ports", {"node_uuid": node, "address": mac})
    body = {"version": "2", "inventory": {"interfaces": [{"mac_address": mac.upper()}]}}
    found = house.request("POST", "/v1/drivers/agent_ipmitool/vendor_passthru/lookup", body, version=None)
    assert found.status == 200
    assert set(found.json) == {"heartbeat_timeout", "node"}
    assert set(found.json["node"]) == {"uuid", "properties", "instance_info", "driver_internal_info", "links"}
    path = f"/v1/nodes/{node}/vendor_passthru/heartbeat"
    assert house.request("POST", path, {"agent_url": BEAT["callback_url"]}, version=None).status == 202
    house.settle(node, "available")


# -- each with an application of its own: there is one flow engine in a process, so these come last


def test_only_configured_networks_are_called_back(tmp_path: Path) -> None:
    with running(tmp_path, agent__callback_networks=["10.1.0.0/16"], agent__require_tls=True) as house:
        node = waiting(house, "clean")
        token = house.send("GET", f"/v1/lookup?node_uuid={node}")["config"]["agent_token"]
        for url, status in (
            ("https://10.2.0.1:9999", 400),
            ("https://192.0.2.7:9999", 400),
            ("http://10.1.0.1:9999", 400),
            ("https://10.1.0.1:9999", 202),
        ):
            body = {**BEAT, "callback_url": url, "agent_token": token}
            assert house.request("POST", f"/v1/heartbeat/{node}", body).status == status, url


def test_one_address_cannot_keep_the_service_busy(tmp_path: Path) -> None:
    with running(tmp_path, api__ramdisk_rate_limit=0.001, api__ramdisk_rate_burst=5) as house:
        path = "/baremetal/v1/lookup?node_uuid=11111111-1111-4111-8111-111111111111"
        headers = {"X-OpenStack-Ironic-API-Version": "1.22"}

        def ask(source: str) -> int:
            return house.call("GET", path, headers=headers, REMOTE_ADDR=source).status

        assert [ask("10.0.0.1") for _ in range(7)] == [404] * 5 + [429] * 2
        assert ask("10.0.0.2") == 404
        assert [ask(f"2001:db8::{number}") for number in range(6)] == [404] * 5 + [429]
        assert [ask("127.0.0.1") for _ in range(9)] == [404] * 9
        assert ask("::ffff:10.0.0.1") == 429


def test_the_listener_for_ramdisks_serves_nothing_else(tmp_path: Path) -> None:
    with running(tmp_path, api__ramdisk_host="10.0.0.1", api__ramdisk_port=6386) as main:
        ramdisks = Application(main.services, app.build_ramdisk_wsgi(main.services))
        node = waiting(main, "clean")
        assert main.request("GET", f"/v1/lookup?node_uuid={node}").status == 404
        assert main.request("POST", f"/v1/heartbeat/{node}", BEAT).status == 404
        assert ramdisks.request("GET", f"/v1/lookup?node_uuid={node}").status == 200
        assert ramdisks.request("GET", "").json["default_version"]["version"]
        for path in ("/v1/nodes", f"/v1/nodes/{node}", "/v1/drivers", "/v1/ports", "/v1/chassis"):
            assert ramdisks.request("GET", path).status == 404
            assert main.request("GET", path).status == 200
        for path in ("/", "/flows", "/metrics", "/identity", "/readyz", "/openapi.json"):
            assert ramdisks.call("GET", path).status == 404
        assert ramdisks.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": "abort"}).status in (404, 405)
        assert ramdisks.request("DELETE", f"/v1/nodes/{node}").status in (404, 405)
