"""Lists of volume connectors and targets take the same queries however long they are, on both databases."""

from __future__ import annotations

from typing import Any

from tests.application import Application


def connector(node: str, number: int) -> dict[str, Any]:
    return {"node_uuid": node, "type": "iqn", "connector_id": f"iqn.2017-05.org.openstack:{number}"}


def target(node: str, number: int) -> dict[str, Any]:
    properties = {"target_iqn": "iqn.2010-10.com.example:x", "auth_password": "secret"}
    return {
        "node_uuid": node,
        "volume_type": "iscsi",
        "volume_id": f"volume-{number}",
        "boot_index": number,
        "properties": properties,
    }


def test_lists_take_the_same_queries_however_long(either_api: Application) -> None:
    node = either_api.enrol()[0]
    for noun, body in (("connectors", connector), ("targets", target)):
        paths = {
            f"/v1/volume/{noun}?detail=true": 1,
            f"/v1/volume/{noun}/detail": 1,
            f"/v1/volume/{noun}?node={node}": 2,
            f"/v1/nodes/{node}/volume/{noun}": 2,
        }

        def statements(path: str, rows: int, noun: str = noun) -> int:
            with either_api.counted() as sent:
                assert len(either_api.send("GET", path)[noun]) == rows
            return len(sent)

        either_api.send("POST", f"/v1/volume/{noun}", body(node, 0))
        assert {path: statements(path, 1) for path in paths} == paths
        for number in range(1, 50):
            either_api.send("POST", f"/v1/volume/{noun}", body(node, number))
        assert {path: statements(path, 50) for path in paths} == paths
