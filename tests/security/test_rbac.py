"""Who may call what: every route of the service against every kind of caller.

The tables below say what is expected, by groups of rules. The tests send a request for every route and
every persona through the real edge and rules; only handlers that would change something are replaced.
A rule that is in no table fails `test_every_rule_has_a_case`, a route with such a rule its own case.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import bcrypt
import msgspec
import pytest
from sqlalchemy import insert, select

from holdfast import app, config
from holdfast.baremetal import policies
from holdfast.db import tables
from holdfast.db.engine import now
from holdfast.web import auth, edge
from holdfast.web.auth import ADMIN, ANONYMOUS, CALLER, Caller
from holdfast.web.policy import Policy, allocation_target, node_target
from holdfast.web.routes import Api, Reply, Route
from tests.application import Answer, Application, running

# Roles as Keystone hands them out: each implies those after it.
ROLES = {
    "admin": frozenset({"admin", "manager", "member", "reader"}),
    "manager": frozenset({"manager", "member", "reader"}),
    "member": frozenset({"member", "reader"}),
    "reader": frozenset({"reader"}),
    "service": frozenset({"service"}),
}
SYSTEM = {f"system {role}": Caller(user_id="u", roles=held, system_scope="all") for role, held in ROLES.items()}
PROJECT = {
    f"project {role}": Caller(user_id="u", project_id="mine", project_name="mine", roles=held)
    for role, held in ROLES.items()
}
PERSONAS: dict[str, Caller] = {
    **SYSTEM,
    **PROJECT,
    "service project": Caller(user_id="nova", project_id="s", project_name="service", roles=ROLES["service"]),
    "domain admin": Caller(user_id="u", domain_id="d", roles=ROLES["admin"]),
    "no role": Caller(user_id="u", project_id="mine", project_name="mine"),
    "anonymous": ANONYMOUS,
}

ALL_SYSTEM = {"system admin", "system manager", "system member", "system reader", "system service"}
OPERATORS = {"system admin", "system manager", "system member", "system service"}
SYSTEM_MEMBERS = OPERATORS - {"system service"}
MEMBERS = {"project admin", "project manager", "project member"}
SOMEBODY = ALL_SYSTEM | set(PROJECT) | {"service project"}

# Rules on things that belong to the whole system: allowed personas; everybody else is refused with 403.
SYSTEM_RULES: dict[str, set[str]] = {
    "baremetal:node:create": {"system admin", "system service"},
    "baremetal:chassis:get": ALL_SYSTEM,
    "baremetal:chassis:create": {"system admin"},
    "baremetal:chassis:update": SYSTEM_MEMBERS,
    "baremetal:chassis:delete": {"system admin"},
    "baremetal:conductor:get": ALL_SYSTEM,
    "baremetal:deploy_template:get": ALL_SYSTEM,
    "baremetal:deploy_template:create": {"system admin"},
    "baremetal:deploy_template:update": {"system admin"},
    "baremetal:deploy_template:delete": {"system admin"},
    "baremetal:events:post": {"system admin"},
    "baremetal:allocation:create": SYSTEM_MEMBERS | MEMBERS,
    "baremetal:allocation:create_restricted": SYSTEM_MEMBERS,
    "baremetal:driver:get": ALL_SYSTEM,
    "baremetal:driver:get_properties": ALL_SYSTEM,
    "baremetal:driver:get_raid_logical_disk_properties": ALL_SYSTEM,
    "baremetal:driver:vendor_passthru": {"system admin"},
    "holdfast:flow:get": ALL_SYSTEM,
    "holdfast:flow:repair": SYSTEM_MEMBERS,
}

# Rules on lists: allowed personas; a project's list holds only what is its own.
LIST_RULES: dict[str, set[str]] = {
    "baremetal:node:list": SOMEBODY,
    "baremetal:port:list": SOMEBODY,
    "baremetal:portgroup:list": SOMEBODY,
    "baremetal:volume:list": SOMEBODY,
    "baremetal:allocation:list": SOMEBODY,
    "baremetal:node:list_all": ALL_SYSTEM,
    "baremetal:port:list_all": ALL_SYSTEM,
    "baremetal:portgroup:list_all": ALL_SYSTEM,
    "baremetal:volume:list_all": ALL_SYSTEM,
    "baremetal:allocation:list_all": ALL_SYSTEM,
}

# Rules on one node: who may, by the caller's relation to it. Who may not see the node is told that it
# does not exist, who sees it but may not do this is refused.
EVERY_ROLE = {"admin", "manager", "member", "reader"}
CHANGING = {"admin", "manager", "member"}
LEADING = {"admin", "manager"}
SERVICE = {"service"}
READ = {"system": EVERY_ROLE | SERVICE, "owner": EVERY_ROLE | SERVICE, "lessee": EVERY_ROLE}
READ_INNER = {"system": EVERY_ROLE | SERVICE, "owner": EVERY_ROLE | SERVICE, "lessee": set()}
USE = {"system": CHANGING | SERVICE, "owner": CHANGING, "lessee": CHANGING}
OPERATE = {"system": CHANGING | SERVICE, "owner": CHANGING | SERVICE, "lessee": LEADING}
SET_UP = {"system": CHANGING | SERVICE, "owner": CHANGING | SERVICE, "lessee": set()}
REBUILD = {"system": CHANGING | SERVICE, "owner": LEADING | SERVICE, "lessee": set()}
ADD_PARTS = {"system": {"admin"} | SERVICE, "owner": LEADING | SERVICE, "lessee": set()}
ADD_VOLUMES = {"system": CHANGING | SERVICE, "owner": LEADING | SERVICE, "lessee": LEADING}
ASSIGN = {"system": CHANGING, "owner": set(), "lessee": set()}
SYSTEM_ADMIN = {"system": {"admin"}, "owner": set(), "lessee": set()}
NODE_RULES: dict[str, dict[str, set[str]]] = {
    "baremetal:node:get": READ,
    "baremetal:node:get_states": READ,
    "baremetal:node:traits:list": READ,
    "baremetal:node:bios:get": READ,
    "baremetal:node:get_indicator_state": READ,
    "baremetal:node:vif:list": READ,
    "baremetal:port:get": READ,
    "baremetal:portgroup:get": READ,
    "baremetal:volume:get": READ,
    "baremetal:node:get:last_error": READ_INNER,
    "baremetal:node:get:reservation": READ_INNER,
    "baremetal:node:get:driver_internal_info": READ_INNER,
    "baremetal:node:get:driver_info": READ_INNER,
    "baremetal:node:update": USE,
    "baremetal:node:update_extra": USE,
    "baremetal:node:set_power_state": USE,
    "baremetal:node:update_instance_info": OPERATE,
    "baremetal:node:validate": OPERATE,
    "baremetal:node:set_maintenance": OPERATE,
    "baremetal:node:clear_maintenance": OPERATE,
    "baremetal:node:set_provision_state": OPERATE,
    "baremetal:node:set_provision_state:clean_steps": OPERATE,
    "baremetal:node:vif:attach": OPERATE,
    "baremetal:node:vif:detach": OPERATE,
    "baremetal:volume:update": OPERATE,
    "baremetal:node:update:driver_info": SET_UP,
    "baremetal:node:update:properties": SET_UP,
    "baremetal:node:update:instance_uuid": SET_UP,
    "baremetal:node:update:lessee": SET_UP,
    "baremetal:node:update:name": SET_UP,
    "baremetal:node:set_raid_state": SET_UP,
    "baremetal:node:get_console": SET_UP,
    "baremetal:node:set_console_state": SET_UP,
    "baremetal:node:update:driver_interfaces": REBUILD,
    "baremetal:node:get_boot_device": REBUILD,
    "baremetal:node:set_boot_device": REBUILD,
    "baremetal:node:set_indicator_state": REBUILD,
    "baremetal:node:inject_nmi": REBUILD,
    "baremetal:node:traits:set": REBUILD,
    "baremetal:node:traits:delete": REBUILD,
    "baremetal:port:update": REBUILD,
    "baremetal:portgroup:update": REBUILD,
    "baremetal:port:create": ADD_PARTS,
    "baremetal:port:delete": ADD_PARTS,
    "baremetal:portgroup:create": ADD_PARTS,
    "baremetal:portgroup:delete": ADD_PARTS,
    "baremetal:volume:create": ADD_VOLUMES,
    "baremetal:volume:delete": ADD_VOLUMES,
    "baremetal:node:update:owner": ASSIGN,
    "baremetal:node:update:conductor_group": ASSIGN,
    "baremetal:node:update:chassis_uuid": SYSTEM_ADMIN,
    "baremetal:node:update_owner_provisioned": SYSTEM_ADMIN,
    "baremetal:node:delete": SYSTEM_ADMIN,
    "baremetal:node:vendor_passthru": SYSTEM_ADMIN,
    "baremetal:node:delete:self_owned_node": {"system": set(), "owner": {"admin"}, "lessee": set()},
}

# Rules on an allocation: the same, by the caller's relation to it.
ALLOCATION_RULES: dict[str, dict[str, set[str]]] = {
    "baremetal:allocation:get": {"system": EVERY_ROLE | SERVICE, "owner": EVERY_ROLE},
    "baremetal:allocation:update": {"system": CHANGING, "owner": CHANGING},
    "baremetal:allocation:delete": {"system": CHANGING, "owner": CHANGING},
}

# Rules that fit no group: tested one by one in tests/web/test_policy.py.
ALONE = {
    "baremetal:node:create:self_owned_node",
    "baremetal:node:get:filter_threshold",
    "baremetal:volume:view_target_properties",
    "baremetal:driver:ipa_lookup",
    "baremetal:node:ipa_heartbeat",
}

# All that anybody on the network may ask for.
PUBLIC = {
    "GET /baremetal",
    "GET /baremetal/v1",
    "GET /baremetal/v1/lookup",
    "POST /baremetal/v1/heartbeat/{node}",
    "POST /baremetal/v1/continue_inspection",
    "POST /baremetal/v1/drivers/{driver}/vendor_passthru/lookup",
    "POST /baremetal/v1/nodes/{node}/vendor_passthru/heartbeat",
    "GET /images/{node}/{secret}",
    "GET /boot/boot.ipxe",
    "GET /boot/ipxe/{mac}",
    "GET /boot/ipxe/{mac}/failed",
    "POST /boot/dhcp/{mac}",
    "GET /",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /identity",
    "GET /identity/{version}",
    "GET /openapi.json",
}

ROUTES = [(api, route) for api in app.APIS for route in api.routes]
GUARDED = [(api, route) for api, route in ROUTES if route.policy is not None]
RELATIONS = {
    "owner": node_target("mine", None),
    "lessee": node_target("theirs", "mine"),
    "stranger": node_target("theirs", "others"),
    "nobody's": node_target(None, None),
}


def label(entry: Any) -> str:
    api, route = entry
    return f"{route.method} {api.prefix}{route.path or '/'}"


# -- the rules themselves


def test_every_rule_has_a_case() -> None:
    expected = {*SYSTEM_RULES, *LIST_RULES, *NODE_RULES, *ALLOCATION_RULES, *ALONE}
    assert expected == {rule.name for rule in policies.RULES if ":" in rule.name}


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy(config.load(environment={}, overrides={("DEFAULT", "auth_strategy"): "keystone"}), policies.RULES)


@pytest.mark.parametrize("persona", PERSONAS)
@pytest.mark.parametrize("rule", [*SYSTEM_RULES, *LIST_RULES])
def test_rules_without_a_node(policy: Policy, rule: str, persona: str) -> None:
    allowed = {**SYSTEM_RULES, **LIST_RULES}[rule]
    assert policy.allows(rule, PERSONAS[persona]) is (persona in allowed)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rule", NODE_RULES)
def test_rules_on_a_node(policy: Policy, rule: str, relation: str) -> None:
    expected = {f"system {role}" for role in NODE_RULES[rule]["system"]}
    expected |= {f"project {role}" for role in NODE_RULES[rule].get(relation, ())}
    target = RELATIONS[relation]
    assert {name for name, caller in PERSONAS.items() if policy.allows(rule, caller, target)} == expected


@pytest.mark.parametrize(("relation", "owner"), [("owner", "mine"), ("stranger", "theirs"), ("nobody's", None)])
@pytest.mark.parametrize("rule", ALLOCATION_RULES)
def test_rules_on_an_allocation(policy: Policy, rule: str, relation: str, owner: str | None) -> None:
    expected = {f"system {role}" for role in ALLOCATION_RULES[rule]["system"]}
    expected |= {f"project {role}" for role in ALLOCATION_RULES[rule].get(relation, ())}
    target = allocation_target(owner)
    assert {name for name, caller in PERSONAS.items() if policy.allows(rule, caller, target)} == expected


def test_a_project_administrator_may_enrol_nodes_of_its_own_only(policy: Policy) -> None:
    allowed = {name for name, who in PERSONAS.items() if policy.allows("baremetal:node:create:self_owned_node", who)}
    assert allowed == {"system admin", "system service", "project admin", "project service", "service project"}


# -- every route, over HTTP


class House:
    """The application with Keystone's rules, where a test says who calls, and something to call for."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.idents = {"driver": "fake-hardware", **enrol_one_of_each(application)}
        conf = config.load(environment={}, overrides={("DEFAULT", "auth_strategy"): "keystone"})
        application.services.policy = Policy(conf, policies.RULES)
        self.apis = [replace(api, routes=[harmless(route) for route in api.routes]) for api in app.APIS]
        application._wsgi = edge.build(application.services, self.apis)

    def call(self, api: Api, route: Route, caller: Caller, **headers: str) -> Answer:
        path = re.sub(r"\{(\w+)\}", lambda found: self.idents.get(found[1], "something"), api.prefix + route.path)
        body = None if route.method in ("GET", "DELETE") else b"{}"
        if api.negotiation is not None:
            headers[api.negotiation.header] = "latest"
        return self.application.call(route.method, path or "/", body, headers, **{CALLER: caller})


def enrol_one_of_each(application: Application) -> dict[str, str]:
    """What the placeholders of paths stand for: a node with its parts."""
    node, chassis, port, portgroup, connector, target, allocation = (
        application.enrol()[0],
        *(str(uuid4()) for _ in range(6)),
    )
    with application.services.db.write() as connection:
        node_id = connection.execute(select(tables.nodes.c.id).where(tables.nodes.c.uuid == node)).scalar_one()
        common = {"created_at": now(), "node_id": node_id}
        connection.execute(insert(tables.chassis).values(uuid=chassis, created_at=now()))
        connection.execute(insert(tables.ports).values(uuid=port, address="52:54:00:00:00:01", **common))
        connection.execute(insert(tables.portgroups).values(uuid=portgroup, mode="active-backup", **common))
        initiator = {"type": "ip", "connector_id": "192.0.2.1"}
        connection.execute(insert(tables.volume_connectors).values(uuid=connector, **initiator, **common))
        volume = {"volume_type": "iscsi", "volume_id": "root", "boot_index": 0}
        connection.execute(insert(tables.volume_targets).values(uuid=target, **volume, **common))
        connection.execute(insert(tables.allocations).values(uuid=allocation, state="active", **common))
        template = {"name": "CUSTOM_RAID", "steps": "[]", "created_at": now()}
        connection.execute(insert(tables.deploy_templates).values(uuid=str(uuid4()), **template))
    return {
        "node": node,
        "chassis": chassis,
        "port": port,
        "portgroup": portgroup,
        "connector": connector,
        "target": target,
        "allocation": allocation,
        "template": "CUSTOM_RAID",
        "indicator": "led@chassis",
    }


def harmless(route: Route) -> Route:
    """The route, without the work that a request for it would start."""
    if route.method == "GET":
        return route
    return replace(route, handler=lambda _request: Reply(), body=dict, optional_body=True)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with running(tmp_path_factory.mktemp("rbac")) as application:
        yield House(application)


def outcome(answer: Answer, for_administrator: Answer) -> str:
    """What the answer means for its caller, when an administrator gets the other one."""
    if answer.status == 403:
        return "refused"
    if answer.status == 404 and (for_administrator.status, for_administrator.content) != (404, answer.content):
        return "missing"
    assert answer.status == for_administrator.status
    return "allowed"


def rule_of(route: Route) -> str:
    """The rule that decides whether the route answers; of a list, `list_all` decides what it shows."""
    return (route.policy or "").replace(":list_all", ":list")


# Says only where the lists are, whoever asks.
SIGNPOSTS = {"/v1/volume"}
LISTS = [
    entry
    for entry in GUARDED
    if rule_of(entry[1]) in LIST_RULES and "{" not in entry[1].path and entry[1].path not in SIGNPOSTS
]


def expected_outcome(route: Route, persona: str) -> str:
    """From the tables. The node of these tests belongs to nobody, so only system tokens see it."""
    rule = rule_of(route)
    rules = {**NODE_RULES, **ALLOCATION_RULES}
    if rule in rules:
        scope, _, role = persona.partition(" ")
        if scope == "system":
            return "allowed" if role in rules[rule]["system"] else "refused"
        if "{" in route.path:
            return "missing"
        # The body names the node: who may do it to a node of its own gets as far as that.
        may = {f"project {role}" for role in rules[rule]["owner"] | rules[rule]["lessee"]}
        may |= {"service project"} if "service" in rules[rule]["owner"] else set()
        return "allowed" if persona in may else "refused"
    if rule in LIST_RULES and "{" in route.path and persona not in SYSTEM:
        return "missing"  # a list below a node one does not see
    return "allowed" if persona in {**SYSTEM_RULES, **LIST_RULES}[rule] else "refused"


@pytest.mark.parametrize("persona", PERSONAS)
@pytest.mark.parametrize("entry", GUARDED, ids=label)
def test_every_route_answers_every_persona_as_its_rule_says(
    house: House, entry: tuple[Api, Route], persona: str
) -> None:
    api, route = entry
    answer = house.call(api, route, PERSONAS[persona])
    assert outcome(answer, house.call(api, route, ADMIN)) == expected_outcome(route, persona)


@pytest.mark.parametrize("entry", [entry for entry in GUARDED if "{node}" in entry[1].path], ids=label)
def test_a_node_that_is_hidden_and_one_that_is_missing_answer_alike(house: House, entry: tuple[Api, Route]) -> None:
    api, route = entry
    hidden = house.call(api, route, PERSONAS["project admin"])
    known, house.idents["node"] = house.idents["node"], "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
    try:
        missing = house.call(api, route, PERSONAS["project admin"])
    finally:
        unknown, house.idents["node"] = house.idents["node"], known
    assert hidden.status == missing.status == 404
    assert hidden.text.replace(known, "X") == missing.text.replace(unknown, "X")


@pytest.mark.parametrize("persona", [*PROJECT, "service project"])
@pytest.mark.parametrize("entry", LISTS, ids=label)
def test_a_project_lists_nothing_while_nothing_is_its_own(house: House, entry: tuple[Api, Route], persona: str) -> None:
    api, route = entry
    assert route.lists is not None
    assert house.call(api, route, PERSONAS[persona]).json[route.lists.key] == []


@pytest.mark.parametrize("entry", ROUTES, ids=label)
def test_without_credentials_every_route_is_closed_that_is_not_meant_to_be_public(
    house: House, entry: tuple[Api, Route], tmp_path: Path
) -> None:
    api, route = entry
    users = tmp_path / "users"
    users.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    strategy = {("DEFAULT", "auth_strategy"): "http_basic", ("DEFAULT", "http_basic_auth_user_file"): str(users)}
    inner = house.application._wsgi
    house.application._wsgi = auth.wrap(
        inner, config.load(environment={}, overrides=strategy), edge.public_paths(app.APIS)
    )
    try:
        bare = house.call(api, route, ANONYMOUS)
        credentials = "Basic " + base64.b64encode(b"alice:secret").decode()
        known = house.call(api, route, ANONYMOUS, Authorization=credentials)
    finally:
        house.application._wsgi = inner
    assert (bare.status == 401) is (f"{route.method} {api.prefix}{route.path}" not in PUBLIC)
    assert known.status not in (401, 403)


def test_what_is_public_is_on_the_list_and_nothing_else() -> None:
    public = {f"{route.method} {api.prefix}{route.path}" for api, route in ROUTES if route.policy is None}
    assert public == PUBLIC


# -- patches, whose rule depends on the field

PATCHES: dict[str, Any] = {
    "extra": {"a": 1},
    "name": "renamed",
    "driver_info": {"a": 1},
    "properties": {"a": 1},
    "instance_info": {"a": 1},
    "resource_class": "large",
    "conductor_group": "north",
    "power_interface": "fake",
    "chassis_uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c123",
}


@pytest.mark.parametrize("persona", SYSTEM)
@pytest.mark.parametrize("field", PATCHES)
def test_a_patch_needs_the_rule_of_its_field(house: House, field: str, persona: str) -> None:
    inner = house.application._wsgi
    house.application._wsgi = edge.build(house.application.services, app.APIS)
    operations = [{"op": "add", "path": f"/{field}", "value": PATCHES[field]}]
    try:
        answer = house.application.call(
            "PATCH",
            f"/baremetal/v1/nodes/{house.idents['node']}",
            msgspec.json.encode(operations),
            {"X-OpenStack-Ironic-API-Version": "latest"},
            **{CALLER: SYSTEM[persona]},
        )
    finally:
        house.application._wsgi = inner
    (rule,) = policies.patch_rules([field])
    allowed = persona.removeprefix("system ") in NODE_RULES[rule]["system"]
    assert (answer.status == 403) is not allowed
