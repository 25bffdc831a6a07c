"""Secrets stay in: planted in every field that may hold one, then searched for in everything that leaves.

The search covers every answer of the API, the log at debug level, the flow records, the flow engine's own
journal, metrics and errors.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.application import Application, running

CANARY = "c4n4ry"


def secret(name: str) -> str:
    return f"{CANARY}-{name}"


def nothing_in(text: str | bytes, where: str) -> None:
    haystack = text.decode(errors="replace") if isinstance(text, bytes) else text
    at = haystack.find(CANARY)
    assert at < 0, f"{where} leaks: …{haystack[max(0, at - 60) : at + 40]}…"


class Watched:
    """The API, every answer of which is searched."""

    def __init__(self, api: Application) -> None:
        self.api = api

    def __call__(self, method: str, path: str, document: Any = None, **more: Any) -> Any:
        answer = self.api.request(method, path, document, **more)
        nothing_in(answer.content, f"{method} {path}")
        nothing_in(str(answer.headers), f"headers of {method} {path}")
        return answer.json if answer.content else None


def test_no_secret_leaves_in_any_answer_log_journal_or_metric(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with running(tmp_path) as application:
        call = Watched(application)
        node = call(
            "POST",
            "/v1/nodes",
            {
                "driver": "fake-hardware",
                "name": "guarded",
                "driver_info": {
                    "redfish_password": secret("bmc"),
                    "nested": {"snmp_auth_key": secret("snmp"), "list": [{"token": secret("token")}]},
                    "url": f"https://user:{secret('url')}@bmc.example.org/redfish",
                },
                "instance_info": {"image_url": secret("image"), "admin_password": secret("admin")},
            },
        )["uuid"]
        call(
            "POST",
            "/v1/nodes",
            {"driver": "fake-hardware", "name": "guarded", "driver_info": {"password": secret("dup")}},
        )
        call("POST", "/v1/nodes", {"driver": "no-such", "driver_info": {"password": secret("bad")}})
        target = {"node_uuid": node, "volume_type": "iscsi", "volume_id": "v1", "boot_index": 0}
        properties = {"auth_username": secret("chap-user"), "auth_password": secret("chap"), "target_iqn": "iqn.2026"}
        call("POST", "/v1/volume/targets", {**target, "properties": properties})
        call("POST", "/v1/volume/targets", {**target, "properties": properties})
        call("GET", "/v1/volume/targets?detail=true")
        for verb in ("manage", "provide"):
            call("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb})
            application.settle(node)
        call("PUT", f"/v1/nodes/{node}/states/provision", {"target": "manage"})
        steps = [{"interface": "deploy", "step": "erase_devices", "args": {"disk_password": secret("step")}}]
        call("PUT", f"/v1/nodes/{node}/states/provision", {"target": "clean", "clean_steps": steps})
        application.settle(node)
        for verb in ("manage", "provide"):
            call("PUT", f"/v1/nodes/{node}/states/provision", {"target": verb})
            application.settle(node)
        drive = {"target": "active", "configdrive": f"http://user:{secret('drive')}@host/drive"}
        call("PUT", f"/v1/nodes/{node}/states/provision", drive)
        application.settle(node, "active")
        rescue = {"target": "rescue", "rescue_password": secret("rescue")}
        call("PUT", f"/v1/nodes/{node}/states/provision", rescue)
        application.settle(node, "rescue")
        call("PUT", f"/v1/nodes/{node}/states/provision", {**rescue, "nonsense": 1})
        call(
            "PATCH",
            f"/v1/nodes/{node}",
            [{"op": "add", "path": "/driver_info/ipmi_password", "value": secret("patch")}],
        )
        call("PATCH", f"/v1/nodes/{node}", [{"op": "replace", "path": "/driver_info/gone/x", "value": secret("lost")}])
        for path in (
            "/v1/nodes",
            "/v1/nodes/detail",
            f"/v1/nodes/{node}",
            f"/v1/nodes/{node}/states",
            f"/v1/nodes/{node}/validate",
        ):
            call("GET", path)
        call("GET", "/v1/nodes?fields=driver_info,instance_info,driver_internal_info")
        for path in ("/flows", "/metrics", "/openapi.json"):
            nothing_in(application.call("GET", path).content, path)
        # A step that fails with a secret in its error.
        fail = [{"op": "add", "path": "/driver_info/fake_fail", "value": ["rescue.unrescue"]}]
        call("PATCH", f"/v1/nodes/{node}", fail)
        call("PUT", f"/v1/nodes/{node}/states/provision", {"target": "unrescue"})
        application.settle(node, "unrescue failed")
        nothing_in(application.call("GET", "/flows").content, "/flows")
    for record in caplog.records:
        nothing_in(record.getMessage(), f"the log of {record.name}")
    journal = b"".join(path.read_bytes() for path in tmp_path.glob("flows.sqlite*"))
    assert len(journal) > 1000
    nothing_in(journal, "the flow engine's journal")


def test_a_mask_sent_back_keeps_the_secret(api: Application) -> None:
    node = api.send("POST", "/v1/nodes", {"driver": "fake-hardware", "driver_info": {"ipmi_password": "kept"}})
    shown = api.send("GET", f"/v1/nodes/{node['uuid']}")["driver_info"]
    assert shown == {"ipmi_password": "******"}
    patch = [{"op": "replace", "path": "/driver_info", "value": {**shown, "ipmi_address": "192.0.2.1"}}]
    api.send("PATCH", f"/v1/nodes/{node['uuid']}", patch)
    from holdfast.baremetal import nodes

    with api.services.db.read() as connection:
        stored = nodes.load_task(connection, node["uuid"]).node.driver_info
    assert stored == {"ipmi_password": "kept", "ipmi_address": "192.0.2.1"}
