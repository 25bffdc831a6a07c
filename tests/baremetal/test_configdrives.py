"""Config drives given as an object: the service builds the image at once."""

from __future__ import annotations

import base64
import gzip
import io
import json
from typing import Any

import pycdlib
import pytest

from holdfast.baremetal import configdrives, nodes
from tests.application import Application

DRIVE: dict[str, Any] = {
    "meta_data": {"public_keys": {"0": "ssh-ed25519 AAAA"}},
    "network_data": {"links": []},
    "user_data": "#cloud-config\npassword: ünïcode\n",
    "vendor_data": {"vendor": True},
}


def read(drive: str) -> tuple[str, dict[str, bytes]]:
    """The label of a drive, and its files by path."""
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(gzip.decompress(base64.b64decode(drive))))
    files = {}
    for directory, _below, names in iso.walk(rr_path="/"):
        for name in names:
            content = io.BytesIO()
            iso.get_file_from_iso_fp(content, rr_path=f"{directory}/{name}")
            files[f"{directory}/{name}"] = content.getvalue()
    label = iso.pvd.volume_identifier.decode().strip()
    iso.close()
    return label, files


def test_a_drive_has_the_label_and_the_files_cloud_init_looks_for() -> None:
    label, files = read(configdrives.build(DRIVE, uuid="u", name="n"))
    assert label == "config-2"
    names = {"meta_data.json", "network_data.json", "user_data", "vendor_data2.json"}
    assert files.keys() == {f"/openstack/{version}/{name}" for version in configdrives.VERSIONS for name in names}
    latest = {name: files[f"/openstack/latest/{name}"] for name in names}
    assert json.loads(latest["meta_data.json"]) == {**DRIVE["meta_data"], "uuid": "u", "name": "n"}
    assert json.loads(latest["network_data.json"]) == DRIVE["network_data"]
    assert json.loads(latest["vendor_data2.json"]) == DRIVE["vendor_data"]
    assert latest["user_data"].decode() == DRIVE["user_data"]


def test_names_are_readable_without_rock_ridge_too() -> None:
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(gzip.decompress(base64.b64decode(configdrives.build(DRIVE, uuid="u", name=None)))))
    assert iso.has_joliet()
    assert "user_data" in next(names for path, _, names in iso.walk(joliet_path="/") if path == "/openstack/latest")
    iso.close()


@pytest.mark.parametrize(
    ("document", "meta_data", "user_data"),
    [
        ({}, {"uuid": "u", "name": "n"}, None),
        ({"meta_data": {"uuid": "mine"}}, {"uuid": "mine", "name": "n"}, None),
        ({"user_data": {"a": 1}}, {"uuid": "u", "name": "n"}, b'{"a":1}'),
        ({"user_data": [1]}, {"uuid": "u", "name": "n"}, b"[1]"),
        ({"user_data": None}, {"uuid": "u", "name": "n"}, None),
    ],
)
def test_what_is_left_out_follows_from_the_node(document: dict[str, Any], meta_data: Any, user_data: Any) -> None:
    _label, files = read(configdrives.build(document, uuid="u", name="n"))
    assert json.loads(files["/openstack/latest/meta_data.json"]) == meta_data
    assert files.get("/openstack/latest/user_data") == user_data


@pytest.mark.parametrize("target", ["active", "rebuild"])
def test_the_node_carries_the_drive_and_nobody_sees_it(api: Application, target: str) -> None:
    (node,) = api.enrol(state="available" if target == "active" else "active", name="driven")
    answer = api.request("PUT", f"/v1/nodes/{node}/states/provision", {"target": target, "configdrive": DRIVE})
    assert answer.status == 202
    shown = api.settle(node, "active")
    assert shown["instance_info"]["configdrive"] == "******"
    with api.services.db.read() as connection:
        stored = nodes.load_task(connection, node).node.instance_info["configdrive"]
    _label, files = read(stored)
    meta_data = json.loads(files["/openstack/latest/meta_data.json"])
    assert (meta_data["uuid"], meta_data["name"]) == (node, "driven")


@pytest.mark.parametrize(
    ("version", "drive", "status"),
    [
        ("1.55", {"meta_data": {}}, 400),
        ("1.56", {"meta_data": {}}, 202),
        ("1.58", {"vendor_data": {}}, 400),
        ("1.59", {"vendor_data": {}}, 202),
        ("latest", {"odd": 1}, 400),
        ("latest", {"meta_data": []}, 400),
        ("latest", {"user_data": 1}, 400),
        ("latest", [], 400),
        ("latest", "not base64!", 400),
        ("latest", "http://images.example.com/drive", 202),
    ],
)
def test_what_may_be_a_drive_in_which_version(api: Application, version: str, drive: Any, status: int) -> None:
    (node,) = api.enrol(state="available")
    body = {"target": "active", "configdrive": drive}
    answer = api.request("PUT", f"/v1/nodes/{node}/states/provision", body, version=version)
    assert answer.status == status, answer
    api.settle(node)
