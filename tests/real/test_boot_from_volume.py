"""A machine really boots from a remote volume.

Everything is real but the metal: QEMU with iPXE, switched by an IPMI BMC, gets its address from dnsmasq as
`holdfast dhcp` configures it, its script from `holdfast serve`, and its disk from tgtd with CHAP. The
boot sector of the volume says on the serial console that it ran.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests import ipmi_bmc, netlab
from tests.netlab import GATEWAY, GATEWAY_V6, NETWORK, PREFIX
from tests.service import Service, serving

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("machines")]

MAC = "52:54:00:77:00:02"
ADDRESS = "10.77.0.102"
INITIATOR = "iqn.2026-01.org.example:node-2"
TARGET = "iqn.2026-01.org.example:volume"
USER, SECRET = "c4nary-chap-user", "c4nary-chap-secret"
BOOTED = "BOOTED-FROM-THE-VOLUME"
OPERATOR, PASSWORD = "operator", "c4nary-operator-pw"

# A machine with one card and no disk. The BMC's chassis script starts and kills it.
MACHINE = (
    "qemu-system-x86_64 -machine pc,accel=tcg,graphics=off -m 128 -display none -monitor none -boot n "
    "-serial file:{console} -netdev tap,id=n0,ifname=tap0,script=no,downscript=no "
    f"-device virtio-net-pci,netdev=n0,mac={MAC}"
)


@dataclass
class Lab:
    """What a test has at hand: the service, the storage, and what the machine says."""

    service: Service
    tgt: netlab.Tgt
    directory: Path
    console: Path
    node: str = ""

    def said(self) -> str:
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def expect(self, words: str, seconds: float = 90) -> None:
        netlab.until(lambda: words in self.said(), seconds, self.said)

    def give(self, volume: str = "vol-1", boot_index: int = 0, **properties: Any) -> None:
        body = {"node_uuid": self.node, "volume_type": "iscsi", "volume_id": volume, "boot_index": boot_index}
        login = {"auth_method": "CHAP", "auth_username": USER, "auth_password": SECRET}
        self.service.send("POST", "/v1/volume/targets", {**body, "properties": {**login, **properties}})

    def deploy(self) -> None:
        self.service.send("PUT", f"/v1/nodes/{self.node}/states/provision", {"target": "active"})
        self.service.settle(self.node, "active")

    def shown(self) -> dict[str, Any]:
        document: dict[str, Any] = self.service.send("GET", f"/v1/nodes/{self.node}")
        return document


@contextmanager
def a_lab(directory: Path) -> Iterator[Lab]:
    console = directory / "console"
    users = directory / "htpasswd"
    users.write_text(f"{OPERATOR}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
    with ExitStack() as stack:
        stack.enter_context(netlab.namespace())
        tgt = stack.enter_context(netlab.tgt(directory, f"{GATEWAY}:3260", f"[{GATEWAY_V6}]:3260"))
        bmc_directory = directory / "bmc"
        bmc_directory.mkdir()
        bmc = stack.enter_context(ipmi_bmc.simulator(bmc_directory, machine=MACHINE.format(console=console)))
        service = stack.enter_context(
            serving(
                directory / "state",
                api__host="0.0.0.0",
                default__auth_strategy="http_basic",
                default__http_basic_auth_user_file=str(users),
                boot__allowed_networks=f"{NETWORK},{PREFIX}",
                boot__attempts="2",
                boot__retry_delay="1",
                boot__restart_delay="2",
            )
        )
        service.session.auth = (OPERATOR, PASSWORD)
        lab = Lab(service, tgt, directory, console)
        lab.node = enrolled(service, bmc)
        stack.enter_context(dnsmasq(lab))
        yield lab


def enrolled(service: Service, bmc: ipmi_bmc.Simulator) -> str:
    (node,) = service.enrol(
        driver="ipmi",
        name="machine",
        driver_info=bmc.driver_info(ipmi_cipher_suite=3),
        boot_interface="ipxe",
        storage_interface="external",
        properties={"capabilities": "iscsi_boot:true"},
    )
    service.send("POST", "/v1/ports", {"node_uuid": node, "address": MAC})
    for kind, name in (("iqn", INITIATOR), ("ip", ADDRESS), ("mac", MAC)):
        service.send("POST", "/v1/volume/connectors", {"node_uuid": node, "type": kind, "connector_id": name})
    for verb in ("manage", "provide"):
        service.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb})
        service.settle(node)
    return node


@contextmanager
def dnsmasq(lab: Lab) -> Iterator[None]:
    """dnsmasq with the configuration that the command prints."""
    options = ["--interface", "br0", "--range", "10.77.0.100,10.77.0.150", "--ipv6-prefix", PREFIX, "--known-only"]
    where = ["--url", lab.service.url, "--boot-url", f"http://{GATEWAY}:{lab.service.port}"]
    printed = netlab.run(
        sys.executable, "-m", "holdfast", "dhcp", *options, *where, OS_USERNAME=OPERATOR, OS_PASSWORD=PASSWORD
    )
    with netlab.dnsmasq(lab.directory, printed):
        yield


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.fail("The tests with machines need root.")
    with a_lab(tmp_path) as built:
        yield built


def test_a_machine_boots_from_its_volume(lab: Lab) -> None:
    lab.tgt.export(1, TARGET, netlab.volume(lab.directory / "volume", BOOTED), USER, SECRET, INITIATOR)
    lab.give(target_iqn=TARGET, target_portal=f"{GATEWAY}:3260", target_lun=1)
    lab.deploy()
    lab.expect(BOOTED)
    sessions = lab.tgt.sessions()
    assert INITIATOR in sessions
    assert ADDRESS in sessions  # dnsmasq lent the address of the ip connector
    shown = lab.shown()
    assert shown["provision_state"] == "active"
    assert shown["last_error"] is None
    assert SECRET not in str(shown)
    assert SECRET not in lab.service.log


def test_any_path_will_do(lab: Lab) -> None:
    """Two paths, each with its own name and LUN; nothing answers on the first. The second is IPv6."""
    volume = netlab.volume(lab.directory / "volume", BOOTED)
    lab.tgt.export(1, TARGET, volume, USER, SECRET, INITIATOR)
    lab.give(
        target_iqns=["iqn.2026-01.org.example:dead", TARGET],
        target_portals=[f"{GATEWAY}:3999", f"[{GATEWAY_V6}]:3260"],
        target_luns=[7, 1],
    )
    lab.deploy()
    lab.expect(BOOTED)
    assert INITIATOR in lab.tgt.sessions()


def test_further_volumes_are_connected_too(lab: Lab) -> None:
    for number, name in enumerate(("root", "data"), start=1):
        message = BOOTED if name == "root" else "NOT-THIS-ONE"
        volume = netlab.volume(lab.directory / name, message)
        login = (USER, SECRET) if name == "root" else ("other-user", "other-chap-secret")
        lab.tgt.export(number, f"{TARGET}-{name}", volume, *login, INITIATOR)
    portal = {"target_portal": f"{GATEWAY}:3260", "target_lun": 1}
    lab.give(
        "vol-data",
        1,
        target_iqn=f"{TARGET}-data",
        auth_username="other-user",
        auth_password="other-chap-secret",
        **portal,
    )
    lab.give("vol-root", 0, target_iqn=f"{TARGET}-root", **portal)
    lab.deploy()
    lab.expect(BOOTED)
    assert lab.tgt.sessions().count(INITIATOR) >= 2
    assert "NOT-THIS-ONE" not in lab.said()


def test_a_wrong_secret_fails_visibly_and_the_right_one_mends_it(lab: Lab) -> None:
    lab.tgt.export(1, TARGET, netlab.volume(lab.directory / "volume", BOOTED), USER, SECRET, INITIATOR)
    lab.give(target_iqn=TARGET, target_portal=f"{GATEWAY}:3260", target_lun=1, auth_password="wrong-chap-secret")
    lab.deploy()
    netlab.until(lambda: lab.shown()["last_error"], 120, lab.said)
    shown = lab.shown()
    assert (
        "The machine could not boot. A volume could not be connected: the storage refused the login"
        in (shown["last_error"])
    )
    assert "wrong CHAP user or secret" in shown["driver_internal_info"]["boot_failure"]["reason"]
    assert BOOTED not in lab.said()
    assert "wrong-chap-secret" not in str(shown) + lab.service.log

    # Off, the right secret, on: it boots, and the node no longer complains.
    power = f"/v1/nodes/{lab.node}/states/power"
    lab.service.send("PUT", power, {"target": "power off"})
    lab.service.settle(lab.node)
    (target,) = lab.service.send("GET", f"/v1/volume/targets?node={lab.node}")["targets"]
    patch = [{"op": "replace", "path": "/properties/auth_password", "value": SECRET}]
    lab.service.send("PATCH", f"/v1/volume/targets/{target['uuid']}", patch)
    lab.service.send("PUT", power, {"target": "power on"})
    lab.service.settle(lab.node)
    lab.expect(BOOTED)
    shown = lab.shown()
    assert shown["last_error"] is None
    assert "boot_failure" not in shown["driver_internal_info"]


def test_nobody_else_gets_the_script(lab: Lab) -> None:
    """It holds the CHAP secret: only the machine's network, only while the machine is to boot."""
    lab.tgt.export(1, TARGET, netlab.volume(lab.directory / "volume", BOOTED), USER, SECRET, INITIATOR)
    lab.give(target_iqn=TARGET, target_portal=f"{GATEWAY}:3260", target_lun=1)
    script = f"/boot/ipxe/{MAC.replace(':', '-')}"
    near, far = f"http://{GATEWAY}:{lab.service.port}", lab.service.url

    def fetch(base: str) -> int:
        return lab.service.session.get(base + script, timeout=10, auth=("", "")).status_code

    assert fetch(near) == 404  # not deployed
    lab.deploy()
    assert fetch(near) == 200
    assert fetch(far) == 404  # from 127.0.0.1, which is not in [boot] allowed_networks here
    lab.service.send("PUT", f"/v1/nodes/{lab.node}/states/power", {"target": "power off"})
    lab.service.settle(lab.node)
    assert fetch(near) == 404


def test_the_guide_works_when_pasted(tmp_path: Path) -> None:
    """docs/boot-from-volume.md, word for word, on a machine of ours."""
    page = (Path(__file__).parents[2] / "docs" / "boot-from-volume.md").read_text()
    commands = "\n".join(re.findall(r"```sh guide\n(.*?)```", page, re.DOTALL))
    down = commands.index("baremetal node undeploy")
    # Before it is taken down again, the machine must have come up.
    script = f"{commands[:down]}\nuntil [ -e {tmp_path}/seen ]; do sleep 0.1; done\n{commands[down:]}"
    console = tmp_path / "console"
    (tmp_path / "bmc").mkdir()
    with netlab.namespace(), ipmi_bmc.simulator(tmp_path / "bmc", machine=MACHINE.format(console=console)) as bmc:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TGT_IPC_SOCKET": str(tmp_path / "tgt"),
            "BMC_ADDRESS": "127.0.0.1",
            "BMC_PORT": str(bmc.port),
            "BMC_USER": ipmi_bmc.USER,
            "BMC_PASSWORD": ipmi_bmc.PASSWORD,
            "MAC": MAC,
            "IMAGE": str(netlab.volume(tmp_path / "image", BOOTED)),
        }
        log = tmp_path / "guide.log"
        with log.open("wb") as output:
            following = subprocess.Popen(
                ["bash", "-euxo", "pipefail", "-c", script],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        def said() -> str:
            return log.read_text(errors="replace") + (console.read_text(errors="replace") if console.exists() else "")

        try:
            netlab.until(lambda: following.poll() is not None or BOOTED in said(), 200, said)
            assert BOOTED in said(), said()
            (tmp_path / "seen").touch()
            assert following.wait(120) == 0, said()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(following.pid, signal.SIGKILL)
            following.wait(10)
