"""What a caller may do: named rules with defaults, which an operator's policy file may change.

Rules matter with Keystone only. The administrators of `noauth` and `http_basic` may do everything,
which is answered here without asking oslo.policy (nor importing it), save for the rules that show
secrets: those nobody has in these modes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oslo_config import cfg

from holdfast import errors
from holdfast.web.auth import ANONYMOUS, Caller

LOG = logging.getLogger(__name__)

ANYBODY = "@"
NOBODY = "!"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its default check in oslo.policy's language, and the token scopes it accepts (none: any)."""

    name: str
    check: str
    description: str
    scopes: tuple[str, ...] = ()
    shows_secrets: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """Which nodes a caller may see: all of them, or those a project owns or leases."""

    project_id: str | None = None

    @property
    def is_everything(self) -> bool:
        return self.project_id is None


EVERYTHING = Scope()


# oslo.policy takes a quarter of a millisecond for each decision, most of it to look for changed files:
# as long as everything else a request does. Its answers are kept this long, which is also how late
# a changed policy file may count.
_SECONDS_KEPT = 1.0
_MOST_KEPT = 10_000


class Policy:
    """The rules in force."""

    def __init__(
        self, conf: cfg.ConfigOpts, rules: Sequence[Rule], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rules = {rule.name: rule for rule in rules}
        self._clock = clock
        self._kept: dict[Any, bool] = {}
        self._kept_until = clock() + _SECONDS_KEPT
        # Reloading a changed file empties the rules for a moment; that must not refuse a neighbour.
        self._enforcing = threading.Lock()
        self._enforcer: Any = None
        self._facts: dict[str, str] = {}
        if conf.auth_strategy == "keystone":
            self._enforcer = _enforcer(conf, rules)
            if conf.rbac_service_role_elevated_access and conf.rbac_service_project_name:
                self._facts["config.service_project_name"] = conf.rbac_service_project_name

    def authorize(self, rule: str, caller: Caller, target: Mapping[str, Any] | None = None) -> None:
        """Forbidden unless the rule lets the caller do it to the target."""
        if not self.allows(rule, caller, target):
            raise _forbidden(rule)

    def allows(self, rule: str, caller: Caller, target: Mapping[str, Any] | None = None) -> bool:
        """Whether the rule lets the caller do it. KeyError for a rule nobody declared."""
        declared = self._rules[rule]
        if caller.is_admin:
            return not declared.shows_secrets
        if self._enforcer is None:
            return declared.check == ANYBODY
        known = {key: value for key, value in (target or {}).items() if value is not None}
        now = self._clock()
        question = (rule, caller, *sorted(known.items()))
        if now < self._kept_until and (kept := self._kept.get(question)) is not None:
            return kept
        with self._enforcing:
            if now >= self._kept_until or len(self._kept) >= _MOST_KEPT:
                self._reload(now)
            answer = bool(self._enforcer.enforce(rule, {**known, **self._facts}, _credentials(caller)))
            self._kept[question] = answer
        return answer

    def _reload(self, now: float) -> None:
        self._kept = {}
        self._kept_until = now + _SECONDS_KEPT
        try:
            self._enforcer.load_rules()
        except Exception:
            LOG.exception("The policy file cannot be understood; the rules read before stay in force")

    def scope(self, caller: Caller, noun: str = "node") -> Scope:
        """Which nodes' things a list may show: for queries, as one clause. Forbidden if none at all."""
        if caller.is_admin or self.allows(f"baremetal:{noun}:list_all", caller):
            return EVERYTHING
        self.authorize(f"baremetal:{noun}:list", caller)
        if caller.project_id is None:
            raise _forbidden(f"baremetal:{noun}:list_all")
        return Scope(caller.project_id)

    def sees(self, caller: Caller, owner: str | None, lessee: str | None) -> bool:
        """Whether a node with this owner and lessee exists as far as the caller is concerned."""
        return caller.is_admin or self.allows("baremetal:node:get", caller, node_target(owner, lessee))

    def authorize_on_node(
        self, rule: str, caller: Caller, owner: str | None, lessee: str | None, missing: errors.NotFound
    ) -> None:
        """`missing` if the caller may not even see the node, Forbidden if it may see it but not do this."""
        if not self.sees(caller, owner, lessee):
            raise missing
        self.authorize(rule, caller, node_target(owner, lessee))


def node_target(owner: str | None, lessee: str | None) -> dict[str, str | None]:
    """A node as rules see it."""
    return {"node.owner": owner, "node.lessee": lessee}


def allocation_target(owner: str | None) -> dict[str, str | None]:
    """An allocation as rules see it."""
    return {"allocation.owner": owner}


def _forbidden(rule: str) -> errors.Forbidden:
    return errors.Forbidden(f"You are not allowed to do this: it needs {rule}.")


def _credentials(caller: Caller) -> dict[str, Any]:
    """The caller as rules see it. What is not known is left out: a check of `project_id` against a
    node without an owner must not find that None equals None."""
    facts = {
        "user_id": caller.user_id,
        "project_id": caller.project_id,
        "project_name": caller.project_name,
        "project_domain_id": caller.project_domain_id,
        "domain_id": caller.domain_id,
        "system_scope": caller.system_scope,
    }
    return {
        "roles": sorted(caller.roles),
        "is_public_api": caller == ANONYMOUS,
        **{key: value for key, value in facts.items() if value is not None},
    }


def defaults(rules: Sequence[Rule]) -> list[Any]:
    """The rules as oslo.policy and its tools (oslopolicy-sample-generator, say) want them."""
    from oslo_policy import policy

    return [
        policy.RuleDefault(rule.name, rule.check, rule.description, scope_types=list(rule.scopes) or None)
        for rule in rules
    ]


def _enforcer(conf: cfg.ConfigOpts, rules: Sequence[Rule]) -> Any:
    from oslo_policy import policy

    enforcer = policy.Enforcer(conf)
    enforcer.suppress_default_change_warnings = True
    enforcer.register_defaults(defaults(rules))
    configured = conf.oslo_policy.policy_file
    if Path(configured).is_absolute() and not Path(configured).exists():
        raise cfg.ConfigFileValueError(f"[oslo_policy] policy_file {configured} does not exist.")
    try:
        enforcer.load_rules()
    except Exception as error:
        raise cfg.ConfigFileValueError(
            f"[oslo_policy] policy_file {configured} cannot be understood: {error}"
        ) from error
    return enforcer
