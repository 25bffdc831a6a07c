"""Where a node's IPMI BMC is and how to log in: `driver_info`, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast import errors
from holdfast.baremetal.drivers import driver_info

# driver_info key: what it means
PROPERTIES = {
    "ipmi_address": "Address or host name of the BMC. Required.",
    "ipmi_port": "UDP port of the BMC. Default: 623.",
    "ipmi_username": "User to log in as, at most 16 bytes. Default: the null user.",
    "ipmi_password": "That user's password, at most 20 bytes (16 with protocol version 1.5).",
    "ipmi_priv_level": "Privilege level to ask for: ADMINISTRATOR, OPERATOR, USER or CALLBACK. Default: ADMINISTRATOR.",
    "ipmi_protocol_version": "2.0 or 1.5. Default: 2.0.",
    "ipmi_cipher_suite": "Cipher suite of protocol version 2.0. Default: 17, or 3 where the BMC refuses 17.",
    "ipmi_hex_kg_key": "Kg key of protocol version 2.0, as 40 hexadecimal digits. Default: none.",
    "ipmi_bridging": "Whether the machine sits behind another controller: no, single or dual. Default: no.",
    "ipmi_local_address": "Our IPMB address when bridging, as 0x20. Default: ipmitool's.",
    "ipmi_target_channel": "Channel of the target. Required when bridging.",
    "ipmi_target_address": "IPMB address of the target. Required when bridging.",
    "ipmi_transit_channel": "Channel of the transit controller. Required for dual bridging.",
    "ipmi_transit_address": "IPMB address of the transit controller. Required for dual bridging.",
}

BOOT_PROPERTIES = {
    "ipmi_force_boot_device": "Set the persistent boot device again before every power on, "
    "for BMCs that forget it. Default: false.",
    "ipmi_disable_boot_timeout": "Tell the BMC to keep a boot device for longer than the 60 seconds after "
    "which it may forget it. Default: true.",
}

PRIVILEGES = ("ADMINISTRATOR", "OPERATOR", "USER", "CALLBACK")
# Bytes a password may have: the protocols have no room for more, and ipmitool would silently cut it.
LONGEST_PASSWORD = {"2.0": 20, "1.5": 16}
LONGEST_USERNAME = 16

# bridging: driver_info key and ipmitool's option for it, all required
BRIDGES: dict[str, tuple[tuple[str, str], ...]] = {
    "no": (),
    "single": (("ipmi_target_channel", "-b"), ("ipmi_target_address", "-t")),
    "dual": (
        ("ipmi_transit_channel", "-B"),
        ("ipmi_transit_address", "-T"),
        ("ipmi_target_channel", "-b"),
        ("ipmi_target_address", "-t"),
    ),
}

_HOST = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:%_-]*|[0-9a-fA-F:]+")
_BUS_NUMBER = re.compile(r"0x[0-9a-fA-F]{1,2}|[0-9]{1,3}")
_KG_KEY = re.compile(r"[0-9a-fA-F]{40}")


@dataclass(frozen=True)
class Access:
    """How to reach one BMC."""

    address: str
    port: int
    username: str | None
    password: str = field(repr=False)
    privilege: str
    protocol: str
    cipher_suite: int | None
    kg_key: bytes | None = field(repr=False)
    bridge: tuple[str, ...]  # ipmitool's options


def read_access(info: Mapping[str, Any]) -> Access:
    """`driver_info` as an Access; `DriverDataInvalid` says which key to mend."""
    address = driver_info.required(info, "ipmi_address", "the address of the node's BMC")
    if not _HOST.fullmatch(address):
        raise driver_info.invalid("ipmi_address", "an IP address or a host name")
    protocol = driver_info.choice(
        # 2.0 arrives as a number as often as not.
        {key: str(value) for key, value in info.items() if key == "ipmi_protocol_version" and value is not None},
        "ipmi_protocol_version",
        "2.0",
        LONGEST_PASSWORD,
    )
    if protocol == "1.5":
        for key in ("ipmi_cipher_suite", "ipmi_hex_kg_key"):
            if info.get(key):
                raise errors.DriverDataInvalid(f"driver_info/{key} needs ipmi_protocol_version 2.0.")
    port = driver_info.whole_number(info, "ipmi_port", 623, 1, 65535)
    return Access(
        address=address,
        port=port or 623,
        username=_username(info),
        password=_password(info, LONGEST_PASSWORD[protocol]),
        privilege=driver_info.choice(info, "ipmi_priv_level", "ADMINISTRATOR", PRIVILEGES),
        protocol=protocol,
        # Suite 0 asks for no authentication at all.
        cipher_suite=driver_info.whole_number(info, "ipmi_cipher_suite", None, 1, 255),
        kg_key=_kg_key(info),
        bridge=_bridge(info),
    )


def _username(info: Mapping[str, Any]) -> str | None:
    name = driver_info.text(info, "ipmi_username")
    if name and (len(name.encode()) > LONGEST_USERNAME or not name.isprintable()):
        raise driver_info.invalid("ipmi_username", f"at most {LONGEST_USERNAME} printable characters")
    return name


def _password(info: Mapping[str, Any], longest: int) -> str:
    password = driver_info.secret(info, "ipmi_password") or ""
    if len(password.encode()) > longest or any(character in password for character in "\0\r\n"):
        raise driver_info.invalid("ipmi_password", f"at most {longest} bytes, without line breaks")
    return password


def _kg_key(info: Mapping[str, Any]) -> bytes | None:
    text = driver_info.secret(info, "ipmi_hex_kg_key")
    if text is None:
        return None
    if not _KG_KEY.fullmatch(text):
        raise driver_info.invalid("ipmi_hex_kg_key", "40 hexadecimal digits")
    # Shorter keys are padded with zeros. Zeros inside cannot be handed to ipmitool except on its
    # command line, where every user of the machine could read them.
    key = bytes.fromhex(text).rstrip(b"\0")
    if b"\0" in key:
        raise driver_info.invalid("ipmi_hex_kg_key", "a key without zero bytes before its end")
    return key or None


def _bridge(info: Mapping[str, Any]) -> tuple[str, ...]:
    kind = driver_info.choice(info, "ipmi_bridging", "no", BRIDGES)
    options: list[str] = []
    if kind != "no" and info.get("ipmi_local_address") is not None:
        options += ["-m", _bus_number(info, "ipmi_local_address")]
    for key, option in BRIDGES[kind]:
        if info.get(key) is None:
            raise errors.DriverDataInvalid(f"driver_info/{key} is missing; {kind} bridging needs it.")
        options += [option, _bus_number(info, key)]
    return tuple(options)


def _bus_number(info: Mapping[str, Any], key: str) -> str:
    text = str(info[key]).strip()
    if not _BUS_NUMBER.fullmatch(text):
        raise driver_info.invalid(key, "a number, as 7 or 0x72")
    return text
