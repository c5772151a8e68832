"""The policy as a pure total function: one question in, one verdict out (laws 1 to 3, spec §3).

The gate, the planner's preview and the command line stand above it; below are a parsed ``Policy`` and the one reading
of hosts. An index is built once per policy, so that a verdict takes a few dictionary look-ups however many rules there
are. DENY beats REQUIRE_APPROVAL beats ALLOW; whatever goes wrong inside is DENY.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chaoscore.domain.json import brief
from chaoscore.domain.policy.hosts import url_host
from chaoscore.domain.policy.model import Effect, Policy, Question, Verdict

UNREADABLE = "policy-unreadable"
EVALUATION_ERROR = "evaluation-error"
BAD_URL = "url"
_NO_DOMAIN = "httpAllowedDomains: empty, so no domain is allowed"


class Evaluator:
    """Answers for one policy. ``problem`` tells why its file cannot be used now: then the policy is the last good one,
    its DENYs stand and everything else becomes REQUIRE_APPROVAL until the file is fixed.

    Immutable once made, so threads may share it.
    """

    __slots__ = ("_rules", "policy", "problem")

    def __init__(self, policy: Policy, problem: str | None = None, *, rules: _Rules | None = None) -> None:
        self.policy = policy
        self.problem = problem
        self._rules = rules if rules is not None else _Rules(policy)

    def degraded(self, problem: str) -> Evaluator:
        """The same policy while its file cannot be used. Costs nothing: the index is shared."""
        return Evaluator(self.policy, problem, rules=self._rules)

    def verdict(self, question: Question) -> Verdict:
        """Total: never raises. An error inside can only tighten (law 2), so it answers DENY."""
        try:
            return self._decide(question)
        except Exception as error:
            name = type(error).__name__
            policy = self.policy
            reason = f"{EVALUATION_ERROR}: {name} while the policy was asked; the action is refused"
            return Verdict("DENY", EVALUATION_ERROR, (reason,), policy.approval_mode, policy.approval_doors)

    def _decide(self, question: Question) -> Verdict:
        name, rules = question.capability, self._rules
        denials = rules.denied.matching(name)
        asks = rules.confirm.matching(name)
        grants: list[str] = []
        if rules.allowed:
            grants = rules.allowed.matching(name)
            if not grants:
                denials.append(f"allowedCapabilities: {brief(name)} is not listed")
        elif question.builtin:
            grants.append("allowedCapabilities: empty, so every built-in capability is allowed")
        else:
            denials.append(f"allowedCapabilities: {brief(name)} is not built in and must be listed")
        for url in question.urls:
            _judge_url(url, rules.domains, denials, grants)

        effect: Effect
        if denials:
            effect, rule = "DENY", denials[0]
        elif asks:
            effect, rule = "REQUIRE_APPROVAL", asks[0]
        else:
            effect, rule = "ALLOW", grants[0]
        reasons = (*denials, *asks, *grants)
        if self.problem is not None:
            reasons = (*reasons, f"{UNREADABLE}: {self.problem}")
            if effect != "DENY":
                effect, rule = "REQUIRE_APPROVAL", UNREADABLE
        pending = ("url",) if None in question.urls else ()
        policy = self.policy
        return Verdict(effect, rule, reasons, policy.approval_mode, policy.approval_doors, question.scope, pending)


def _judge_url(url: str | None, domains: _Domains, denials: list[str], grants: list[str]) -> None:
    if not domains and _NO_DOMAIN not in denials:
        denials.append(_NO_DOMAIN)
    if url is None:
        return
    try:
        host = url_host(url)
    except ValueError as error:
        denials.append(f"{BAD_URL}: {error}")
        return
    if domains:
        matching = domains.matching(host)
        if matching:
            grants.extend(rule for rule in matching if rule not in grants)
        else:
            denials.append(f"httpAllowedDomains: {host} is not listed")


def names_capability(policy: Policy, capability: str) -> bool:
    """Whether ``allowedCapabilities`` lists it, exactly or by ``prefix.*``: entry points load only then."""
    return bool(_Index("allowedCapabilities", policy.allowed).matching(capability))


class _Rules:
    """Everything a policy says, indexed."""

    __slots__ = ("allowed", "confirm", "denied", "domains")

    def __init__(self, policy: Policy) -> None:
        self.allowed = _Index("allowedCapabilities", policy.allowed)
        self.denied = _Index("deniedCapabilities", policy.denied)
        self.confirm = _Index("requireConfirmationFor", policy.confirm)
        self.domains = _Domains(policy.http_allowed_domains)


class _Index:
    """The rules of one list: exact names, and the prefixes of ``prefix.*``, each with its rule's name."""

    __slots__ = ("_by_name", "_by_prefix")

    def __init__(self, key: str, entries: Iterable[str]) -> None:
        self._by_name: dict[str, tuple[int, str]] = {}
        self._by_prefix: dict[str, tuple[int, str]] = {}
        for position, entry in enumerate(entries):
            rule = (position, f"{key}[{position}]: {entry}")
            if entry.endswith(".*"):
                self._by_prefix.setdefault(entry[:-2], rule)
            else:
                self._by_name.setdefault(entry, rule)

    def __bool__(self) -> bool:
        return bool(self._by_name or self._by_prefix)

    def matching(self, name: str) -> list[str]:
        """Names of the rules that match, in the file's order."""
        exact = self._by_name.get(name)
        found = [] if exact is None else [exact]
        if self._by_prefix:
            _add_parents(name, self._by_prefix, found)
        return _in_order(found)


class _Domains:
    """``httpAllowedDomains``: exact hosts, and the parents of ``*.parent``."""

    __slots__ = ("_by_host", "_by_parent")

    def __init__(self, entries: Iterable[str]) -> None:
        self._by_host: dict[str, tuple[int, str]] = {}
        self._by_parent: dict[str, tuple[int, str]] = {}
        for position, entry in enumerate(entries):
            rule = (position, f"httpAllowedDomains[{position}]: {entry}")
            if entry.startswith("*."):
                self._by_parent.setdefault(entry[2:], rule)
            else:
                self._by_host.setdefault(entry, rule)

    def __bool__(self) -> bool:
        return bool(self._by_host or self._by_parent)

    def matching(self, host: str) -> list[str]:
        exact = self._by_host.get(host)
        found = [] if exact is None else [exact]
        if self._by_parent:
            at = host.find(".")
            while at >= 0:
                parent = self._by_parent.get(host[at + 1 :])
                if parent is not None:
                    found.append(parent)
                at = host.find(".", at + 1)
        return _in_order(found)


def _add_parents(name: str, by_prefix: Mapping[str, tuple[int, str]], found: list[tuple[int, str]]) -> None:
    at = name.rfind(".")
    while at > 0:
        name = name[:at]
        rule = by_prefix.get(name)
        if rule is not None:
            found.append(rule)
        at = name.rfind(".")


def _in_order(found: list[tuple[int, str]]) -> list[str]:
    if len(found) > 1:
        found.sort()
    return [rule for _, rule in found]
