"""`holdfast dhcp` and `holdfast volume`, against a running service and a simulated Cinder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.sim import cinder
from tests.service import Service, serving
from tests.volumes import INITIATOR, bootable, mac


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cinder.Simulator]:
    with cinder.serving(tmp_path_factory.mktemp("cinder") / "cinder.sqlite") as simulator:
        yield simulator


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, storage: cinder.Simulator) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("service") / "state", cinder__endpoint_override=storage.url) as running:
        yield running


def holdfast(service: Service, *arguments: str, conf: Path | None = None, fails: bool = False) -> str:
    command = [sys.executable, "-m", "holdfast", *arguments, "--url", service.url]
    done = subprocess.run(
        [*command, *(["--config-file", str(conf)] if conf else [])], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


class TestDhcp:
    def test_the_nodes_cards_find_their_script(self, service: Service) -> None:
        node = bootable(service.send, "external", number=1)
        service.send("POST", "/v1/volume/connectors", {"node_uuid": node, "type": "ip", "connector_id": "10.9.0.7"})
        other = {"node_uuid": node, "address": "52:54:00:00:00:f1", "pxe_enabled": False}
        service.send("POST", "/v1/ports", other)
        printed = holdfast(service, "dhcp", "--interface", "eth1", "--range", "10.9.0.5,10.9.0.9", "--known-only")
        lines = printed.splitlines()
        assert f"dhcp-host={mac(1)},10.9.0.7,set:node" in lines
        assert "52:54:00:00:00:f1" not in printed
        assert "interface=eth1" in lines
        assert "dhcp-range=10.9.0.5,10.9.0.9,1h" in lines
        assert "dhcp-ignore=tag:!known" in lines
        assert f"dhcp-boot=tag:ipxe,{service.url}/boot/boot.ipxe" in lines
        assert "enable-tftp" not in lines

    def test_firmware_without_ipxe_gets_one_for_its_architecture(self, service: Service) -> None:
        options = ("--interface", "eth1", "--range", "10.9.0.5,10.9.0.9", "--tftp-root", "/usr/lib/ipxe")
        lines = holdfast(service, "dhcp", *options).splitlines()
        assert "tftp-root=/usr/lib/ipxe" in lines
        assert "dhcp-match=set:efi64,option:client-arch,7" in lines
        assert "dhcp-boot=tag:!ipxe,tag:efi64,ipxe.efi" in lines
        assert "dhcp-boot=tag:!ipxe,tag:bios,undionly.kpxe" in lines

    def test_leases_are_reported_by_a_script_of_its_own(self, service: Service, tmp_path: Path) -> None:
        script = tmp_path / "lease"
        options = ("--interface", "eth1", "--range", "10.9.0.5,10.9.0.9", "--lease-script", str(script))
        lines = holdfast(service, "dhcp", *options).splitlines()
        assert {f"dhcp-script={script}", "script-on-renewal"} <= set(lines)

        def leased(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run([script, *words], capture_output=True, text=True, timeout=60, env=environment)

        assert leased("add", mac(1), "10.9.0.7").returncode == 0
        script.write_text(script.read_text().replace(service.url, "http://127.0.0.1:9"))
        failed = leased("old", mac(1), "10.9.0.7")
        assert (failed.returncode, failed.stdout) == (1, "")
        assert failed.stderr.startswith("Holdfast was not told of a lease: ")
        # Nothing new is told by these.
        assert leased("del", mac(1), "10.9.0.7").returncode == 0
        assert leased("tftp", "4096", "10.9.0.7", "/usr/lib/ipxe/ipxe.efi").returncode == 0
        assert leased("old", mac(1), "10.9.0.7", DNSMASQ_DATA_MISSING="1").returncode == 0

    @pytest.mark.parametrize(
        ("option", "value"),
        [("--range", "10.9.0.5"), ("--range", "10.9.0.9,10.9.0.5"), ("--interface", "a\nb"), ("--ipv6-prefix", "x")],
    )
    def test_mistakes_are_told(self, service: Service, option: str, value: str) -> None:
        given = {"--interface": "eth1", "--range": "10.9.0.5,10.9.0.9", option: value}
        arguments = [word for pair in given.items() for word in pair]
        assert option in holdfast(service, "dhcp", *arguments, fails=True)


class TestAttachNode:
    @pytest.fixture
    def conf(self, tmp_path: Path, storage: cinder.Simulator) -> Path:
        path = tmp_path / "holdfast.conf"
        path.write_text(f"[cinder]\nendpoint_override = {storage.url}\n")
        return path

    def test_cinder_exports_to_the_nodes_initiator(
        self, service: Service, storage: cinder.Simulator, conf: Path
    ) -> None:
        node, volume = bootable(service.send, "external", number=2), storage.state.create_volume()
        for _ in range(2):  # repeating it leaves one export and one target
            told = holdfast(service, "volume", "attach-node", node, volume, conf=conf)
            (target,) = service.send("GET", f"/v1/volume/targets?node={node}&detail=true")["targets"]
            assert target["uuid"] in told
            assert target["properties"]["auth_password"] == "******"
            assert target["properties"]["target_iqn"].endswith(volume)
            exports = [export for export in storage.state.exports() if export.volume == volume]
            assert exports == [cinder.Export(volume, node, INITIATOR.format("node-2"))]
        assert not any(secret in told for secret in storage.state.secrets())
        assert service.send("GET", f"/v1/nodes/{node}/validate")["storage"]["result"] is True
        for _ in range(2):
            holdfast(service, "volume", "detach-node", node, volume, conf=conf)
            assert service.send("GET", f"/v1/volume/targets?node={node}")["targets"] == []
            assert storage.state.volume_status(volume) == "available"

    def test_a_node_that_attaches_by_itself_only_gets_the_target(
        self, service: Service, storage: cinder.Simulator, conf: Path
    ) -> None:
        node, volume = bootable(service.send, "cinder", number=3), storage.state.create_volume()
        holdfast(service, "volume", "attach-node", node, volume, conf=conf)
        (target,) = service.send("GET", f"/v1/volume/targets?node={node}&detail=true")["targets"]
        assert target["properties"] == {}
        assert storage.state.volume_status(volume) == "available"

    def test_a_boot_index_that_is_taken_is_told_before_anything_is_exported(
        self, service: Service, storage: cinder.Simulator, conf: Path
    ) -> None:
        node = bootable(service.send, "external", number=4)
        first, second = storage.state.create_volume(), storage.state.create_volume()
        holdfast(service, "volume", "attach-node", node, first, conf=conf)
        assert "boot index 0 already" in holdfast(service, "volume", "attach-node", node, second, conf=conf, fails=True)
        assert storage.state.volume_status(second) == "available"
        holdfast(service, "volume", "attach-node", node, second, "--boot-index", "1", conf=conf)

    def test_an_unknown_node_is_told(self, service: Service, conf: Path) -> None:
        told = holdfast(service, "volume", "attach-node", "nobody", "x", conf=conf, fails=True)
        assert "nobody could not be found" in told

    def test_without_an_initiator_there_is_nobody_to_export_to(
        self, service: Service, storage: cinder.Simulator, conf: Path
    ) -> None:
        (node,) = service.enrol(1, storage_interface="external")
        told = holdfast(service, "volume", "attach-node", node, storage.state.create_volume(), conf=conf, fails=True)
        assert "no volume connector of type iqn" in told
