"""Lists filtered by traits, every combination of arguments, against the plainest possible model."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert

from holdfast.baremetal import trait_filters
from holdfast.db.tables import node_traits
from tests import bulk
from tests.application import Application

FILTERS = ("traits", "traits-any", "not-traits", "not-traits-any")
NODES = 14
POOL = ("CUSTOM_A", "CUSTOM_B", "CUSTOM_C", "CUSTOM_D")
NOBODYS = "CUSTOM_NOBODYS"
CLASSES = ("gold", "silver")

picks = st.lists(st.sampled_from([*POOL, NOBODYS]), unique=True, max_size=3)
fleets = st.lists(st.sets(st.sampled_from(POOL)), min_size=NODES, max_size=NODES)
queries = st.fixed_dictionaries(
    {
        **dict.fromkeys(FILTERS, picks),
        "limit": st.integers(1, 5),
        "sort_key": st.sampled_from([None, "name", "uuid", "resource_class", "instance_uuid"]),
        "sort_dir": st.sampled_from([None, "asc", "desc"]),
        "resource_class": st.sampled_from([None, *CLASSES]),
        "maintenance": st.sampled_from([None, "true", "false"]),
    }
)


def columns(number: int) -> dict[str, Any]:
    return {
        "resource_class": CLASSES[number % 2],
        "maintenance": number % 3 == 0,
        "instance_uuid": bulk.node_uuid(1000 - number) if number % 4 == 0 else None,
    }


def model(fleet: list[set[str]], query: dict[str, Any]) -> list[str]:
    """The UUIDs the whole list should have, in order."""
    every, some, not_every, not_some = (set(query[argument]) for argument in FILTERS)
    rows = []
    for number, has in enumerate(fleet):
        row = columns(number) | {"id": number, "uuid": bulk.node_uuid(number), "name": bulk.node_name(number)}
        matches = (
            every <= has
            and (not some or bool(some & has))
            and (not not_every or not not_every <= has)
            and not (not_some & has)
            and query["resource_class"] in (None, row["resource_class"])
            and query["maintenance"] in (None, str(row["maintenance"]).lower())
        )
        if matches:
            rows.append(row)
    key = query["sort_key"] or "id"

    def order(row: dict[str, Any]) -> tuple[bool, str, int]:
        return row[key] is None, str(row[key] or "") if key != "id" else "", row["id"]

    rows.sort(key=order, reverse=query["sort_dir"] == "desc")
    return [row["uuid"] for row in rows]


def walk(api: Application, query: dict[str, Any]) -> list[str]:
    """The UUIDs the service gives, page after page."""
    arguments = {name: ",".join(value) if isinstance(value, list) else value for name, value in query.items()}
    path = "/v1/nodes?" + urlencode({name: value for name, value in arguments.items() if value})
    found: list[str] = []
    while True:
        page = api.send("GET", path)
        assert len(page["nodes"]) <= query["limit"]
        found += [node["uuid"] for node in page["nodes"]]
        if "next" not in page:
            return found
        path = page["next"].split("/baremetal")[1]


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(fleet=fleets, query=queries, rare=st.sampled_from([1, 4, trait_filters.RARE]))
def compare(api: Application, fleet: list[set[str]], query: dict[str, Any], rare: int) -> None:
    with api.services.db.write() as connection:
        connection.execute(delete(node_traits))
        rows = [{"node_id": number + 1, "trait": name} for number, has in enumerate(fleet) for name in has]
        if rows:
            connection.execute(insert(node_traits), rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trait_filters, "RARE", rare)
        assert walk(api, query) == model(fleet, query)


def test_every_combination_agrees_with_a_plain_model(either_api: Application) -> None:
    bulk.load(either_api.services.db, NODES, columns_of=columns)
    compare(either_api)
