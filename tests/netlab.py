"""A network of its own for tests with machines: a namespace with a bridge, and what runs in it.

The test's thread enters the namespace, so everything it starts is inside: the service, dnsmasq, tgtd, the
BMC and its machine. Nothing outside is touched, and when the namespace goes, so do its cards.
Debian packages: qemu-system-x86 ipxe-qemu seabios tgt dnsmasq-base iproute2.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000

GATEWAY = "10.77.0.1"
NETWORK = "10.77.0.0/24"
PREFIX = "fd00:77::/64"
GATEWAY_V6 = "fd00:77::1"


@contextmanager
def namespace() -> Iterator[str]:
    """A namespace with bridge `br0` (10.77.0.1, fd00:77::1) and a tap `tap0` on it; the caller is inside."""
    name = f"hf-test-{os.getpid()}-{time.monotonic_ns() % 1_000_000}"
    run("ip", "netns", "add", name)
    outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        inside = os.open(f"/run/netns/{name}", os.O_RDONLY)
        _enter(inside)
        os.close(inside)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        run("ip", "addr", "add", f"{GATEWAY}/24", "dev", "br0")
        run("ip", "-6", "addr", "add", f"{GATEWAY_V6}/64", "dev", "br0", "nodad")
        run("ip", "link", "set", "br0", "up")
        run("ip", "tuntap", "add", "tap0", "mode", "tap")
        run("ip", "link", "set", "tap0", "master", "br0", "up")
        yield name
    finally:
        _enter(outside)
        os.close(outside)
        run("ip", "netns", "del", name)


def _enter(descriptor: int) -> None:
    """Moves this thread, and whatever it starts from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns failed: the tests with machines need root")


@contextmanager
def process(log: Path, *command: str | Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs until the end, and is then killed: tgtd and QEMU do not heed SIGTERM."""
    with log.open("ab") as output:
        running = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
    try:
        yield running
    finally:
        running.kill()
        running.wait(10)


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done.stdout


def until(what: Callable[[], object], seconds: float, why: Callable[[], str]) -> None:
    """Waits for something to be true."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, why()
        time.sleep(0.1)


@contextmanager
def dnsmasq(directory: Path, printed: str) -> Iterator[None]:
    """dnsmasq with the configuration that `holdfast dhcp` printed."""
    configuration, log = directory / "dnsmasq.conf", directory / "dnsmasq.log"
    configuration.write_text(printed)
    command = ["dnsmasq", "--no-daemon", f"--conf-file={configuration}", "--user=root", "--log-dhcp"]
    with process(log, *command, f"--dhcp-leasefile={directory / 'leases'}", f"--pid-file={directory / 'pid'}"):
        until(lambda: "started" in log.read_text(), 10, log.read_text)
        yield


class Tgt:
    """A private tgtd and its control."""

    def __init__(self, directory: Path) -> None:
        self.socket = str(directory / "tgt")
        self.control = "77"

    def admin(self, mode: str, operation: str, *more: str) -> str:
        command = ("tgtadm", "-C", self.control, "--lld", "iscsi", "--mode", mode, "--op", operation, *more)
        return run(*command, TGT_IPC_SOCKET=self.socket)

    def export(self, number: int, name: str, volume: Path, user: str, password: str, initiator: str) -> None:
        """A volume as LUN 1 of a target, for one initiator with that login."""
        tid = ("--tid", str(number))
        self.admin("target", "new", *tid, "--targetname", name)
        self.admin("logicalunit", "new", *tid, "--lun", "1", "--backing-store", str(volume))
        self.admin("account", "new", "--user", user, "--password", password)
        self.admin("account", "bind", *tid, "--user", user)
        self.admin("target", "bind", *tid, "--initiator-name", initiator)

    def sessions(self) -> str:
        return self.admin("target", "show")


@contextmanager
def tgt(directory: Path, *portals: str) -> Iterator[Tgt]:
    """tgtd that listens on the given addresses."""
    server = Tgt(directory)
    log = directory / "tgtd.log"
    listens = ",".join(f"portal={portal}" for portal in portals)
    command = ["tgtd", "-f", "-C", server.control, "--iscsi", listens]
    with process(log, *command, TGT_IPC_SOCKET=server.socket):

        def answers() -> bool:
            return (
                subprocess.run(
                    ["tgtadm", "-C", server.control, "--lld", "iscsi", "--mode", "sys", "--op", "show"],
                    capture_output=True,
                    env={**os.environ, "TGT_IPC_SOCKET": server.socket},
                    timeout=10,
                ).returncode
                == 0
            )

        until(answers, 20, log.read_text)
        yield server


# Prints the message that follows it on the first serial port, and rests. Written for the BIOS at 0:7c00:
#         cli; xor ax,ax; mov ds,ax; mov ss,ax; mov sp,7c00; mov si,message
#   next: lodsb; test al,al; jz rest; mov bl,al
#   wait: mov dx,3fd; in al,dx; test al,20; jz wait; mov dx,3f8; mov al,bl; out dx,al; jmp next
#   rest: hlt; jmp rest
_BOOT_SECTOR = bytes.fromhex(
    "fa 31c0 8ed8 8ed0 bc007c be0000 ac 84c0 7412 88c3 bafd03 ec a820 74f8 baf803 88d8 ee ebe9 f4 ebfd"
)


def boot_sector(message: str) -> bytes:
    """A boot sector that says so on the serial console."""
    start = 0x7C00
    code = bytearray(_BOOT_SECTOR)
    address = start + len(code)
    at = code.index(b"\xbe\x00\x00") + 1
    code[at : at + 2] = address.to_bytes(2, "little")
    sector = bytes(code) + f"\r\n{message}\r\n".encode() + b"\x00"
    assert len(sector) <= 510
    return sector.ljust(510, b"\x00") + b"\x55\xaa"


# The same for UEFI, which has switched the processor to 64 bits:
#         lea rsi,[rip+message]
#   next: lodsb; test al,al; jz rest; mov bl,al
#   wait: mov edx,3fd; in al,dx; test al,20; jz wait; mov edx,3f8; mov al,bl; out dx,al; jmp next
#   rest: hlt; jmp rest
_EFI_CODE = bytes.fromhex("488d351e000000 ac 84c0 7416 88c3 bafd030000 ec a820 74f6 baf8030000 88d8 ee ebe5 f4 ebfd")


def efi_program(message: str) -> bytes:
    """A program for UEFI that says so on the serial console: the smallest PE32+ file, of headers and one section."""
    block, page, header = 512, 4096, 240
    code = _EFI_CODE + f"\r\n{message}\r\n".encode() + b"\x00"
    assert len(code) <= block
    pe = b"PE\x00\x00" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, header, 0x22)  # x86-64, one section, executable
    optional = struct.pack("<HHIIIII", 0x20B, 0, block, 0, 0, page, page)  # begins at the section's first byte
    optional += struct.pack("<QII6HIIII", 0, page, block, *[0] * 6, 0, 2 * page, block, 0)
    optional += struct.pack("<HHQQQQII", 10, 0, *[16 * page] * 4, 0, 16)  # an EFI application
    section = b".text".ljust(8, b"\x00") + struct.pack("<6IHHI", block, page, block, block, 0, 0, 0, 0, 0x60000020)
    headers = b"MZ".ljust(60, b"\x00") + (64).to_bytes(4, "little") + pe + optional.ljust(header, b"\x00") + section
    return headers.ljust(block, b"\x00") + code.ljust(block, b"\x00")


def volume(path: Path, message: str) -> Path:
    """A disk whose boot sector says that. Below 8 MiB a BIOS counts no whole cylinder and reads nothing."""
    path.write_bytes(boot_sector(message).ljust(16 << 20, b"\x00"))
    return path
