"""A real ironic-python-agent for tests: installed from PyPI into a venv of its own, on a machine that is none.

    python -m tests.agent        installs it (once; the fixture does the same when it is missing)

The machine is a network namespace with one network card of a chosen MAC address, and one loop device as its
disk. The agent must think it owns the computer it runs on, and would pick this one's disk and switch this one
off: so it gets a /dev with nothing in it but its loop device, a read-only /sys, a process namespace of its
own, and stand-ins for the commands that switch machines off or load drivers. `lsblk` calls the loop device
a disk. All of it needs root.

The venv is `.venv-agent` in the project, or where HOLDFAST_AGENT_VENV points.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import venvs

REQUIREMENT = "ironic-python-agent>=13,<14"
VENV = Path(os.environ.get("HOLDFAST_AGENT_VENV") or Path(__file__).parent.parent / ".venv-agent")
PORT = 9999
DISK_SIZE = 5 * 1024**3  # the agent overlooks disks of less than 4 GiB

_ISOLATED = "ip netns exec {name} unshare --mount --pid --fork --kill-child --mount-proc bash"
_POWER = '#!/bin/sh\necho "$(basename "$0") $*" >> "{log}"\n'
_NOTHING = "#!/bin/sh\nexit 0\n"
_LSBLK = """#!{python}
import json, os, subprocess, sys


own = os.environ["AGENT_LOOP"]
done = subprocess.run(["/usr/bin/lsblk", *sys.argv[1:]], capture_output=True, text=True)
text = done.stdout
try:
    report = json.loads(text)
except ValueError:
    text = text.replace('TYPE="loop"', 'TYPE="disk"')
else:
    asked = any(argument.startswith("/dev/") for argument in sys.argv)
    devices = [d for d in report["blockdevices"] if asked or str(d.get("kname") or d.get("name")).startswith(own)]
    for device in devices:
        if device.get("type") == "loop":
            device["type"] = "disk"
        if "serial" in device:
            device["serial"] = device["serial"] or "HOLDFAST0001"
    text = json.dumps({{"blockdevices": devices}})
sys.stdout.write(text)
sys.stderr.write(done.stderr)
sys.exit(done.returncode)
"""
_SANDBOX = """#!/bin/bash
# In a mount and a process namespace of its own: hides this computer, then becomes the agent.
set -euo pipefail
mount --make-rprivate /
dev=$(mktemp -d)
mount -t tmpfs -o mode=755 dev "$dev"
mknod -m 666 "$dev/null" c 1 3
mknod -m 666 "$dev/zero" c 1 5
mknod -m 666 "$dev/random" c 1 8
mknod -m 666 "$dev/urandom" c 1 9
mknod -m 600 "$dev/$AGENT_LOOP" b 7 "${AGENT_LOOP#loop}"
mkdir "$dev/shm" "$dev/disk"
ln -s /proc/self/fd "$dev/fd"
mount --move "$dev" /dev
[ ! -e /proc/sysrq-trigger ] || mount --bind /dev/null /proc/sysrq-trigger
mount -o remount,bind,ro /sys
for disk in /sys/block/*; do
    name=$(basename "$disk")
    [ "$name" = "$AGENT_LOOP" ] || [ ! -e "/dev/$name" ] || exit 1
done
export PATH="$AGENT_SHIMS:$PATH"
exec "$@"
"""


@dataclass
class Machine:
    """The namespace, its network, and its disk. `address` is ours as the machine reaches us."""

    name: str
    mac: str
    address: str
    own_address: str
    disk: Path
    loop: str
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        path = self.directory / "agent.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def power_log(self) -> str:
        path = self.directory / "power.log"
        return path.read_text() if path.exists() else ""

    def switch_on(self, api_url: str, **options: str) -> None:
        """Starts the agent, which knows where to ask."""
        settings = {"api_url": api_url, "listen_host": "0.0.0.0", "debug": "true", "lookup_interval": "1", **options}
        config = self.directory / "agent.conf"
        config.write_text("[DEFAULT]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))
        agent = [VENV / "bin/ironic-python-agent", "--config-file", config]
        with open(self.directory / "agent.log", "ab") as log:
            self.process = subprocess.Popen(
                [*_ISOLATED.format(name=self.name).split(), self.directory / "sandbox", *agent],
                stdout=log,
                stderr=log,
                env={**os.environ, "AGENT_LOOP": self.loop, "AGENT_SHIMS": str(self.directory / "shims")},
                start_new_session=True,
            )

    def switch_off(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def machine(directory: Path, number: int) -> Iterator[Machine]:
    """A machine that is off. `number` tells machines that run at the same time apart."""
    install()
    name = f"holdfast-agent-{number}"
    ours, net = f"hfagent{number}", f"10.78.{number % 250}"
    made = Machine(
        name=name,
        mac=f"52:54:00:be:ef:{number % 256:02x}",
        address=f"{net}.1",
        own_address=f"{net}.2",
        disk=directory / "disk.raw",
        loop="",
        directory=directory,
    )
    _prepare(made)
    with made.disk.open("wb") as disk:
        disk.truncate(DISK_SIZE)
    _run("ip", "netns", "add", name)
    try:
        # Cards of other kinds than this name promises are not counted as the machine's own.
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", "eth0.1", "netns", name)
        _run("ip", "addr", "add", f"{made.address}/24", "dev", ours)
        _run("ip", "link", "set", ours, "up")
        _run("ip", "-n", name, "link", "set", "eth0.1", "address", made.mac)
        _run("ip", "-n", name, "addr", "add", f"{made.own_address}/24", "dev", "eth0.1")
        _run("ip", "-n", name, "link", "set", "eth0.1", "up")
        _run("ip", "-n", name, "link", "set", "lo", "up")
        made.loop = Path(_run("losetup", "--find", "--show", str(made.disk))).name
        yield made
    finally:
        made.switch_off()
        if made.loop:
            _run("losetup", "--detach", f"/dev/{made.loop}")
        subprocess.run(["ip", "link", "del", ours], capture_output=True)  # a namespace takes its cards along, but later
        _run("ip", "netns", "del", name)


def _prepare(made: Machine) -> None:
    shims = made.directory / "shims"
    shims.mkdir(parents=True)
    power = _POWER.format(log=made.directory / "power.log")
    scripts = dict.fromkeys(("reboot", "poweroff", "shutdown", "halt", "systemctl"), power)
    scripts |= dict.fromkeys(("modprobe", "udevadm", "hwclock", "mdadm", "multipath"), _NOTHING)
    scripts["lsblk"] = _LSBLK.format(python=sys.executable)
    for name, text in scripts.items():
        (shims / name).write_text(text)
        (shims / name).chmod(0o755)
    (made.directory / "sandbox").write_text(_SANDBOX)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr}")
    return done.stdout.strip()


def install() -> None:
    venvs.install(VENV, REQUIREMENT)


if __name__ == "__main__":
    install()
    sys.exit(0)
