"""Runs ipmitool: one command at a time per BMC, within a time limit, its secrets out of sight.

The password goes through a pipe that ipmitool opens as its password file (`-f /dev/fd/N`): it is
never in the process list, and nothing is left on disk if this process dies. The Kg key goes through
ipmitool's own environment variable, which only the same user can read.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from oslo_config import cfg

from holdfast import errors
from holdfast.baremetal.drivers.ipmi.access import Access

LOG = logging.getLogger(__name__)

INTERFACES = {"2.0": "lanplus", "1.5": "lan"}
# Tried in this order where the node does not say: 17 signs with SHA-256, 3 with SHA-1, and nearly
# every BMC of this century knows 3. Never 0, which logs in without a password.
CIPHER_SUITES = (17, 3)
# Packets get lost: ipmitool sends each again after 1, 2, 3 seconds. A dead BMC then costs 12 seconds
# (twice that sum) for each try of a command.
RESEND = ("-N", "1", "-R", "3")
RETRY_PAUSE = 1.0
# Lines that say nothing
CHATTER = ("", "Loading IANA PEN Registry...")


class Failure(NamedTuple):
    """What a message of ipmitool's means. `passing`: trying again could help."""

    pattern: re.Pattern[str]
    error: type[errors.HoldfastError]
    public: str
    passing: bool = False
    cipher: bool = False


def _failure(
    pattern: str,
    public: str,
    *,
    error: type[errors.HoldfastError] = errors.DriverFailed,
    passing: bool = False,
    cipher: bool = False,
) -> Failure:
    return Failure(re.compile(pattern, re.IGNORECASE), error, public, passing, cipher)


# The first that matches counts.
FAILURES = (
    _failure(
        r"insufficient resources|out of space|node busy|initialization in progress",
        "is busy. Try again; if it stays so, reset the BMC.",
        passing=True,
    ),
    _failure(
        r"RAKP 2 HMAC is invalid|unauthorized name|invalid user ?name|password (invalid|verification)"
        r"|Activate Session (command failed|error)|Get Session Challenge command failed",
        "refused the login: check ipmi_username and ipmi_password.",
    ),
    _failure(
        r"RAKP 4 message has invalid integrity|RAKP [24].*key exchange",
        "and this service have different keys: check ipmi_hex_kg_key.",
    ),
    _failure(
        r"open session response message|cipher suite|(authentication|integrity|confidentiality) algorithm",
        "accepts none of the cipher suites offered: set ipmi_cipher_suite to one it has.",
        cipher=True,
    ),
    _failure(
        r"insufficient privilege|unauthorized role|privilege level.*(exceeds|failed)",
        "does not allow its user to do that: check ipmi_priv_level and the user's privileges on the BMC.",
    ),
    _failure(r"address lookup for|could not open socket", "has no such address: check ipmi_address."),
    _failure(
        r"(failed|rsp=0x\w+\)).*(invalid data field|invalid command|not supported|parameter out of range)",
        "does not support that.",
        error=errors.UnsupportedByDriver,
    ),
    _failure(
        r"unable to establish|timeout|timed out|no response|get auth capabilities error",
        "does not answer: check the BMC, ipmi_address, ipmi_port and the network to it.",
        passing=True,
    ),
)
UNKNOWN = _failure("", "failed in a way the service's log may explain.")
TOO_LATE = _failure("", "did not finish in time. Try again; if it stays so, reset the BMC.", passing=True)


@dataclass
class Bmc:
    """What this process remembers of a BMC: that somebody is talking to it, and the suite it accepted."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cipher_suite: int | None = None


class Bmcs:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, int], Bmc] = {}

    def at(self, access: Access) -> Bmc:
        with self._lock:
            return self._known.setdefault((access.address, access.port), Bmc())


BMCS = Bmcs()


def run(conf: cfg.ConfigOpts, access: Access, *command: str, repeatable: bool = True) -> str:
    """What ipmitool prints for a command, as `run(conf, access, "chassis", "power", "status")`.

    A BMC that does not answer is asked again, unless the command is not `repeatable`.
    """
    bmc = BMCS.at(access)
    suites = _suites(access, bmc)
    attempts = conf.ipmi.command_attempts if repeatable else 1
    while True:
        failure, output = _run_once(conf, access, bmc, suites[0], command)
        if failure is None:
            bmc.cipher_suite = suites[0]
            return output
        if failure.cipher and len(suites) > 1:
            suites = suites[1:]
            continue
        if failure.cipher:
            bmc.cipher_suite = None
        attempts -= 1
        if not (failure.passing and attempts > 0):
            raise failure.error(f"The BMC at {access.address} {failure.public}")
        time.sleep(RETRY_PAUSE)


def _suites(access: Access, bmc: Bmc) -> list[int | None]:
    if access.protocol == "1.5":
        return [None]
    known = access.cipher_suite or bmc.cipher_suite
    return [known] if known else list(CIPHER_SUITES)


def _run_once(
    conf: cfg.ConfigOpts, access: Access, bmc: Bmc, suite: int | None, command: tuple[str, ...]
) -> tuple[Failure | None, str]:
    limit = conf.ipmi.command_timeout
    if not bmc.lock.acquire(timeout=limit):
        return TOO_LATE, ""
    try:
        done = _execute([conf.ipmi.ipmitool, *_options(access, suite)], command, access, limit)
    except subprocess.TimeoutExpired:
        LOG.warning("ipmitool %s at %s: no end after %s seconds", " ".join(command), access.address, limit)
        return TOO_LATE, ""
    except OSError as error:
        LOG.error("ipmitool cannot be started: %s", error.strerror)
        raise errors.DriverFailed(
            "ipmitool cannot be started: install it, or check the option [ipmi] ipmitool."
        ) from None
    finally:
        bmc.lock.release()
    if done.returncode == 0:
        return None, done.stdout
    failure = next((known for known in FAILURES if known.pattern.search(done.stderr)), UNKNOWN)
    said = " / ".join(line.strip() for line in done.stderr.splitlines() if line.strip() not in CHATTER)
    # A refused cipher suite is the usual way to find the one that is accepted.
    level = logging.INFO if failure.cipher else logging.WARNING
    LOG.log(level, "ipmitool %s at %s failed: %s", " ".join(command), access.address, said[-500:])
    return failure, ""


def _options(access: Access, suite: int | None) -> list[str]:
    # -v names the reason of a failed login; the keys themselves it shows only from -vvv on.
    options = ["-v", "-I", INTERFACES[access.protocol], "-H", access.address, "-p", str(access.port), *RESEND]
    options += ["-L", access.privilege]
    if access.username:
        options += ["-U", access.username]
    if suite is not None:
        options += ["-C", str(suite)]
    if access.kg_key:
        options += ["-K"]
    return [*options, *access.bridge]


def _execute(tool: list[str], command: tuple[str, ...], access: Access, limit: int) -> subprocess.CompletedProcess[str]:
    # A clean environment: this process's own may hold secrets that are none of ipmitool's business.
    environment: dict[str, bytes] = {"PATH": os.fsencode(os.environ.get("PATH", os.defpath)), "LC_ALL": b"C"}
    if access.kg_key:
        environment["IPMI_KGKEY"] = access.kg_key
    reader, writer = os.pipe()
    try:
        try:
            # At most 20 bytes: a pipe takes them without anybody reading. An empty password is one
            # NUL byte, because ipmitool asks for the password at the terminal if the file is empty.
            os.write(writer, access.password.encode() or b"\0")
        finally:
            os.close(writer)
        return subprocess.run(  # noqa: S603  an argument list, no shell
            [*tool, "-f", f"/dev/fd/{reader}", *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            pass_fds=(reader,),
            env=environment,
            check=False,
        )
    finally:
        os.close(reader)
