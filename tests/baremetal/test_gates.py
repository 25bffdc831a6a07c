"""What each microversion shows, takes and refuses: every endpoint and every field at the oldest version, one
before it appeared, where it appeared, and at the newest."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.baremetal.api.nodes import NODE
from holdfast.baremetal.versions import MAXIMUM, MINIMUM
from holdfast.web.resources import Field, LinkList, Resource
from holdfast.web.versions import Version
from tests.application import Application
from tests.web.targets import DOCUMENTS, ENDPOINTS, Endpoint, create, fill, valid_body

BAREMETAL = [endpoint for endpoint in ENDPOINTS if endpoint.api.name == "baremetal"]
COLLECTIONS = {e.route.body.noun: e.route.path for e in BAREMETAL if isinstance(e.route.body, Resource)}
RESOURCES = {e.route.body.noun: e.route.body for e in BAREMETAL if isinstance(e.route.body, Resource)}

# What upstream's history says of nodes; the table of the code must agree.
NODE_FIELDS = {
    "1.1": "uuid created_at updated_at chassis_uuid console_enabled driver driver_info extra instance_info "
    "instance_uuid last_error maintenance maintenance_reason power_state properties provision_state "
    "provision_updated_at reservation target_power_state target_provision_state links ports",
    "1.3": "driver_internal_info",
    "1.5": "name",
    "1.6": "inspection_started_at inspection_finished_at",
    "1.7": "clean_step",
    "1.12": "raid_config target_raid_config",
    "1.14": "states",
    "1.20": "network_interface",
    "1.21": "resource_class",
    "1.24": "portgroups",
    "1.31": "boot_interface console_interface deploy_interface inspect_interface management_interface "
    "power_interface raid_interface vendor_interface",
    "1.32": "volume",
    "1.33": "storage_interface",
    "1.37": "traits",
    "1.38": "rescue_interface",
    "1.40": "bios_interface",
    "1.42": "fault",
    "1.44": "deploy_step",
    "1.46": "conductor_group",
    "1.47": "automated_clean",
    "1.48": "protected protected_reason",
    "1.49": "conductor",
    "1.50": "owner",
    "1.51": "description",
    "1.52": "allocation_uuid",
    "1.61": "retired retired_reason",
    "1.65": "lessee",
    "1.66": "network_data",
    "1.75": "boot_mode secure_boot",
    "1.82": "shard",
    "1.83": "parent_node",
    "1.86": "firmware_interface",
    "1.87": "service_step",
    "1.95": "disable_power_off",
    "1.104": "instance_name",
    "1.109": "health",
}
# Endpoints that came later, and what a request in an older version gets.
NEW_ENDPOINTS = {
    "PUT /baremetal/v1/nodes/{node}/states/raid": ("1.12", 406),
    "GET /baremetal/v1/drivers/{driver}/raid/logical_disk_properties": ("1.12", 404),
    "GET /baremetal/v1/lookup": ("1.22", 404),
    "POST /baremetal/v1/heartbeat/{node}": ("1.22", 404),
    "GET /baremetal/v1/portgroups": ("1.23", 404),
    "GET /baremetal/v1/nodes/{node}/portgroups": ("1.24", 404),
    "GET /baremetal/v1/nodes/{node}/vifs": ("1.28", 404),
    "PUT /baremetal/v1/nodes/{node}/management/inject_nmi": ("1.29", 404),
    "GET /baremetal/v1/volume": ("1.32", 406),
    "GET /baremetal/v1/volume/connectors": ("1.32", 406),
    "GET /baremetal/v1/volume/targets": ("1.32", 406),
    "GET /baremetal/v1/nodes/{node}/volume": ("1.32", 406),
    "GET /baremetal/v1/nodes/{node}/traits": ("1.37", 404),
    "PUT /baremetal/v1/nodes/{node}/traits": ("1.37", 404),
    "DELETE /baremetal/v1/nodes/{node}/traits": ("1.37", 404),
    "GET /baremetal/v1/nodes/{node}/bios": ("1.40", 404),
    "GET /baremetal/v1/nodes/{node}/bios/{setting}": ("1.40", 404),
    "GET /baremetal/v1/conductors": ("1.49", 404),
    "GET /baremetal/v1/conductors/{hostname}": ("1.49", 404),
    "GET /baremetal/v1/allocations": ("1.52", 404),
    "POST /baremetal/v1/allocations": ("1.52", 405),
    "GET /baremetal/v1/allocations/{allocation}": ("1.52", 404),
    "PATCH /baremetal/v1/allocations/{allocation}": ("1.57", 405),
    "DELETE /baremetal/v1/allocations/{allocation}": ("1.52", 405),
    "GET /baremetal/v1/nodes/{node}/allocation": ("1.52", 404),
    "DELETE /baremetal/v1/nodes/{node}/allocation": ("1.52", 404),
    "POST /baremetal/v1/events": ("1.54", 404),
    "GET /baremetal/v1/deploy_templates": ("1.55", 404),
    "POST /baremetal/v1/deploy_templates": ("1.55", 405),
    "GET /baremetal/v1/deploy_templates/{template}": ("1.55", 404),
    "PATCH /baremetal/v1/deploy_templates/{template}": ("1.55", 405),
    "DELETE /baremetal/v1/deploy_templates/{template}": ("1.55", 405),
    "GET /baremetal/v1/nodes/{node}/management/indicators": ("1.63", 404),
    "GET /baremetal/v1/nodes/{node}/management/indicators/{indicator}": ("1.63", 404),
    "PUT /baremetal/v1/nodes/{node}/management/indicators/{indicator}": ("1.63", 404),
}


def around(since: Version) -> list[Version]:
    """Those of the four versions that the service speaks."""
    before = [Version(1, since.minor - 1)] if since > MINIMUM else []
    return sorted({version for version in (MINIMUM, *before, since, MAXIMUM) if version <= MAXIMUM})


def test_node_fields_appeared_when_upstream_says() -> None:
    known: list[Field | LinkList] = [*NODE.fields, *NODE.links]
    table = {entry.name: str(entry.since) for entry in known} | {"links": "1.1"}
    history = {name: version for version, names in NODE_FIELDS.items() for name in names.split()}
    assert table.items() <= history.items()
    assert {name for name, version in history.items() if int(version[2:]) <= MAXIMUM.minor} <= table.keys()


@pytest.mark.parametrize("version", [f"1.{minor}" for minor in range(1, MAXIMUM.minor + 1)])
def test_a_node_shows_exactly_the_fields_of_the_version(shared_api: Application, version: str) -> None:
    (uuid,) = shared_api.enrol()
    expected = {
        name for since, names in NODE_FIELDS.items() if int(since[2:]) <= int(version[2:]) for name in names.split()
    }
    assert shared_api.request("GET", f"/v1/nodes/{uuid}", version=version).json.keys() == expected
    (listed,) = [
        node
        for node in shared_api.request("GET", "/v1/nodes/detail", version=version).json["nodes"]
        if node["uuid"] == uuid
    ]
    assert listed.keys() == expected


def _matrix() -> list[Any]:
    return [
        pytest.param(resource, field, version, id=f"{noun}.{field.name}@{version}")
        for noun, resource in RESOURCES.items()
        for field in resource.fields
        for version in around(max(field.since, MINIMUM))
    ]


@pytest.fixture(scope="module")
def objects(shared_api: Application) -> dict[str, str]:
    """One object of each kind: where it is."""
    return {noun: f"{path}/{create(shared_api, path)}" for noun, path in COLLECTIONS.items()}


def _since(resource: Resource) -> Version:
    """The version that brought the resource itself."""
    return min(e.route.since for e in BAREMETAL if e.route.shows is resource)


@pytest.mark.parametrize(("resource", "field", "version"), _matrix())
def test_a_field_is_shown_and_may_be_asked_for_from_its_version_on(
    shared_api: Application, objects: dict[str, str], resource: Resource, field: Field, version: Version
) -> None:
    path = objects[resource.noun]
    if version < _since(resource):
        older = {e.route.older for e in BAREMETAL if e.route.shows is resource and e.route.method == "GET"}
        assert {shared_api.request("GET", path, version=str(version)).status} == older
        return
    shown = shared_api.request("GET", path, version=str(version)).json
    if field.write_only:
        assert field.name not in shown
        assert shared_api.request("GET", f"{path}?fields={field.name}", version=str(version)).status == 400
        return
    assert (field.name in shown) == (field.since <= version)
    chosen = shared_api.request("GET", f"{path}?fields={field.name}", version=str(version))
    if version < max(field.since, resource.fields_since):
        assert chosen.status == 406
    else:
        assert chosen.json.keys() == {field.name, "links"}
    collection = path.rsplit("/", 1)[0]
    ordered = shared_api.request("GET", f"{collection}?sort_key={field.name}", version=str(version))
    if not field.sort or field.column is None:
        assert ordered.status == 400
    else:
        assert ordered.status == (200 if field.since <= version else 406)


@pytest.mark.parametrize(("resource", "field", "version"), _matrix())
def test_a_field_may_be_set_from_its_version_on(
    shared_api: Application, objects: dict[str, str], resource: Resource, field: Field, version: Version
) -> None:
    collection, path = COLLECTIONS[resource.noun], objects[resource.noun]
    if version < _since(resource):
        return
    document = DOCUMENTS[collection](shared_api)
    # Null means what leaving it out means; a field of a later version is refused all the same.
    body = {**document, field.name: document.get(field.name)}
    created = shared_api.request("POST", collection, body, version=str(version))
    if not field.create:
        assert created.status == 400
    elif field.since > version:
        assert (created.status, created.json["code"]) == (406, "newer-version-needed")
    else:
        assert created.status == 201, created
    value = shared_api.send("GET", path).get(field.name)
    operations = [{"op": "add", "path": f"/{field.name}", "value": value}]
    patched = shared_api.request("PATCH", path, operations, version=str(version))
    if version < min(e.route.since for e in BAREMETAL if e.route.shows is resource and e.route.method == "PATCH"):
        assert patched.status == 405
    elif not field.patch:
        assert patched.status == 400
    elif field.since > version:
        assert (patched.status, patched.json["code"]) == (406, "newer-version-needed")
    else:
        assert patched.status == 200, patched


@pytest.mark.parametrize(
    ("endpoint", "entry", "version"),
    [
        pytest.param(endpoint, entry, version, id=f"{endpoint}?{entry.name}@{version}")
        for endpoint in BAREMETAL
        if endpoint.route.lists is not None and endpoint.route.path.count("{") == 0
        for entry in endpoint.route.lists.filters
        for version in around(max(entry.since, endpoint.route.since))
    ],
)
def test_a_filter_is_known_from_its_version_on(
    shared_api: Application, endpoint: Endpoint, entry: Any, version: Version
) -> None:
    # A value no filter takes: once the filter is known, it is the value that is wrong, or matches nothing.
    answer = shared_api.request("GET", f"{endpoint.route.path}?{entry.name}=~~%20", version=str(version))
    if version < endpoint.route.since:
        assert answer.status == endpoint.route.older
    elif version < entry.since:
        assert (answer.status, answer.json["code"]) == (406, "newer-version-needed")
    else:
        assert answer.status in (200, 400, 404)


def test_endpoints_appeared_when_upstream_says() -> None:
    table = {str(e): (str(e.route.since), e.route.older) for e in BAREMETAL}
    assert {name: table.get(name) for name in NEW_ENDPOINTS} == NEW_ENDPOINTS


@pytest.mark.parametrize(
    ("endpoint", "version"),
    [
        pytest.param(endpoint, version, id=f"{endpoint}@{version}")
        for endpoint in BAREMETAL
        if endpoint.route.since > MINIMUM
        for version in around(endpoint.route.since)
    ],
)
def test_an_endpoint_is_there_from_its_version_on(
    shared_api: Application, endpoint: Endpoint, version: Version
) -> None:
    path = fill(shared_api, endpoint).removeprefix("/baremetal")
    body = valid_body(shared_api, endpoint.route) if endpoint.route.body else None
    answer = shared_api.request(endpoint.route.method, path, body, version=str(version))
    unknown = {404: "The resource could not be found.", 405: "needs API version", 406: "needs API version"}
    if version < endpoint.route.since:
        assert answer.status == endpoint.route.older
        assert unknown[answer.status] in answer.text
    else:
        assert answer.status not in (405, 406), answer
        assert answer.status != 404 or unknown[404] not in answer.text


@pytest.mark.parametrize("version", ["1.7", "1.8"])
def test_fields_came_with_1_8(shared_api: Application, version: str) -> None:
    status = 200 if version == "1.8" else 406
    for path in ("/v1/nodes", f"/v1/nodes/{shared_api.enrol()[0]}"):
        assert shared_api.request("GET", f"{path}?fields=uuid", version=version).status == status


@pytest.mark.parametrize(("version", "status"), [("1.4", 404), ("1.5", 200), ("latest", 200)])
def test_names_identify_nodes_from_1_5_on(shared_api: Application, version: str, status: int) -> None:
    if shared_api.request("GET", "/v1/nodes/by-name").status == 404:
        shared_api.enrol(name="by-name")
    for path in ("", "/states", "/validate"):
        assert shared_api.request("GET", f"/v1/nodes/by-name{path}", version=version).status == status


@pytest.mark.parametrize(
    ("name", "version", "status"),
    [
        ("rack1-node2.example.com", "1.5", 201),
        ("under_score", "1.9", 400),
        ("under_score", "1.10", 201),
        ("tilde~dot.", "1.10", 201),
        ("9starts-with-digit", "1.5", 201),
        ("-dash-first", "1.9", 400),
        ("with space", "latest", 400),
        ("slash/ed", "latest", 400),
        ("ümlaut", "latest", 400),
        ("x" * 255, "latest", 201),
        ("x" * 256, "latest", 400),
        ("5b1f5fb4-5b5e-4c3b-9a5e-2a6f0f4c2d11", "latest", 400),
        *((name, "latest", 400) for name in ("maintenance", "management", "states", "vendor_passthru")),
        *((name, "latest", 400) for name in ("detail", "validate", "DETAIL")),
    ],
)
def test_names_by_version(shared_api: Application, name: str, version: str, status: int) -> None:
    body = {"driver": "fake-hardware", "name": name}
    created = shared_api.request("POST", "/v1/nodes", body, version=version)
    assert created.status == status, created
    (other,) = shared_api.enrol()
    if created.status == 201:
        uuid = created.json["uuid"]
        shared_api.send("DELETE", f"/v1/nodes/{uuid}")
    operations = [{"op": "add", "path": "/name", "value": name}]
    renamed = shared_api.request("PATCH", f"/v1/nodes/{other}", operations, version=version)
    assert renamed.status == (200 if status == 201 else 400)
    if renamed.status == 200:
        shared_api.send("DELETE", f"/v1/nodes/{other}")


@pytest.mark.parametrize(("version", "state"), [("1.1", None), ("1.10", "available"), ("1.11", "enroll")])
def test_new_nodes_start_enrolled_from_1_11_on(shared_api: Application, version: str, state: str | None) -> None:
    created = shared_api.request("POST", "/v1/nodes", {"driver": "fake-hardware"}, version=version)
    assert created.json["provision_state"] == state
