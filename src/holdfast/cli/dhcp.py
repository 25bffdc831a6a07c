"""`holdfast dhcp`: a dnsmasq configuration with which the nodes' machines find their boot scripts."""

from __future__ import annotations

import argparse
import ipaddress
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import errors
from holdfast.cli import service

# Machines tell their architecture (RFC 4578, 93): number, the tag we give it, the iPXE that runs there.
ARCHITECTURES = (
    (0, "bios", "undionly.kpxe"),
    (6, "efi32", "ipxe.efi"),
    (7, "efi64", "ipxe.efi"),
    (9, "efi64", "ipxe.efi"),
    (11, "arm64", "ipxe-arm64.efi"),
)


# What dnsmasq runs for each lease; see `--dhcp-script` in its manual. When it starts it runs it for the leases
# it has on file, without what the machines said: those are no news.
LEASE_SCRIPT = """#!{python} -I
# Written by `holdfast dhcp`: tells Holdfast which machines were lent an address.
import os, sys, urllib.request

if sys.argv[1] in ("add", "old") and "DNSMASQ_DATA_MISSING" not in os.environ:
    report = urllib.request.Request({url!r} + "/boot/dhcp/" + sys.argv[2], method="POST")
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(report, timeout=5)
    except OSError as error:
        sys.exit("Holdfast was not told of a lease: %s" % error)
"""


@dataclass(frozen=True)
class Card:
    """A network card that boots: whose it is, and the address it always gets, if any."""

    mac: str
    node: str
    address: str | None = None


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "dhcp",
        help="print a DHCP configuration for machines that boot over the network",
        description="Prints a dnsmasq configuration that sends the nodes' pxe_enabled ports to their boot scripts. "
        "Nodes with one ip connector get that address. Write it to a file, and again when nodes have changed.",
    )
    service.add_options(parser)
    parser.add_argument("--interface", required=True, metavar="DEV", help="the network card to serve, as eth1")
    parser.add_argument(
        "--range", required=True, metavar="FIRST,LAST", help="addresses to hand out, as 10.0.0.100,10.0.0.199"
    )
    parser.add_argument("--lease", default="1h", help="how long they are lent (default: %(default)s)")
    parser.add_argument(
        "--boot-url",
        metavar="URL",
        help="where machines reach the service, as http://10.0.0.1:6385 (default: what --url says)",
    )
    parser.add_argument(
        "--tftp-root", metavar="DIR", help="serve iPXE from here to firmware that has none, as /usr/lib/ipxe"
    )
    parser.add_argument(
        "--ipv6-prefix",
        metavar="PREFIX",
        help="announce this prefix, as fd00:77::/64: iPXE waits for a router that never speaks, otherwise",
    )
    parser.add_argument(
        "--lease-script",
        metavar="FILE",
        type=Path,
        help="write a script to this file with which dnsmasq tells Holdfast when a machine has got its address",
    )
    parser.add_argument("--known-only", action="store_true", help="answer to the nodes' machines and nobody else")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    cards = find_cards(
        service.listed(options, "nodes", fields="uuid,name,boot_interface"),
        service.listed(options, "ports", detail="true"),
        service.listed(options, "volume/connectors", detail="true"),
    )
    printed = configuration(options, cards)
    if options.lease_script:
        options.lease_script.write_text(LEASE_SCRIPT.format(python=sys.executable, url=_boot_url(options)))
        options.lease_script.chmod(0o755)
    print(printed, end="")
    return 0


def find_cards(
    nodes: Sequence[Mapping[str, Any]], ports: Sequence[Mapping[str, Any]], connectors: Sequence[Mapping[str, Any]]
) -> list[Card]:
    """The cards from which machines with boot interface ipxe boot, by node."""
    names = {node["uuid"]: node["name"] or node["uuid"] for node in nodes if node["boot_interface"] == "ipxe"}
    booting = [port for port in ports if port["pxe_enabled"] and port["node_uuid"] in names]
    found = []
    for port in sorted(booting, key=lambda port: (names[port["node_uuid"]], port["address"])):
        node = port["node_uuid"]
        addresses = [c["connector_id"] for c in connectors if c["node_uuid"] == node and c["type"] == "ip"]
        macs = [c["connector_id"] for c in connectors if c["node_uuid"] == node and c["type"] == "mac"]
        # The address belongs to the card that the mac connector names, or to the only card.
        alone = sum(1 for other in booting if other["node_uuid"] == node) == 1
        its_own = macs == [port["address"]] or (alone and not macs)
        address = addresses[0] if len(addresses) == 1 and its_own else None
        found.append(Card(port["address"], names[node], address))
    return found


def configuration(options: argparse.Namespace, cards: Sequence[Card]) -> str:
    """The file. Every value comes from options, or was checked by the API."""
    first, last = _range(options.range)
    lines = [
        "# Printed by `holdfast dhcp`. dnsmasq --conf-file=THIS",
        "port=0",
        f"interface={_plain(options.interface, '--interface')}",
        "bind-dynamic",
        f"dhcp-range={first},{last},{_plain(options.lease, '--lease')}",
    ]
    if options.ipv6_prefix:
        lines += ["enable-ra", f"dhcp-range={_prefix(options.ipv6_prefix)},ra-only"]
    lines += [
        "",
        "# A machine that already runs iPXE says so with option 175 and fetches its script.",
        "dhcp-match=set:ipxe,175",
        *[f"dhcp-match=set:{tag},option:client-arch,{number}" for number, tag, _file in ARCHITECTURES],
        f"dhcp-boot=tag:ipxe,{_boot_url(options)}/boot/boot.ipxe",
    ]
    if options.tftp_root:
        lines += ["enable-tftp", f"tftp-root={_plain(options.tftp_root, '--tftp-root')}"]
        files = {tag: file for _number, tag, file in ARCHITECTURES}
        lines += [f"dhcp-boot=tag:!ipxe,tag:{tag},{file}" for tag, file in files.items()]
    if options.lease_script:
        script = _plain(str(options.lease_script.absolute()), "--lease-script")
        lines += ["", "# Every lease is reported, renewed ones too.", f"dhcp-script={script}", "script-on-renewal"]
    lines += ["", "# The nodes' cards"]
    lines += [f"dhcp-host={','.join(filter(None, [card.mac, _usable(card, first), 'set:node']))}" for card in cards]
    if options.known_only:
        lines += ["dhcp-ignore=tag:!known"]
    return "\n".join(lines) + "\n"


def _usable(card: Card, first: ipaddress.IPv4Address) -> str | None:
    """An address of the other family cannot be lent here."""
    if card.address is None or ipaddress.ip_address(card.address).version != first.version:
        return None
    return card.address


def _boot_url(options: argparse.Namespace) -> str:
    return _plain((options.boot_url or options.url).rstrip("/"), "--boot-url")


def _range(text: str) -> tuple[ipaddress.IPv4Address, ipaddress.IPv4Address]:
    try:
        first, last = (ipaddress.IPv4Address(part.strip()) for part in text.split(","))
    except ValueError:
        raise errors.InvalidValue("--range must be two IPv4 addresses, as 10.0.0.100,10.0.0.199.") from None
    if last < first:
        raise errors.InvalidValue("--range begins after its end.")
    return first, last


def _prefix(text: str) -> ipaddress.IPv6Address:
    try:
        return ipaddress.IPv6Network(text).network_address
    except ValueError:
        raise errors.InvalidValue("--ipv6-prefix must be a network, as fd00:77::/64.") from None


def _plain(text: str, option: str) -> str:
    """A value that stays on its line and between its commas."""
    if not text.isascii() or not text.isprintable() or any(mark in text for mark in " ,#\\\"'"):
        raise errors.InvalidValue(f"{option} has characters that a dnsmasq configuration cannot hold.")
    return text
