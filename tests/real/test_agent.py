"""The real ironic-python-agent finds its node, cleans and is deployed to, also across kill -9 of the service.

What is not real here is the machine: a network namespace with a loop device as disk (`tests/agent.py`), whose
power is simulated; the test starts the agent where firmware would boot its ramdisk.
"""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent import DISK_SIZE, PORT, Machine, machine
from tests.postgres import free_port
from tests.service import Service, serving

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.xdist_group("agent"),
]

IMAGE_SIZE = 48 * 1024**2


@pytest.fixture
def booted(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path / "machine", os.getpid() % 250) as made:
        yield made


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random bytes that no disk has by accident, with the partition table the agent insists on."""
    path = tmp_path_factory.mktemp("images") / "system.raw"
    partition = struct.pack("<BBBBBBBBII", 0x80, 0, 0, 0, 0x83, 0, 0, 0, 2048, IMAGE_SIZE // 512 - 2048)
    path.write_bytes(bytes(446) + partition + bytes(48) + b"\x55\xaa" + os.urandom(IMAGE_SIZE - 512))
    return path


class Site:
    """A service with a listener of its own for the machine's network; it may be killed and started again."""

    def __init__(self, directory: Path, made: Machine, images: Path) -> None:
        self.directory = directory
        self.machine = made
        self.images = images
        self.port, self.ramdisk_port = free_port(), free_port()

    @property
    def api_url(self) -> str:
        return f"http://{self.machine.address}:{self.ramdisk_port}/baremetal"

    @contextmanager
    def serving(self, fault: str = "") -> Iterator[Service]:
        with serving(
            self.directory / "state",
            port=self.port,
            fault=fault,
            api__ramdisk_host=self.machine.address,
            api__ramdisk_port=str(self.ramdisk_port),
            api__ramdisk_heartbeat_timeout="6",
            agent__callback_networks=f"{self.machine.own_address}/32",
            agent__image_roots=str(self.images),
            agent__power_off_wait="1",
            agent__erase_devices_priority="0",
            conductor__heartbeat_timeout="3",
            conductor__heartbeat_interval="1",
        ) as service:
            yield service


@pytest.fixture
def site(tmp_path: Path, booted: Machine, image: Path) -> Site:
    return Site(tmp_path, booted, image.parent)


def enrol(service: Service, made: Machine, image: Path) -> str:
    (node,) = service.enrol(
        deploy_interface="direct",
        inspect_interface="agent",
        automated_clean=False,
        instance_info={
            "image_source": f"file://{image}",
            "image_checksum": hashlib.sha256(image.read_bytes()).hexdigest(),
        },
    )
    service.send("POST", "/v1/ports", {"node_uuid": node, "address": made.mac})
    service.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "manage"})
    service.settle(node, "manageable")
    return node


def ask(service: Service, node: str, target: str, **more: Any) -> None:
    service.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": target, **more})


def settle(service: Service, made: Machine, node: str, wanted: str, seconds: float = 120) -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        shown: dict[str, Any] = service.send("GET", f"/v1/nodes/{node}")
        ended = shown["provision_state"] == wanted or shown["provision_state"].endswith("failed")
        return shown if ended and shown["reservation"] is None else None

    shown = until(there, seconds, lambda: f"{service.log[-4000:]}\n{made.log[-6000:]}")
    assert shown["provision_state"] == wanted, f"{shown['last_error']}\n{made.log[-6000:]}"
    return shown


def until(true: Callable[[], Any], seconds: float = 60, tell: Callable[[], str] = str) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, tell()
        time.sleep(0.1)
    return found


def written(made: Machine, image: Path) -> bool:
    """Whether the disk begins with the image, byte for byte."""
    with made.disk.open("rb") as disk, image.open("rb") as wanted:
        return hashlib.file_digest(wanted, "sha256").digest() == hashlib.sha256(disk.read(IMAGE_SIZE)).digest()


def test_a_machine_is_cleaned_and_deployed(site: Site, booted: Machine, image: Path) -> None:
    subprocess.run(["sgdisk", "--new=1:2048:+64M", f"/dev/{booted.loop}"], check=True, capture_output=True)
    with booted.disk.open("rb") as disk:
        assert b"EFI PART" in disk.read(4096)
    with site.serving() as service:
        node = enrol(service, booted, image)

        ask(service, node, "clean", clean_steps=[{"interface": "deploy", "step": "erase_devices_metadata"}])
        settle(service, booted, node, "clean wait")
        booted.switch_on(site.api_url)
        settle(service, booted, node, "manageable")
        with booted.disk.open("rb") as disk:
            assert b"EFI PART" not in disk.read(4096)
            disk.seek(DISK_SIZE - 4096)
            assert b"EFI PART" not in disk.read()
        booted.switch_off()

        ask(service, node, "provide")
        settle(service, booted, node, "available")
        ask(service, node, "active")
        settle(service, booted, node, "wait call-back")
        booted.switch_on(site.api_url)
        deployed = settle(service, booted, node, "active")
        assert written(booted, image)
        assert deployed["power_state"] == "power on"
        progress = deployed["driver_internal_info"]["boot_progress"]
        assert {"power_on", "lookup", "heartbeat", "image_started", "image_written", "powered_off"} <= set(progress)
        assert f"announcing callback URL https://{booted.own_address}:{PORT}" in booted.log
        assert "agent_secret_token" not in deployed["driver_internal_info"]
        assert booted.power_log


def test_a_machine_is_inspected(site: Site, booted: Machine, image: Path) -> None:
    with site.serving() as service:
        node = enrol(service, booted, image)
        ask(service, node, "inspect")
        settle(service, booted, node, "inspect wait")
        url = f"{site.api_url}/v1/continue_inspection"
        booted.switch_on(site.api_url, inspection_callback_url=url, inspection_collectors="default")
        found = settle(service, booted, node, "manageable")["properties"]
    assert found["cpus"] == os.cpu_count()
    assert found["memory_mb"] > 0
    assert found["local_gb"] == DISK_SIZE // 1024**3 - 1


@pytest.mark.crash
@pytest.mark.parametrize(
    "fault",
    [
        "deploy_node.deploy.do.inside=kill",  # the machine is on, nobody has noted it
        "continue_deploy.deploy.do.inside=kill",  # the agent writes, nobody has noted it
        "continue_deploy.begin.do.after=kill",
    ],
)
def test_a_deploy_survives_kill_9_while_the_agent_waits(site: Site, booted: Machine, image: Path, fault: str) -> None:
    with site.serving(fault) as service:
        node = enrol(service, booted, image)
        ask(service, node, "provide")
        settle(service, booted, node, "available")
        try:
            ask(service, node, "active")
        except OSError:  # the answer died with it
            pass
        if not fault.startswith("deploy_node"):
            settle(service, booted, node, "wait call-back")
            booted.switch_on(site.api_url)
        until(lambda: _is_killed(service), 90, lambda: service.log[-4000:])
        service.kill()
    with site.serving() as service:
        if fault.startswith("deploy_node"):
            settle(service, booted, node, "wait call-back")
            booted.switch_on(site.api_url)
        settle(service, booted, node, "active")
        assert written(booted, image)


@pytest.mark.crash
def test_cleaning_survives_kill_9_while_the_agent_waits(site: Site, booted: Machine, image: Path) -> None:
    subprocess.run(["sgdisk", "--new=1:2048:+64M", f"/dev/{booted.loop}"], check=True, capture_output=True)
    with site.serving("continue_cleaning.clean.do.inside=kill") as service:
        node = enrol(service, booted, image)
        ask(service, node, "clean", clean_steps=[{"interface": "deploy", "step": "erase_devices_metadata"}])
        settle(service, booted, node, "clean wait")
        booted.switch_on(site.api_url)
        until(lambda: _is_killed(service), 90, lambda: service.log[-4000:])
        service.kill()
    with site.serving() as service:
        settle(service, booted, node, "manageable")
    with booted.disk.open("rb") as disk:
        assert b"EFI PART" not in disk.read(4096)


def _is_killed(service: Service) -> bool:
    """A worker that was killed is replaced at once, and killed again at the same point: so its log tells."""
    try:
        return not service.session.get(f"{service.url}/healthz", timeout=5).ok
    except OSError:
        return True
