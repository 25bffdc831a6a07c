"""What an inspection ramdisk reports becomes connectors and capabilities of the node."""

from __future__ import annotations

from holdfast.baremetal.drivers.agent.inventory import inspection

NICS = {"interfaces": [{"mac_address": "52:54:00:AA:00:01", "ipv4_address": "192.0.2.7"}, {"mac_address": "junk"}]}


def test_an_initiator_is_registered_with_the_addresses_it_is_reached_at() -> None:
    found = inspection({**NICS, "iscsi_initiator": "iqn.2026-01.com.example:n1"}, {})
    assert found.connectors == (
        ("iqn", "iqn.2026-01.com.example:n1"),
        ("mac", "52:54:00:aa:00:01"),
        ("ip", "192.0.2.7"),
    )
    assert found.capabilities["iscsi_boot"] == "true"


def test_every_port_of_a_fibre_channel_adapter_is_registered() -> None:
    adapter = {"node_name": "0x20000025b5000001", "port_name": "0x10000025b5000001"}
    found = inspection(NICS, {"fibre_channel": [adapter, {"node_name": "junk", "port_name": "0x1"}]})
    assert found.connectors == (("wwnn", adapter["node_name"]), ("wwpn", adapter["port_name"]))
    assert found.capabilities["fibre_channel_boot"] == "true"


def test_a_machine_without_either_gets_neither() -> None:
    found = inspection({**NICS, "iscsi_initiator": "; rm -rf /"}, {})
    assert found.connectors == ()
    assert not {"iscsi_boot", "fibre_channel_boot"} & found.capabilities.keys()
