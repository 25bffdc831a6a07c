"""A machine boots a whole ramdisk with the real ironic-python-agent, and is deployed by it.

Everything is real but the metal: QEMU with iPXE and a disk, switched by an IPMI BMC, gets its address from dnsmasq as
`holdfast dhcp` configures it, its script from `holdfast serve`, and kernel, ramdisk and image from a web server.
The boot sector of the image says on the serial console that it ran.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import ipmi_bmc, netlab, ramdisk_image
from tests.netlab import GATEWAY, NETWORK, PREFIX
from tests.postgres import free_port
from tests.service import Service, serving

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("ramdisk"), pytest.mark.timeout(900)]

MAC = "52:54:00:77:00:04"
BOOTED = "BOOTED-FROM-THE-DISK"
RESCUE_PASSWORD = "c4nary-rescue-pw"
DISK_SIZE = 5 * 1024**3  # the agent overlooks disks of less than 4 GiB
IMAGE_SIZE = 16 * 1024**2
WEB_PORT = 8080
FIRMWARE = Path("/usr/share/OVMF")
PATIENCE = 300  # seconds for one boot of the ramdisk, on a machine that is busy with other tests

# A machine with one card and one disk. It boots from the card if the BMC was told so last, else as its firmware thinks.
MACHINE = f"""#!/bin/sh
case $(cat "$0.boot") in pxe) first=,bootindex=0;; *) first=;; esac
[ ! -e "$0.variables" ] || firmware="-drive if=pflash,format=raw,readonly=on,file={FIRMWARE / "OVMF_CODE_4M.fd"} \\
    -drive if=pflash,format=raw,file=$0.variables"
exec qemu-system-x86_64 -machine pc,accel=tcg,graphics=off -smp 2 -m 1024 -display none -monitor none $firmware \\
    -chardev file,id=console,path="$0.console",append=on -serial chardev:console \\
    -drive file="$0.disk",format=raw,if=virtio,cache=unsafe \\
    -netdev tap,id=n0,ifname=tap0,script=no,downscript=no -device virtio-net-pci,netdev=n0,mac={MAC}$first
"""

# The marks of a deploy, in their order.
PROGRESS = [
    *("power_on", "dhcp", "script_fetched", "lookup", "heartbeat"),
    *("image_started", "image_written", "powered_off", "rebooted"),
]


@dataclass
class Site:
    """A machine on its network, and a service that may be killed and started again."""

    directory: Path
    bmc: ipmi_bmc.Simulator
    port: int = field(default_factory=free_port)
    ramdisk_port: int = field(default_factory=free_port)

    @property
    def machine(self) -> Path:
        return self.directory / "machine"

    @property
    def disk(self) -> Path:
        return self.directory / "machine.disk"

    @property
    def web(self) -> str:
        return f"http://{GATEWAY}:{WEB_PORT}"

    def said(self) -> str:
        console = self.directory / "machine.console"
        return console.read_text(errors="replace") if console.exists() else ""

    def story(self) -> str:
        """What there is to see when something went wrong."""
        log = (self.directory / "state" / "log").read_text(errors="replace")
        return f"-- the machine's console\n{self.said()[-6000:]}\n-- the service\n{log[-4000:]}"

    @contextmanager
    def serving(self, **settings: str) -> Iterator[Service]:
        with serving(
            self.directory / "state",
            port=self.port,
            api__ramdisk_host=GATEWAY,
            api__ramdisk_port=str(self.ramdisk_port),
            api__ramdisk_heartbeat_timeout="10",
            agent__callback_networks=NETWORK,
            agent__require_tls="true",
            agent__power_off_wait="120",
            agent__erase_devices_priority="0",
            boot__allowed_networks=f"{NETWORK},{PREFIX}",
            boot__kernel_append_params="console=ttyS0",
            conductor__heartbeat_timeout="3",
            conductor__heartbeat_interval="1",
            **settings,
        ) as service:
            yield service

    def enrolled(self, service: Service, **fields: Any) -> str:
        (node,) = service.enrol(
            driver="ipmi",
            name="machine",
            driver_info={
                **self.bmc.driver_info(ipmi_cipher_suite=3),
                "deploy_kernel": f"{self.web}/kernel",
                "deploy_ramdisk": f"{self.web}/initramfs",
            },
            boot_interface="ipxe",
            deploy_interface="direct",
            inspect_interface="agent",
            rescue_interface="agent",
            **fields,
        )
        service.send("POST", "/v1/ports", {"node_uuid": node, "address": MAC})
        self.ask(service, node, "manage", "manageable")
        return node

    def ask(self, service: Service, node: str, verb: str, wanted: str, **more: Any) -> dict[str, Any]:
        service.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb, **more})
        return self.settle(service, node, wanted)

    def settle(self, service: Service, node: str, wanted: str) -> dict[str, Any]:
        shown: dict[str, Any] = {}

        def ended() -> bool:
            shown.update(service.send("GET", f"/v1/nodes/{node}"))
            state = shown["provision_state"]
            return (state == wanted or state.endswith("failed")) and shown["reservation"] is None

        netlab.until(ended, PATIENCE, lambda: f"{shown['provision_state']} for long\n{self.story()}")
        assert shown["provision_state"] == wanted, f"{shown['last_error']}\n{self.story()}"
        return shown

    def dhcp(self, service: Service) -> str:
        """What the command prints; leases are reported."""
        options = ["--interface", "br0", "--range", "10.77.0.100,10.77.0.150", "--ipv6-prefix", PREFIX, "--known-only"]
        where = ["--url", service.url, "--boot-url", f"http://{GATEWAY}:{self.ramdisk_port}"]
        report = ["--lease-script", self.directory / "lease"]
        return netlab.run(sys.executable, "-m", "holdfast", "dhcp", *options, *where, *report)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.fail("The tests with machines need root.")
    kernel, initramfs = ramdisk_image.built()
    web = tmp_path / "web"
    for directory in (web, tmp_path / "bmc"):
        directory.mkdir()
    (web / "kernel").symlink_to(kernel)
    (web / "initramfs").symlink_to(initramfs)
    machine = tmp_path / "machine"
    machine.write_text(MACHINE)
    machine.chmod(0o755)
    (tmp_path / "machine.boot").symlink_to(tmp_path / "bmc" / "chassis" / "boot")
    with (tmp_path / "machine.disk").open("wb") as disk:
        disk.truncate(DISK_SIZE)
    with ExitStack() as stack:
        stack.enter_context(netlab.namespace())
        bmc = stack.enter_context(ipmi_bmc.simulator(tmp_path / "bmc", machine=str(machine)))
        address = ["--bind", GATEWAY, "--directory", web]
        stack.enter_context(
            netlab.process(tmp_path / "web.log", sys.executable, "-m", "http.server", *address, str(WEB_PORT))
        )
        yield Site(tmp_path, bmc)


def image(directory: Path) -> tuple[bytes, dict[str, str]]:
    """A disk that a BIOS boots, with a partition of random bytes; its content, and what instance_info says of it."""
    partition = struct.pack("<BBBBBBBBII", 0x80, 0, 0, 0, 0x83, 0, 0, 0, 2048, IMAGE_SIZE // 512 - 2048)
    start = netlab.boot_sector(BOOTED)[:446] + partition + bytes(48) + b"\x55\xaa"
    content = start.ljust(2048 * 512, b"\x00") + os.urandom(IMAGE_SIZE - 2048 * 512)
    raw = directory / "image.raw"
    raw.write_bytes(content)
    return content, published(directory, raw)


def uefi_image(directory: Path) -> dict[str, str]:
    """A disk with an EFI partition, on which no firmware would find the program by itself."""
    raw, partition, program = (directory / name for name in ("image.raw", "partition", "program"))
    program.write_bytes(netlab.efi_program(BOOTED))
    for path, size in ((raw, 48), (partition, 40)):
        with path.open("wb") as file:
            file.truncate(size << 20)
    netlab.run("sgdisk", "--new=1:2048:+40M", "--typecode=1:ef00", raw)
    netlab.run("mkfs.vfat", partition)
    netlab.run("mmd", "-i", partition, "::/EFI", "::/EFI/system")
    netlab.run("mcopy", "-i", partition, program, "::/EFI/system/bootx64.efi")
    with raw.open("r+b") as file:
        file.seek(2048 * 512)
        file.write(partition.read_bytes())
    return published(directory, raw)


def published(directory: Path, raw: Path) -> dict[str, str]:
    """Puts a disk on the web server, as qcow2; what instance_info says of it."""
    qcow2 = directory / "web" / "image.qcow2"
    netlab.run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", raw, qcow2)
    digest = hashlib.sha256(qcow2.read_bytes()).hexdigest()
    return {"image_source": f"http://{GATEWAY}:{WEB_PORT}/image.qcow2", "image_checksum": digest}


def test_a_machine_is_deployed_though_the_service_is_killed_meanwhile_and_rescued(site: Site) -> None:
    """An image in qcow2, which the agent converts; and the machine boots from what it has written."""
    content, instance_info = image(site.directory)
    with ExitStack() as stack:
        with site.serving() as service:
            node = site.enrolled(service, automated_clean=False, instance_info=instance_info)
            site.ask(service, node, "provide", "available")
            stack.enter_context(netlab.dnsmasq(site.directory, site.dhcp(service)))
            site.ask(service, node, "active", "wait call-back")
            netlab.until(lambda: ramdisk_image.INIT_SAYS in site.said(), PATIENCE, site.story)
            service.kill()
        with site.serving() as service:
            deployed = site.settle(service, node, "active")
            netlab.until(lambda: BOOTED in site.said(), 60, site.story)
            with site.disk.open("rb") as disk:
                assert disk.read(IMAGE_SIZE) == content

            site.ask(service, node, "rescue", "rescue", rescue_password=RESCUE_PASSWORD)
            netlab.until(lambda: ramdisk_image.RESCUED_SAYS in site.said(), 60, site.story)
            site.ask(service, node, "unrescue", "active")
            netlab.until(lambda: site.said().count(BOOTED) == 2, 60, site.story)
            assert RESCUE_PASSWORD not in service.log + site.said()

    assert deployed["power_state"] == "power on"
    assert deployed["last_error"] is None
    internal = deployed["driver_internal_info"]
    progress = internal["boot_progress"]
    assert sorted(progress, key=progress.__getitem__) == PROGRESS
    assert not {"agent_secret_token", "agent_url", "agent_verify_ca"} & set(internal)
    # The ramdisk was booted once, by the network, and switched the machine off itself; then it was the disk's turn.
    assert site.bmc.commands()[:4] == ["boot pxe", "power 1", "boot default", "power 1"]
    assert site.said().count(ramdisk_image.INIT_SAYS) == 2  # for the deploy, and for the rescue


def test_a_machine_is_inspected_and_cleaned_by_its_ramdisk(site: Site) -> None:
    with site.disk.open("r+b") as disk:
        disk.write(image(site.directory)[0])
    with ExitStack() as stack:
        service = stack.enter_context(site.serving())
        node = site.enrolled(service)
        stack.enter_context(netlab.dnsmasq(site.directory, site.dhcp(service)))

        found = site.ask(service, node, "inspect", "manageable")
        assert found["properties"]["memory_mb"] == 1024
        assert found["properties"]["local_gb"] == DISK_SIZE // 1024**3 - 1
        assert "cpu_arch" in found["properties"]

        site.ask(service, node, "provide", "available")  # cleans
    with site.disk.open("rb") as disk:
        assert disk.read(512) == bytes(512)  # no partition is left


def test_a_machine_with_uefi_boots_by_the_entry_that_its_ramdisk_made(site: Site) -> None:
    shutil.copyfile(FIRMWARE / "OVMF_VARS_4M.fd", site.directory / "machine.variables")
    uefi = {"properties": {"capabilities": "boot_mode:uefi"}, "instance_info": uefi_image(site.directory)}
    with ExitStack() as stack:
        service = stack.enter_context(site.serving())
        node = site.enrolled(service, automated_clean=False, **uefi)
        site.ask(service, node, "provide", "available")
        stack.enter_context(netlab.dnsmasq(site.directory, site.dhcp(service)))
        site.ask(service, node, "active", "wait call-back")
        deployed = site.settle(service, node, "active")
        netlab.until(lambda: BOOTED in site.said(), 60, site.story)
    assert list(deployed["driver_internal_info"]["boot_progress"]) == PROGRESS


def test_a_boot_that_gets_stuck_on_its_way_to_the_script_says_where(site: Site) -> None:
    _content, instance_info = image(site.directory)
    with site.serving(agent__dhcp_timeout="5", conductor__check_provision_state_interval="1") as service:
        node = site.enrolled(service, automated_clean=False, instance_info=instance_info)
        site.ask(service, node, "provide", "available")
        failed = site.ask(service, node, "active", "deploy failed")  # there is no DHCP server
        assert "was lent no address by DHCP within 5 seconds" in failed["last_error"]
        assert list(failed["driver_internal_info"]["boot_progress"]) == ["power_on", "powered_off"]
    limits = {"agent__dhcp_timeout": str(PATIENCE), "agent__script_timeout": "5"}
    with site.serving(conductor__check_provision_state_interval="1", **limits) as service:
        astray = site.dhcp(service).replace("/boot/boot.ipxe", "/boot/nothing.ipxe")
        with netlab.dnsmasq(site.directory, astray):
            failed = site.ask(service, node, "active", "deploy failed")
        words = "was lent an address by DHCP, but did not fetch its boot script within 5 seconds"
        assert words in failed["last_error"], site.story()
        assert list(failed["driver_internal_info"]["boot_progress"]) == ["power_on", "dhcp", "powered_off"]
