"""What a caller may do: rules, scopes, the operator's policy file, and what stays masked for everybody."""

from __future__ import annotations

import logging
import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from holdfast import config, errors
from holdfast.baremetal import policies
from holdfast.web.auth import ADMIN, ANONYMOUS, Caller
from holdfast.web.policy import EVERYTHING, Policy, Rule, Scope, node_target

READER = frozenset({"reader"})
MEMBER = frozenset({"member", "reader"})
ADMINISTRATOR = frozenset({"admin", "manager", "member", "reader"})
SYSTEM_READER = Caller(user_id="u", roles=READER, system_scope="all")
SYSTEM_ADMIN = Caller(user_id="u", roles=ADMINISTRATOR, system_scope="all")
PROJECT_READER = Caller(user_id="u", project_id="mine", project_name="mine", roles=READER)
PROJECT_MEMBER = Caller(user_id="u", project_id="mine", project_name="mine", roles=MEMBER)
PROJECT_ADMIN = Caller(user_id="u", project_id="mine", project_name="mine", roles=ADMINISTRATOR)
DOMAIN_ADMIN = Caller(user_id="u", domain_id="default", roles=ADMINISTRATOR)
SERVICE = Caller(user_id="nova", project_id="s", project_name="service", roles=frozenset({"service"}))


def build(strategy: str = "keystone", rules: Any = policies.RULES, **overrides: Any) -> Policy:
    given = {("DEFAULT", name): value for name, value in overrides.items()}
    return Policy(config.load(environment={}, overrides={("DEFAULT", "auth_strategy"): strategy, **given}), rules)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return build()


class Clock:
    """Time that passes when the test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def with_file(tmp_path: Path, text: str, clock: Clock | None = None) -> tuple[Policy, Path]:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    settings = tmp_path / "holdfast.conf"
    settings.write_text(f"[DEFAULT]\nauth_strategy = keystone\n[oslo_policy]\npolicy_file = {file}\n")
    return Policy(config.load([str(settings)], environment={}), policies.RULES, clock or Clock()), file


def test_a_refusal_names_the_rule_and_nothing_of_its_inside(policy: Policy) -> None:
    with pytest.raises(errors.Forbidden) as refused:
        policy.authorize("baremetal:node:create", SYSTEM_READER)
    assert "baremetal:node:create" in refused.value.public
    for inside in ("role:", "system_scope", "admin", "rule:"):
        assert inside not in refused.value.public


def test_what_a_rule_allows_passes_silently(policy: Policy) -> None:
    policy.authorize("baremetal:node:create", SYSTEM_ADMIN)


def test_a_rule_nobody_declared_is_a_mistake_in_the_code(policy: Policy) -> None:
    for caller in (ADMIN, SYSTEM_ADMIN, ANONYMOUS):
        with pytest.raises(KeyError):
            policy.allows("baremetal:node:tickle", caller)


@pytest.mark.parametrize("strategy", ["noauth", "http_basic"])
@pytest.mark.parametrize("rule", policies.RULES, ids=lambda rule: rule.name)
def test_without_keystone_administrators_may_everything_but_see_secrets(strategy: str, rule: Rule) -> None:
    assert build(strategy).allows(rule.name, ADMIN) is not rule.shows_secrets


@pytest.mark.parametrize("strategy", ["noauth", "http_basic", "keystone"])
def test_anonymous_callers_may_only_what_a_ramdisk_needs(strategy: str) -> None:
    policy = build(strategy)
    allowed = {rule.name for rule in policies.RULES if policy.allows(rule.name, ANONYMOUS)}
    assert allowed - {"public_api"} == {"baremetal:driver:ipa_lookup", "baremetal:node:ipa_heartbeat"}


def test_secrets_are_shown_to_nobody_unless_a_policy_file_says_so(policy: Policy, tmp_path: Path) -> None:
    assert not policy.allows("show_password", SYSTEM_ADMIN)
    assert not policy.allows("show_instance_secrets", SYSTEM_ADMIN)
    opened, _ = with_file(tmp_path, '"show_password": "rule:system_admin"\n')
    assert opened.allows("show_password", SYSTEM_ADMIN)
    assert not opened.allows("show_password", SYSTEM_READER)


# -- owners and lessees


def test_an_owner_and_a_lessee_see_their_node_and_nobody_else_does(policy: Policy) -> None:
    assert policy.sees(PROJECT_READER, "mine", None)
    assert policy.sees(PROJECT_READER, None, "mine")
    assert not policy.sees(PROJECT_READER, "theirs", "others")
    assert not policy.sees(PROJECT_ADMIN, None, None)
    assert policy.sees(SYSTEM_READER, None, None)
    assert policy.sees(ADMIN, None, None)


def test_a_node_without_owner_belongs_to_no_one_who_lacks_a_project(policy: Policy) -> None:
    """None must not equal None: a domain administrator has no project either."""
    assert not policy.sees(DOMAIN_ADMIN, None, None)
    assert not policy.allows("baremetal:node:update", DOMAIN_ADMIN, node_target(None, None))


def test_a_node_one_may_not_see_does_not_exist(policy: Policy) -> None:
    missing = errors.NotFound("Node n could not be found.")
    with pytest.raises(errors.NotFound) as answer:
        policy.authorize_on_node("baremetal:node:get", PROJECT_ADMIN, "theirs", None, missing)
    assert answer.value is missing


def test_a_node_one_sees_but_may_not_change_is_forbidden(policy: Policy) -> None:
    missing = errors.NotFound("Node n could not be found.")
    with pytest.raises(errors.Forbidden):
        policy.authorize_on_node("baremetal:node:delete", PROJECT_READER, "mine", None, missing)
    policy.authorize_on_node("baremetal:node:set_power_state", PROJECT_MEMBER, "mine", None, missing)


def test_lists_show_everything_or_one_project(policy: Policy) -> None:
    assert policy.scope(ADMIN) is EVERYTHING
    assert policy.scope(SYSTEM_READER) is EVERYTHING
    assert policy.scope(PROJECT_READER) == Scope("mine")
    assert EVERYTHING.is_everything
    assert not Scope("mine").is_everything


@pytest.mark.parametrize("noun", ["node", "port", "portgroup", "volume"])
def test_lists_are_closed_to_callers_without_role_or_project(policy: Policy, noun: str) -> None:
    assert policy.scope(PROJECT_READER, noun) == Scope("mine")
    for caller in (ANONYMOUS, DOMAIN_ADMIN, Caller(user_id="u", project_id="mine")):
        with pytest.raises(errors.Forbidden):
            policy.scope(caller, noun)


def test_services_reach_all_nodes_only_where_the_operator_says_so(policy: Policy) -> None:
    elevated = build(rbac_service_role_elevated_access=True)
    assert policy.scope(SERVICE) == Scope("s")
    assert not policy.allows("baremetal:node:update", SERVICE, node_target("mine", None))
    assert elevated.scope(SERVICE) is EVERYTHING
    assert elevated.allows("baremetal:node:update", SERVICE, node_target("mine", None))
    assert not elevated.allows("baremetal:node:create", SERVICE)
    other = build(rbac_service_role_elevated_access=True, rbac_service_project_name="machines")
    assert other.scope(SERVICE) == Scope("s")


@pytest.mark.parametrize(
    ("fields", "rules"),
    [
        (["name"], ["baremetal:node:update:name"]),
        (["power_interface"], ["baremetal:node:update:driver_interfaces"]),
        (["driver"], ["baremetal:node:update:driver_interfaces"]),
        (["extra", "instance_info"], ["baremetal:node:update_extra", "baremetal:node:update_instance_info"]),
        (["resource_class"], ["baremetal:node:update"]),
        # Ironic matches by prefix and would ask for the wrong rule here.
        (["network_interface"], ["baremetal:node:update:driver_interfaces"]),
        ([], ["baremetal:node:update"]),
    ],
)
def test_each_patched_field_asks_for_its_rule(policy: Policy, fields: list[str], rules: list[str]) -> None:
    assert policies.patch_rules(fields) == rules
    for rule in rules:
        policy.allows(rule, SYSTEM_ADMIN)


def test_a_lessee_does_not_see_how_the_owner_runs_the_node(policy: Policy) -> None:
    inner = ["last_error", "reservation", "driver_internal_info", "driver_info"]
    assert policies.hidden_fields(policy, PROJECT_READER, "theirs", "mine") == inner
    assert policies.hidden_fields(policy, PROJECT_READER, "mine", None) == []
    assert policies.hidden_fields(policy, SYSTEM_READER, "theirs", None) == []
    assert policies.hidden_fields(build("noauth"), ADMIN, None, None) == []


# -- the operator's file


def test_a_policy_file_changes_a_rule_and_leaves_the_others(tmp_path: Path) -> None:
    policy, _ = with_file(tmp_path, '"baremetal:node:create": "role:member"\n')
    assert policy.allows("baremetal:node:create", PROJECT_MEMBER)
    assert not policy.allows("baremetal:node:delete", PROJECT_MEMBER)
    assert policy.allows("baremetal:node:delete", SYSTEM_ADMIN)


def test_a_policy_file_may_change_what_a_whole_group_means(tmp_path: Path) -> None:
    policy, _ = with_file(tmp_path, '"system_admin": "role:admin"\n')
    assert policy.allows("baremetal:chassis:create", SYSTEM_ADMIN)
    assert policy.allows("baremetal:node:create", PROJECT_ADMIN)


def test_a_policy_file_is_read_again_within_a_second_of_its_change(tmp_path: Path) -> None:
    clock = Clock()
    policy, file = with_file(tmp_path, '"baremetal:node:create": "role:member"\n', clock)
    assert policy.allows("baremetal:node:create", PROJECT_MEMBER)
    file.write_text('"baremetal:node:create": "!"\n')
    os.utime(file, (1, 2**31))
    clock.now += 1
    assert not policy.allows("baremetal:node:create", PROJECT_MEMBER)


def test_a_decision_is_worked_out_once_for_the_same_caller_rule_and_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = build()
    worked: list[str] = []
    real = policy._enforcer.enforce

    def count(rule: str, *arguments: Any) -> bool:
        worked.append(rule)
        return bool(real(rule, *arguments))

    monkeypatch.setattr(policy._enforcer, "enforce", count)
    monkeypatch.setattr(policy, "_clock", Clock())
    for _ in range(3):
        assert policy.sees(PROJECT_READER, "mine", None)
        assert not policy.sees(PROJECT_READER, "theirs", None)
        assert not policy.sees(Caller(user_id="u", project_id="mine"), "mine", None)
    assert len(worked) == 3


def test_a_policy_file_written_for_ironic_finds_the_names_it_refers_to(tmp_path: Path) -> None:
    policy, _ = with_file(
        tmp_path,
        '"baremetal:node:create": "rule:is_admin"\n'
        '"baremetal:node:get": "rule:is_node_owner or rule:is_node_lessee"\n'
        '"baremetal:driver:ipa_lookup": "rule:public_api"\n',
    )
    assert policy.allows("baremetal:node:create", PROJECT_ADMIN)
    assert policy.sees(PROJECT_READER, None, "mine")
    assert policy.allows("baremetal:driver:ipa_lookup", ANONYMOUS)
    assert not policy.allows("baremetal:driver:ipa_lookup", SYSTEM_ADMIN)


def test_a_policy_file_that_is_not_there_is_refused_at_the_start(tmp_path: Path) -> None:
    settings = tmp_path / "holdfast.conf"
    settings.write_text(f"[DEFAULT]\nauth_strategy = keystone\n[oslo_policy]\npolicy_file = {tmp_path}/none.yaml\n")
    with pytest.raises(cfg.ConfigFileValueError, match=r"none\.yaml"):
        Policy(config.load([str(settings)], environment={}), policies.RULES)


@pytest.mark.parametrize("broken", ["{{{: nonsense", "- a\n- list\n"])
def test_a_policy_file_that_breaks_while_serving_leaves_the_old_rules(tmp_path: Path, broken: str) -> None:
    clock = Clock()
    policy, file = with_file(tmp_path, '"baremetal:node:create": "role:member"\n', clock)
    file.write_text(broken)
    os.utime(file, (1, 2**31))
    for _ in range(3):
        clock.now += 1
        assert policy.allows("baremetal:node:create", PROJECT_MEMBER)
        assert not policy.allows("baremetal:node:delete", PROJECT_MEMBER)


@pytest.mark.parametrize("broken", ["{{{: nonsense", "- a\n- list\n"])
def test_a_policy_file_that_cannot_be_understood_is_refused_at_the_start(tmp_path: Path, broken: str) -> None:
    with pytest.raises(cfg.ConfigFileValueError, match="cannot be understood"):
        with_file(tmp_path, broken)


def test_a_rule_that_cannot_be_understood_lets_nobody_through(tmp_path: Path) -> None:
    policy, _ = with_file(tmp_path, '"baremetal:node:create": "((("\n')
    assert not policy.allows("baremetal:node:create", SYSTEM_ADMIN)


# -- the table of rules itself


def test_rule_names_are_unique_and_every_rule_is_described() -> None:
    names = [rule.name for rule in policies.RULES]
    assert len(names) == len(set(names))
    assert all(rule.description for rule in policies.RULES)


def test_rules_refer_only_to_rules_that_exist(caplog: pytest.LogCaptureFixture) -> None:
    """oslo.policy finds dangling references and circles when it loads, and only logs them."""
    caplog.set_level(logging.WARNING)
    assert build()._enforcer.check_rules(raise_on_violation=True)


def test_the_tools_of_oslo_policy_get_the_same_rules() -> None:
    (entry,) = entry_points(group="oslo.policy.policies", name="holdfast")
    listed = {rule.name: rule.check_str for rule in entry.load()()}
    assert listed == {rule.name: rule.check for rule in policies.RULES}


def test_every_rule_of_the_api_names_the_scopes_it_accepts() -> None:
    public = {"baremetal:driver:ipa_lookup", "baremetal:node:ipa_heartbeat"}
    for rule in policies.RULES:
        if ":" in rule.name and rule.name not in public:
            assert rule.scopes in (policies.SYSTEM, policies.ANY_SCOPE), rule.name
