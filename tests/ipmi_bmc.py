"""A real IPMI BMC for tests: OpenIPMI's `ipmi_sim`, with a chassis whose state is files.

Debian packages: openipmi (the simulator), ipmitool (what the driver calls).
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.redfish_bmc import free_port

USER = "admin"
PASSWORD = "c4nary-ipmi-pw"
KG_KEY = b"c4nary-kg-key"

LAN = """
name "bmc"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
    {kg_key}
  endlan
  chassis_control "{chassis} 0x20"
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""

MANAGEMENT_CONTROLLER = """
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
"""

# The simulator calls it as `chassis 0x20 get power`, `chassis 0x20 set boot pxe`. A machine that
# hangs ignores the request to shut down.
CHASSIS = """#!{python} -I
import pathlib, sys
state = pathlib.Path({directory!r})
verb, *words = sys.argv[2:]
if verb == "get":
    for word in words:
        print(f"{{word}}:{{(state / word).read_text() if (state / word).exists() else 0}}")
elif verb == "set":
    with (state / "commands").open("a") as commands:
        print(*words, file=commands)
    name, value = words
    if name == "shutdown":
        name, value = ("power", "0") if not (state / "hangs").exists() else ("asked", "1")
    (state / name).write_text(value)
"""

# The same for a chassis with a machine in it: a command that runs while the power is on.
MACHINE_CHASSIS = """#!{python} -I
import os, pathlib, shlex, signal, subprocess, sys
state, machine = pathlib.Path({directory!r}), shlex.split({machine!r})
pid = state / "pid"
verb, *words = sys.argv[2:]

def running():
    try:
        # One that has switched itself off may be left a zombie.
        return pathlib.Path(f"/proc/{{pid.read_text()}}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

if verb == "get":
    for word in words:
        if word == "power":
            print(f"power:{{int(running())}}")
        else:
            print(f"{{word}}:{{(state / word).read_text() if (state / word).exists() else 0}}")
elif verb == "set":
    with (state / "commands").open("a") as commands:
        print(*words, file=commands)
    name, value = words
    if (name, value) in (("power", "0"), ("shutdown", "1")) and running():
        os.kill(int(pid.read_text()), signal.SIGKILL)
        pid.unlink()
    elif (name, value) == ("power", "1") and not running():
        with (state / "machine.log").open("ab") as log:
            # Its own session and no open pipe: the simulator waits for its script, not for the machine.
            child = subprocess.Popen(
                machine, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        pid.write_text(str(child.pid))
    else:
        (state / name).write_text(value)
"""


class Simulator:
    """A running ipmi_sim. `state` is the chassis: files `power`, `boot`, and `commands`, a journal."""

    def __init__(self, port: int, state: Path) -> None:
        self.port = port
        self.state = state

    def driver_info(self, **more: Any) -> dict[str, Any]:
        return {
            "ipmi_address": "127.0.0.1",
            "ipmi_port": self.port,
            "ipmi_username": USER,
            "ipmi_password": PASSWORD,
            **more,
        }

    def reset(self) -> None:
        for name in ("commands", "hangs"):
            (self.state / name).unlink(missing_ok=True)
        (self.state / "power").write_text("0")
        (self.state / "boot").write_text("default")

    def commands(self) -> list[str]:
        """What the chassis was told, in order."""
        journal = self.state / "commands"
        return journal.read_text().splitlines() if journal.exists() else []


@contextmanager
def simulator(directory: Path, kg_key: bytes | None = None, machine: str | None = None) -> Iterator[Simulator]:
    """Starts the simulator. Its absence is a failure: `make test` installs it.

    `machine`: a command that runs while the power is on, and is killed when it goes off.
    """
    port = free_port(socket.SOCK_DGRAM)
    state, saved, chassis = directory / "chassis", directory / "saved", directory / "chassis.py"
    for new in (state, saved):
        new.mkdir()
    text = CHASSIS if machine is None else MACHINE_CHASSIS
    chassis.write_text(text.format(python=sys.executable, directory=str(state), machine=machine))
    chassis.chmod(chassis.stat().st_mode | stat.S_IXUSR)
    (directory / "bmc.emu").write_text(MANAGEMENT_CONTROLLER)
    (directory / "lan.conf").write_text(
        LAN.format(
            port=port,
            chassis=chassis,
            user=USER,
            password=PASSWORD,
            kg_key=f'bmc_key "{kg_key.decode()}"' if kg_key else "",
        )
    )
    log = directory / "ipmi_sim.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["ipmi_sim", "-c", "lan.conf", "-f", "bmc.emu", "-s", saved, "-n"],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_bound(port, process, log)
        running = Simulator(port, state)
        running.reset()
        yield running
    finally:
        process.terminate()
        process.wait(10)
        _pull_the_plug(state / "pid")


def _pull_the_plug(pid: Path) -> None:
    if pid.exists():
        try:
            os.kill(int(pid.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass


def _wait_until_bound(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    wanted = f"0100007F:{port:04X}"
    for _ in range(200):
        if process.poll() is not None:
            break
        if wanted in Path("/proc/net/udp").read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"ipmi_sim did not start:\n{log.read_text()}")
