"""The calls of spec 004 from Python, against a real service, through its listener for ramdisks."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from holdfast.client import Client
from tests.postgres import free_port
from tests.service import serving

MAC = "52:54:00:c1:1e:01"


def test_lookup_and_heartbeat_through_the_listener_for_ramdisks(tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path / "state", api__ramdisk_host="127.0.0.1", api__ramdisk_port=str(port)) as service:
        (node,) = service.enrol(state="manageable", driver_info={"fake_wait": ["clean"]})
        service.send("POST", "/v1/ports", {"node_uuid": node, "address": MAC})
        service.send("PUT", f"/v1/nodes/{node}/states/provision", {"target": "provide"})
        service.settle(node, "clean wait")
        ironic = Client(f"http://127.0.0.1:{port}/baremetal/v1")
        found = ironic.node.lookup(["00:00:00:00:00:01", MAC.upper()])
        assert found["node"]["uuid"] == node
        assert ironic.node.lookup([], node_uuid=node)["config"]["agent_token"] == "******"
        ironic.node.heartbeat(node, "http://10.0.0.7:9999", found["config"]["agent_token"], "13.0.0")
        service.settle(node, "available")
        with pytest.raises(requests.HTTPError, match="404"):
            ironic.node.lookup([MAC])
        with pytest.raises(requests.HTTPError, match="404"):
            Client(service.baremetal).node.lookup([MAC])
        assert requests.get(f"http://127.0.0.1:{port}/baremetal/v1/nodes", timeout=10).status_code == 404
        assert requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).status_code == 404
