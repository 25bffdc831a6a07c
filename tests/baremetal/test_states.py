"""The provision state machine, its verbs, power and maintenance, over the API."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from holdfast.baremetal import states
from holdfast.baremetal.states import LATER_VERBS, STATES, TARGETS, TRANSITIONS, VERBS
from holdfast.db.tables import nodes
from tests.application import Application

# What a verb needs beside its name.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "clean": {"clean_steps": [{"interface": "deploy", "step": "erase_devices"}]},
    "rescue": {"rescue_password": "hunter2"},
}
# Where a machine that does as it is told ends up after each verb; `abort` ends where the machine says.
LEADS_TO = {
    "active": states.ACTIVE,
    "rebuild": states.ACTIVE,
    "deleted": states.AVAILABLE,
    "manage": states.MANAGEABLE,
    "provide": states.AVAILABLE,
    "inspect": states.MANAGEABLE,
    "clean": states.MANAGEABLE,
    "adopt": states.ACTIVE,
    "rescue": states.RESCUE,
    "unrescue": states.ACTIVE,
}
# Moves the flow that works on the node makes; its lock keeps clients out.
INTERNAL = {(states.CLEANING, "manage"), (states.DELETING, "clean")}
POSSIBLE = [(state, verb) for state in TRANSITIONS for verb in VERBS if VERBS[verb].event in TRANSITIONS[state]]
ALLOWED = [pair for pair in POSSIBLE if pair not in INTERNAL]
REFUSED = [(state, verb) for state in TRANSITIONS for verb in VERBS if VERBS[verb].event not in TRANSITIONS[state]]


def put_into(api: Application, state: str, **values: Any) -> str:
    """A node that is in the state, by fiat."""
    (uuid,) = api.enrol()
    values.setdefault("target_provision_state", TARGETS.get(state))
    with api.services.db.write() as connection:
        connection.execute(update(nodes).where(nodes.c.uuid == uuid).values(provision_state=state, **values))
    return uuid


def ask(api: Application, node: str, verb: str, version: str = "latest") -> Any:
    body = {"target": verb, **ARGUMENTS.get(verb, {})}
    return api.request("PUT", f"/v1/nodes/{node}/states/provision", body, version=version)


# -- the machine as data


def test_every_transition_leads_to_a_state() -> None:
    assert {after for events in TRANSITIONS.values() for after in events.values()} <= STATES


def test_every_state_can_be_reached_from_the_first() -> None:
    reached, frontier = {states.ENROLL}, [states.ENROLL]
    while frontier:
        new = set(TRANSITIONS[frontier.pop()].values()) - reached
        reached |= new
        frontier += new
    assert reached == STATES


def test_no_state_is_a_dead_end() -> None:
    assert all(TRANSITIONS.values())


def test_every_verb_is_possible_somewhere() -> None:
    events = {event for entry in TRANSITIONS.values() for event in entry}
    assert {verb.event for verb in VERBS.values()} <= events


def test_states_are_at_rest_under_way_or_failed() -> None:
    assert states.STABLE | states.FAILED | states.UNSTABLE == STATES
    assert not states.STABLE & states.FAILED
    assert states.WAITING <= states.UNSTABLE


def test_a_state_on_its_way_shows_where_to_and_a_state_at_rest_does_not() -> None:
    assert TARGETS.keys() == STATES - states.STABLE
    assert set(TARGETS.values()) <= states.STABLE


def test_work_that_can_begin_can_fail() -> None:
    for state in states.UNSTABLE:
        assert TRANSITIONS[state].get("fail") in states.FAILED | {states.ENROLL, states.ERROR}, state


def test_groups_of_states_name_states() -> None:
    for group in (
        states.RECONFIGURABLE,
        states.PORT_CHANGEABLE,
        states.DELETABLE,
        states.PATCHABLE_IN_TRANSITION,
        states.LOOKUP,
    ):
        assert group <= STATES


def test_state_words_fit_their_column() -> None:
    assert all(len(state) <= nodes.c.provision_state.type.length for state in STATES)  # type: ignore[attr-defined]


# -- every verb from every state


@pytest.mark.parametrize(("state", "verb"), REFUSED)
def test_a_verb_that_is_not_possible_now_is_refused_and_says_what_is(
    shared_api: Application, state: str, verb: str
) -> None:
    uuid = put_into(shared_api, state)
    answer = ask(shared_api, uuid, verb)
    assert (answer.status, answer.json["code"]) == (400, "invalid-state-requested")
    assert repr(state) in answer.text
    for possible in VERBS:
        if (state, possible) in ALLOWED:
            assert possible in answer.text
    assert shared_api.send("GET", f"/v1/nodes/{uuid}")["provision_state"] == state


@pytest.mark.parametrize(("state", "verb"), ALLOWED)
def test_a_verb_that_is_possible_is_carried_out(shared_api: Application, state: str, verb: str) -> None:
    uuid = put_into(shared_api, state)
    answer = ask(shared_api, uuid, verb)
    assert answer.status == 202, answer
    assert answer.content == b""
    assert answer.headers["location"] == f"http://127.0.0.1:6385/baremetal/v1/nodes/{uuid}/states"
    wanted = LEADS_TO.get(verb) or TRANSITIONS[state][VERBS[verb].event]
    node = shared_api.settle(uuid, wanted)
    assert node["target_provision_state"] == TARGETS.get(wanted)
    assert node["reservation"] is None


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_known_from_its_version_on(shared_api: Application, verb: str) -> None:
    since = VERBS[verb].since
    uuid = put_into(shared_api, states.ENROLL)
    if since.minor > 1:
        answer = ask(shared_api, uuid, verb, f"1.{since.minor - 1}")
        assert (answer.status, answer.json["code"]) == (406, "newer-version-needed")
    # Known now: it is the state that decides.
    assert ask(shared_api, uuid, verb, str(since)).status == (202 if verb == "manage" else 400)


@pytest.mark.parametrize(
    ("verb", "version"),
    [
        ("active", "1.1"),
        ("deleted", "1.1"),
        ("rebuild", "1.1"),
        ("manage", "1.4"),
        ("provide", "1.4"),
        ("inspect", "1.6"),
        ("abort", "1.13"),
        ("clean", "1.15"),
        ("adopt", "1.17"),
        ("rescue", "1.38"),
        ("unrescue", "1.38"),
    ],
)
def test_verbs_appeared_when_upstream_says(verb: str, version: str) -> None:
    assert str(VERBS[verb].since) == version


@pytest.mark.parametrize("target", ["done", "fail", "wait", "resume", "delete", "nonsense", "", "ACTIVE"])
def test_what_is_no_verb_is_refused(shared_api: Application, target: str) -> None:
    (uuid,) = shared_api.enrol()
    assert ask(shared_api, uuid, target).status == 400


@pytest.mark.parametrize("target", LATER_VERBS)
def test_a_verb_of_a_later_version_is_told_to_be_one(shared_api: Application, target: str) -> None:
    (uuid,) = shared_api.enrol()
    refused = ask(shared_api, uuid, target)
    assert refused.status == 406
    assert f"needs API version {LATER_VERBS[target]}" in refused.text


@pytest.mark.parametrize(("state", "verb"), POSSIBLE)
def test_a_locked_node_refuses_every_verb_and_says_who_has_it(shared_api: Application, state: str, verb: str) -> None:
    uuid = put_into(shared_api, state, reservation="deploy_node/4711")
    answer = ask(shared_api, uuid, verb)
    assert (answer.status, answer.json["code"]) == (409, "node-locked")
    assert "deploy_node" in answer.text
    assert "4711" in answer.text


@pytest.mark.parametrize(
    ("verb", "body", "status"),
    [
        ("clean", {}, 400),
        ("clean", {"clean_steps": []}, 400),
        ("clean", {"clean_steps": [{"interface": "deploy"}]}, 400),
        ("clean", {"clean_steps": [{"step": "erase_devices"}]}, 400),
        ("clean", {"clean_steps": [{"interface": "nonsense", "step": "x"}]}, 400),
        ("clean", {"clean_steps": [{"interface": "deploy", "step": "x", "more": 1}]}, 400),
        ("clean", {"clean_steps": [{"interface": "deploy", "step": "x", "args": []}]}, 400),
        ("provide", {"clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}, 400),
        ("provide", {"configdrive": "http://example/x"}, 400),
        ("provide", {"rescue_password": "x"}, 400),
        ("provide", {"nonsense": 1}, 400),
        ("provide", {}, 202),
    ],
)
def test_arguments_go_with_their_verb(shared_api: Application, verb: str, body: dict[str, Any], status: int) -> None:
    uuid = put_into(shared_api, states.MANAGEABLE)
    answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": verb, **body})
    assert answer.status == status, answer


@pytest.mark.parametrize(
    ("version", "state", "body", "status"),
    [
        ("latest", states.AVAILABLE, {"target": "active", "configdrive": "http://example/drive"}, 202),
        ("latest", states.AVAILABLE, {"target": "active", "configdrive": "H4sIAAAA"}, 202),
        ("latest", states.AVAILABLE, {"target": "active", "configdrive": "not base64!"}, 400),
        ("1.55", states.AVAILABLE, {"target": "active", "configdrive": {"meta_data": {}}}, 400),
        ("1.56", states.AVAILABLE, {"target": "active", "configdrive": {"meta_data": {}}}, 202),
        ("1.34", states.ACTIVE, {"target": "rebuild", "configdrive": "H4sIAAAA"}, 400),
        ("1.35", states.ACTIVE, {"target": "rebuild", "configdrive": "H4sIAAAA"}, 202),
        ("latest", states.ACTIVE, {"target": "rescue"}, 400),
        ("latest", states.ACTIVE, {"target": "rescue", "rescue_password": " "}, 400),
        ("1.40", states.INSPECTWAIT, {"target": "abort"}, 406),
        ("1.41", states.INSPECTWAIT, {"target": "abort"}, 202),
        ("1.13", states.CLEANWAIT, {"target": "abort"}, 202),
    ],
)
def test_arguments_by_version(
    shared_api: Application, version: str, state: str, body: dict[str, Any], status: int
) -> None:
    uuid = put_into(shared_api, state)
    answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/provision", body, version=version)
    assert answer.status == status, answer


def test_no_secret_of_a_verb_is_shown_again(shared_api: Application) -> None:
    uuid = put_into(shared_api, states.ACTIVE)
    assert ask(shared_api, uuid, "rescue").status == 202
    shared_api.settle(uuid, states.RESCUE)
    assert b"hunter2" not in shared_api.request("GET", f"/v1/nodes/{uuid}").content


# -- what states are shown as


@pytest.mark.parametrize(
    ("state", "version", "shown"),
    [
        (states.AVAILABLE, "1.1", None),
        (states.AVAILABLE, "1.2", "available"),
        (states.INSPECTWAIT, "1.38", "inspecting"),
        (states.INSPECTWAIT, "1.39", "inspect wait"),
        (states.ENROLL, "1.1", "enroll"),
    ],
)
def test_old_versions_see_the_words_they_know(
    shared_api: Application, state: str, version: str, shown: str | None
) -> None:
    uuid = put_into(shared_api, state)
    for path in (f"/v1/nodes/{uuid}", f"/v1/nodes/{uuid}/states"):
        assert shared_api.request("GET", path, version=version).json["provision_state"] == shown


@pytest.mark.parametrize(("version", "raid"), [("1.1", False), ("1.11", False), ("1.12", True), ("latest", True)])
def test_states_shows_where_a_node_is(shared_api: Application, version: str, raid: bool) -> None:
    uuid = put_into(shared_api, states.DEPLOYING)
    document = shared_api.request("GET", f"/v1/nodes/{uuid}/states", version=version).json
    expected = {
        "console_enabled",
        "last_error",
        "power_state",
        "provision_state",
        "provision_updated_at",
        "target_power_state",
        "target_provision_state",
    }
    assert document.keys() == expected | ({"raid_config", "target_raid_config"} if raid else set())
    assert (document["provision_state"], document["target_provision_state"]) == ("deploying", "active")


# -- power


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ("power on", "power on"),
        ("power off", "power off"),
        ("rebooting", "power on"),
        ("soft rebooting", "power on"),
        ("soft power off", "power off"),
    ],
)
@pytest.mark.parametrize("before", ["power on", "power off"])
def test_power_changes_to_what_was_asked_for(shared_api: Application, before: str, target: str, after: str) -> None:
    (uuid,) = shared_api.enrol()
    for wanted, expected in ((before, before), (target, after)):
        answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/power", {"target": wanted})
        assert answer.status == 202
        assert answer.headers["location"].endswith(f"/v1/nodes/{uuid}/states")
        node = shared_api.settle(uuid)
        assert (node["power_state"], node["target_power_state"], node["last_error"]) == (expected, None, None)


@pytest.mark.parametrize("state", sorted(STATES))
def test_power_can_change_in_every_state_but_cleaning(shared_api: Application, state: str) -> None:
    uuid = put_into(shared_api, state)
    answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/power", {"target": "power on"})
    assert answer.status == (400 if state in ("cleaning", "clean wait") else 202), answer
    shared_api.settle(uuid, state)


@pytest.mark.parametrize(
    ("body", "version", "status"),
    [
        ({"target": "power on"}, "1.1", 202),
        ({"target": "soft power off"}, "1.26", 406),
        ({"target": "soft power off"}, "1.27", 202),
        ({"target": "soft rebooting"}, "1.26", 406),
        ({"target": "power off", "timeout": 5}, "1.26", 406),
        ({"target": "power off", "timeout": 5}, "1.27", 202),
        ({"target": "power off", "timeout": 0}, "latest", 400),
        ({"target": "power off", "timeout": -1}, "latest", 400),
        ({"target": "power off", "timeout": "5"}, "latest", 400),
        ({"target": "nonsense"}, "latest", 400),
        ({"target": "reboot"}, "latest", 400),
        ({}, "latest", 400),
        ({"target": "power on", "nonsense": 1}, "latest", 400),
    ],
    ids=str,
)
def test_a_power_request_is_checked(shared_api: Application, body: dict[str, Any], version: str, status: int) -> None:
    (uuid,) = shared_api.enrol()
    answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/power", body, version=version)
    assert answer.status == status, answer


def test_a_power_change_that_fails_says_why_on_the_node(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol(driver_info={"fake_fail": ["power.set_power_state"]})
    answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/power", {"target": "power on"})
    assert answer.status == 202
    node = shared_api.settle(uuid)
    assert node["target_power_state"] is None
    assert "power.set_power_state" in node["last_error"]


def test_the_power_of_a_locked_node_does_not_change(shared_api: Application) -> None:
    uuid = put_into(shared_api, states.ACTIVE, reservation="deploy_node/4711")
    answer = shared_api.request("PUT", f"/v1/nodes/{uuid}/states/power", {"target": "power on"})
    assert (answer.status, answer.json["code"]) == (409, "node-locked")


# -- maintenance


def test_maintenance_begins_with_a_reason_and_ends_without(shared_api: Application) -> None:
    (uuid,) = shared_api.enrol()
    path = f"/v1/nodes/{uuid}/maintenance"
    assert shared_api.request("PUT", path, {"reason": "new fan"}).status == 202
    node = shared_api.send("GET", f"/v1/nodes/{uuid}")
    assert (node["maintenance"], node["maintenance_reason"]) == (True, "new fan")
    assert shared_api.request("PUT", path).status == 202
    node = shared_api.send("GET", f"/v1/nodes/{uuid}")
    assert (node["maintenance"], node["maintenance_reason"]) == (True, None)
    assert shared_api.request("DELETE", path).status == 202
    node = shared_api.send("GET", f"/v1/nodes/{uuid}")
    assert (node["maintenance"], node["maintenance_reason"]) == (False, None)


@pytest.mark.parametrize("how", ["delete", "patch"])
def test_the_end_of_maintenance_ends_the_fault(shared_api: Application, how: str) -> None:
    uuid = put_into(shared_api, states.MANAGEABLE, maintenance=True, maintenance_reason="x", fault="power failure")
    if how == "delete":
        shared_api.send("DELETE", f"/v1/nodes/{uuid}/maintenance")
    else:
        shared_api.send("PATCH", f"/v1/nodes/{uuid}", [{"op": "replace", "path": "/maintenance", "value": False}])
    node = shared_api.send("GET", f"/v1/nodes/{uuid}")
    assert (node["maintenance"], node["maintenance_reason"], node["fault"]) == (False, None, None)


@pytest.mark.parametrize(("state", "verb"), ALLOWED)
def test_maintenance_stops_deploys_and_cleaning_by_hand_only(shared_api: Application, state: str, verb: str) -> None:
    uuid = put_into(shared_api, state, maintenance=True, maintenance_reason="new fan")
    answer = ask(shared_api, uuid, verb)
    if verb in ("active", "rebuild", "clean"):
        assert (answer.status, answer.json["code"]) == (400, "node-in-maintenance")
        assert "new fan" in answer.text
    else:
        assert answer.status == 202, answer
        shared_api.settle(uuid)
