"""The clients' own tables against ours: whatever openstacksdk and python-ironicclient know, up to the version
this service speaks, it has.

What they know of later versions our tables name with the version that brings it (`later`): when `MAXIMUM`
gets there, the entry is overdue and a test fails until the field is built and the line is gone.
"""

from __future__ import annotations

from typing import Any

import pytest
from openstack.baremetal.v1 import (
    allocation,
    chassis,
    conductor,
    deploy_templates,
    node,
    port,
    port_group,
    volume_connector,
    volume_target,
)

from holdfast.baremetal import states
from holdfast.baremetal.api import allocations as allocations_api
from holdfast.baremetal.api import chassis as chassis_api
from holdfast.baremetal.api import conductors as conductors_api
from holdfast.baremetal.api import connectors as connectors_api
from holdfast.baremetal.api import deploy_templates as templates_api
from holdfast.baremetal.api import nodes as nodes_api
from holdfast.baremetal.api import portgroups as portgroups_api
from holdfast.baremetal.api import ports as ports_api
from holdfast.baremetal.api import targets as targets_api
from holdfast.baremetal.api.routes import ROUTES
from holdfast.baremetal.versions import LATER_PATHS, MAXIMUM
from holdfast.web.lists import PAGING
from holdfast.web.resources import Resource
from holdfast.web.versions import parse

pytestmark = pytest.mark.filterwarnings("ignore")  # the clients' deprecations are their own

RESOURCES: dict[str, tuple[Any, Resource]] = {
    "allocation": (allocation.Allocation, allocations_api.ALLOCATION),
    "chassis": (chassis.Chassis, chassis_api.CHASSIS),
    "conductor": (conductor.Conductor, conductors_api.CONDUCTOR),
    "deploy template": (deploy_templates.DeployTemplate, templates_api.TEMPLATE),
    "node": (node.Node, nodes_api.NODE),
    "port": (port.Port, ports_api.PORT),
    "port group": (port_group.PortGroup, portgroups_api.PORTGROUP),
    "volume connector": (volume_connector.VolumeConnector, connectors_api.CONNECTOR),
    "volume target": (volume_target.VolumeTarget, targets_api.TARGET),
}

# Known to a client as a field, to no version of the API.
ODDITIES = {
    ("port", "trunk_details"),  # of Neutron's ports
    ("node", "runbook"),  # an argument of verbs, from 1.92 on
}


def known(resource: Resource) -> set[str]:
    return {"links", *(field.name for field in resource.fields), *(link.name for link in resource.links)}


def later(resource: Resource) -> set[str]:
    return {name for name, _since in resource.later}


def sdk_fields(kind: Any) -> set[str]:
    """The names on the wire; `id` and `name` are every resource's, whether its API has them or not."""
    from openstack import resource

    common = set(resource.Resource._body_mapping())
    own = {name for name in kind._body_mapping() if name not in common}
    return own | {name for name, part in vars(kind).items() if name in common and getattr(part, "name", None) == name}


@pytest.mark.parametrize("noun", RESOURCES)
def test_every_field_of_openstacksdk_is_there_or_comes_later(noun: str) -> None:
    kind, ours = RESOURCES[noun]
    missing = {name for name in sdk_fields(kind) - known(ours) if (noun, name) not in ODDITIES}
    assert missing <= later(ours)


@pytest.mark.parametrize("noun", RESOURCES)
def test_every_filter_of_openstacksdk_is_there_or_comes_later(noun: str) -> None:
    kind, ours = RESOURCES[noun]
    spoken = set()
    for name, wire in kind._query_mapping._mapping.items():
        spoken.add(wire.get("name", name) if isinstance(wire, dict) else wire)
    missing = spoken - {entry.name for entry in ours.filters} - set(PAGING)
    assert missing <= later(ours)


@pytest.mark.parametrize("noun", RESOURCES)
def test_the_version_openstacksdk_speaks_is_ours_or_a_later_one(noun: str) -> None:
    kind, ours = RESOURCES[noun]
    version = parse(kind._max_microversion)
    assert version is not None
    since = min(route.since for route in ROUTES if route.shows is ours)
    assert version >= since, "the client would never see it"
    if version > MAXIMUM:
        assert ours.later, "the client knows more of it than this table says"


@pytest.mark.parametrize("noun", RESOURCES)
def test_everything_ironicclient_sends_to_create_one_is_taken(noun: str) -> None:
    import importlib

    if noun == "conductor":
        pytest.skip("nobody creates conductors")
    word = noun.replace("port group", "portgroup").replace(" ", "_")
    module = importlib.import_module(f"ironicclient.v1.{word}")
    manager = getattr(module, "".join(part.capitalize() for part in word.split("_")) + "Manager")
    ours = RESOURCES[noun][1]
    taken = {field.name for field in ours.fields if field.create}
    assert set(manager._creation_attributes) - taken <= later(ours)


# resource: the tables of columns in ironicclient, which are what its lists and `--fields` offer
COLUMNS = {
    "allocation": ("ALLOCATION_DETAILED_RESOURCE", "ALLOCATION_RESOURCE"),
    "chassis": ("CHASSIS_DETAILED_RESOURCE", "CHASSIS_RESOURCE"),
    "conductor": ("CONDUCTOR_DETAILED_RESOURCE", "CONDUCTOR_RESOURCE"),
    "deploy template": ("DEPLOY_TEMPLATE_DETAILED_RESOURCE", "DEPLOY_TEMPLATE_RESOURCE"),
    "node": ("NODE_DETAILED_RESOURCE", "NODE_RESOURCE"),
    "port": ("PORT_DETAILED_RESOURCE", "PORT_RESOURCE"),
    "port group": ("PORTGROUP_DETAILED_RESOURCE", "PORTGROUP_RESOURCE"),
    "volume connector": ("VOLUME_CONNECTOR_DETAILED_RESOURCE", "VOLUME_CONNECTOR_RESOURCE"),
    "volume target": ("VOLUME_TARGET_DETAILED_RESOURCE", "VOLUME_TARGET_RESOURCE"),
}


@pytest.mark.parametrize("noun", RESOURCES)
def test_every_column_of_ironicclient_is_there_or_comes_later(noun: str) -> None:
    from ironicclient.v1 import resource_fields

    offered = {name for table in COLUMNS[noun] for name in getattr(resource_fields, table).fields}
    ours = RESOURCES[noun][1]
    assert offered - known(ours) <= later(ours)


def test_every_verb_of_ironicclient_is_there_or_comes_later() -> None:
    from ironicclient.v1 import utils

    assert set(utils.PROVISION_ACTIONS) - states.VERBS.keys() <= states.LATER_VERBS.keys()


def test_nothing_that_was_to_come_later_is_overdue() -> None:
    promised = [entry for _kind, ours in RESOURCES.values() for entry in ours.later]
    promised += [*LATER_PATHS, *states.LATER_VERBS.items()]
    assert [entry for entry in promised if entry[1] <= MAXIMUM] == []


@pytest.mark.parametrize("noun", RESOURCES)
def test_what_is_built_is_not_promised_any_more(noun: str) -> None:
    ours = RESOURCES[noun][1]
    built = {field.name for field in ours.fields} | {entry.name for entry in ours.filters}
    assert later(ours) & built == set()
