"""JSON patch, as clients of the bare-metal API send it: shown on nodes, the same for every resource."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors
from holdfast.web import patch
from tests.application import Application

STORED = {"a": 1, "deep": {"b": [1, 2, 3], "c": {"d": None}}, "list": []}

# The application's background threads use `random` while Hypothesis draws; it takes that for the strategies' doing.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


def changed(api: Application, *operations: dict[str, Any], **fields: Any) -> Any:
    """A node's `extra` after the operations."""
    (uuid,) = api.enrol(**{"extra": STORED, **fields})
    return api.send("PATCH", f"/v1/nodes/{uuid}", list(operations))["extra"]


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], STORED),
        ([{"op": "add", "path": "/extra/new", "value": 2}], {**STORED, "new": 2}),
        ([{"op": "add", "path": "/extra/a", "value": 2}], {**STORED, "a": 2}),
        ([{"op": "replace", "path": "/extra/a", "value": None}], {**STORED, "a": None}),
        ([{"op": "remove", "path": "/extra/a"}], {k: v for k, v in STORED.items() if k != "a"}),
        ([{"op": "add", "path": "/extra", "value": {"x": 1}}], {"x": 1}),
        ([{"op": "replace", "path": "/extra", "value": {}}], {}),
        ([{"op": "remove", "path": "/extra"}], {}),
        ([{"op": "add", "path": "/extra/list/-", "value": 1}], {**STORED, "list": [1]}),
        ([{"op": "add", "path": "/extra/list/0", "value": 1}], {**STORED, "list": [1]}),
        ([{"op": "remove", "path": "/extra/deep/b/1"}], {**STORED, "deep": {"b": [1, 3], "c": {"d": None}}}),
        ([{"op": "add", "path": "/extra/with-dash_and_1", "value": 1}], {**STORED, "with-dash_and_1": 1}),
        (
            [{"op": "add", "path": "/extra/x", "value": {}}, {"op": "add", "path": "/extra/x/y", "value": 1}],
            {**STORED, "x": {"y": 1}},
        ),
        ([{"op": "remove", "path": "/extra"}, {"op": "add", "path": "/extra", "value": {"y": 1}}], {"y": 1}),
        ([{"op": "add", "path": "/extra/x", "value": "******"}], {**STORED, "x": "******"}),
    ],
    ids=str,
)
def test_operations_are_applied_one_after_the_other(
    shared_api: Application, operations: list[dict[str, Any]], expected: Any
) -> None:
    assert changed(shared_api, *operations) == expected


@pytest.mark.parametrize(
    "operations",
    [
        {"op": "add", "path": "/extra/a", "value": 1},
        [{"op": "add", "path": "/extra/a"}],
        [{"op": "test", "path": "/extra/a", "value": 1}],
        [{"op": "move", "from": "/extra/a", "path": "/extra/b"}],
        [{"op": "copy", "from": "/extra/a", "path": "/extra/b"}],
        [{"op": "add", "path": "/extra/a", "value": 1, "more": 1}],
        [{"op": "add", "path": "extra/a", "value": 1}],
        [{"op": "add", "path": "/extra/a.b", "value": 1}],
        [{"op": "add", "path": "/extra/a~1b", "value": 1}],
        [{"op": "add", "path": "/extra/", "value": 1}],
        [{"op": "add", "path": "/nonsense", "value": 1}],
        [{"op": "add", "path": "/extra/x/y", "value": 1}],
        [{"op": "add", "path": "/extra/list/5", "value": 1}],
        [{"op": "replace", "path": "/extra/x", "value": 1}],
        [{"op": "remove", "path": "/extra/x"}],
        [{"op": "remove", "path": "/extra/list/0"}],
        [{"op": "add", "path": "/extra", "value": [1]}],
        [{"op": "add", "path": "/extra", "value": "text"}],
        [{"op": "add", "path": "/name/x", "value": 1}],
        [{"op": "remove", "path": "/driver"}],
        [{"op": "add", "path": "/driver", "value": None}],
        [{"op": "add", "path": "/uuid", "value": "5b1f5fb4-5b5e-4c3b-9a5e-2a6f0f4c2d11"}],
        [{"op": "add", "path": "/traits", "value": []}],
        [{"op": "add", "path": "/provision_state", "value": "active"}],
        [{"op": "add", "path": "/driver_internal_info/x", "value": 1}],
        [{"op": "add", "path": "/power_state", "value": "power on"}],
        [{"op": "add", "path": "/reservation", "value": None}],
    ],
    ids=str,
)
def test_what_cannot_be_applied_is_refused_and_nothing_changes(shared_api: Application, operations: Any) -> None:
    (uuid,) = shared_api.enrol(extra=STORED)
    before = shared_api.send("GET", f"/v1/nodes/{uuid}")
    answer = shared_api.request("PATCH", f"/v1/nodes/{uuid}", operations)
    assert answer.status == 400, answer
    assert shared_api.send("GET", f"/v1/nodes/{uuid}") == before


def test_one_bad_operation_undoes_the_good_ones(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol(extra=STORED)
    operations = [
        {"op": "add", "path": "/extra/new", "value": 1},
        {"op": "add", "path": "/name", "value": "renamed"},
        {"op": "remove", "path": "/extra/not-there"},
    ]
    assert shared_api.request("PATCH", f"/v1/nodes/{uuid}", operations).status == 400
    node = shared_api.send("GET", f"/v1/nodes/{uuid}")
    assert (node["extra"], node["name"], node["updated_at"]) == (STORED, None, None)


@pytest.mark.parametrize(
    ("field", "value", "empty"),
    [
        ("name", "somebody", None),
        ("resource_class", "small", None),
        ("properties", {"cpus": 8}, {}),
        ("instance_info", {"x": 1}, {}),
        ("driver_info", {"x": 1}, {}),
        ("maintenance", True, False),
        ("conductor_group", "east", ""),
        ("instance_uuid", "5b1f5fb4-5b5e-4c3b-9a5e-2a6f0f4c2d12", None),
    ],
)
def test_removing_an_attribute_leaves_its_default(shared_api: Application, field: str, value: Any, empty: Any) -> None:
    (uuid,) = shared_api.enrol(**{field: value})
    node = shared_api.send("PATCH", f"/v1/nodes/{uuid}", [{"op": "remove", "path": f"/{field}"}])
    assert node[field] == empty


def test_removing_what_is_empty_already_is_no_error(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol()
    for field in ("name", "extra", "instance_uuid", "resource_class"):
        answer = shared_api.request("PATCH", f"/v1/nodes/{uuid}", [{"op": "remove", "path": f"/{field}"}])
        assert answer.status == 200


@pytest.mark.parametrize(("sent", "stored"), [("true", True), ("False", False), (True, True), ("on", True)])
def test_flags_may_be_sent_as_words(shared_api: Application, sent: Any, stored: bool) -> None:
    (uuid,) = shared_api.enrol()
    operations = [{"op": "add", "path": "/maintenance", "value": sent}]
    assert shared_api.send("PATCH", f"/v1/nodes/{uuid}", operations)["maintenance"] is stored


def test_a_field_of_a_later_version_may_be_removed_but_not_set(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol(resource_class="small")
    path = f"/v1/nodes/{uuid}"
    for operation in ("add", "replace"):
        operations = [{"op": operation, "path": "/resource_class", "value": "large"}]
        assert shared_api.request("PATCH", path, operations, version="1.20").status == 406
    operations = [{"op": "remove", "path": "/resource_class"}]
    assert shared_api.request("PATCH", path, operations, version="1.20").status == 200
    assert shared_api.send("GET", path)["resource_class"] is None


def test_a_secret_sent_back_masked_stays_what_it_was(shared_api: Application) -> None:
    """Clients that read a document, change a key and write all of it back must not store asterisks."""
    (uuid,) = shared_api.enrol(driver_info={"ipmi_password": "hunter2", "ipmi_address": "10.0.0.1"})
    path = f"/v1/nodes/{uuid}"
    shown = shared_api.send("GET", path)["driver_info"]
    assert shown == {"ipmi_password": "******", "ipmi_address": "10.0.0.1"}
    operations = [{"op": "replace", "path": "/driver_info", "value": {**shown, "ipmi_address": "10.0.0.2"}}]
    assert shared_api.send("PATCH", path, operations)["driver_info"]["ipmi_address"] == "10.0.0.2"
    with shared_api.services.db.read() as connection:
        stored = connection.exec_driver_sql("SELECT driver_info FROM nodes WHERE uuid = ?", (uuid,)).scalar()
    assert "hunter2" in str(stored)


SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)
KEYS = st.text("abc", max_size=2)
BRANCHES = st.lists(SCALARS, max_size=3) | st.dictionaries(KEYS, SCALARS, max_size=3)
JSON_VALUES = SCALARS | BRANCHES | st.lists(BRANCHES, max_size=2) | st.dictionaries(KEYS, BRANCHES, max_size=2)


@given(
    document=st.dictionaries(st.text("abc", min_size=1, max_size=2), JSON_VALUES, max_size=4),
    operations=st.lists(
        st.builds(
            lambda op, keys, value: {"op": op, "path": "/extra/" + "/".join(keys), "value": value},
            st.sampled_from(["add", "replace", "remove"]),
            st.lists(st.text("abc01-", min_size=1, max_size=2), min_size=1, max_size=3),
            JSON_VALUES,
        ),
        max_size=4,
    ),
)
def test_any_patch_is_applied_or_refused_and_the_original_is_left_alone(
    document: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    before = repr(document)
    with contextlib.suppress(errors.BadPatch):
        patch.apply({"extra": document}, patch.check(operations, {"extra"}))
    assert repr(document) == before
