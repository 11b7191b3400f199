"""Which rule of a policy concerns a holder at a moment, or why none does."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, Protocol

from gua.core.moments import local_time, to_rfc3339
from gua.core.plaintext import safe
from gua.notices.held import Held, HeldState
from gua.notices.policy import Hold, Policy, Rule

_WIDEST: Final = 120


class Facts(Protocol):
    """What rules need from outside of gua. ``None`` is unknown."""

    def groups(self, owner: str) -> frozenset[str] | None:
        """Return the names of a user's groups."""

    def of_job(self, job: str, key: str) -> str | None:
        """Return the partition, account or QOS of a Slurm job; ``key`` is ``partitions``, ``accounts`` or ``qos``."""


class MatchOutcome(StrEnum):
    """Whether a rule concerns a holder. Only with MATCHED may something be sent.

    QUIET: one does, in a quiet time. EXEMPT and HOLD: an exception or a hold exempts it. UNKNOWN: a value that decides
    is unknown.
    """

    MATCHED = "matched"
    QUIET = "quiet"
    EXEMPT = "exempt"
    HOLD = "hold"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """The first rule that concerns, or may concern, a holder, and the reason in a few words unless it matched.

    An exempt holder has the first rule that would concern it.
    """

    outcome: MatchOutcome
    rule: Rule
    reason: str = ""


def first_rule(policy: Policy, held: Held, facts: Facts, at_ms: int) -> Match | None:
    """Return the first rule that concerns a holder at ``at_ms`` (Unix ms), ``None`` if none does.

    A rule with an exception for the holder does not concern it, and the next rule may. An unknown value or a hold ends
    the search.
    """
    exempt: Match | None = None
    local = local_time(at_ms, policy.timezone)
    for rule in policy.rules:
        match = _match(rule, policy, held, facts, at_ms)
        if match and match.outcome is MatchOutcome.MATCHED and any(each.contains(local) for each in rule.quiet):
            return Match(outcome=MatchOutcome.QUIET, rule=rule, reason="a quiet time of the rule")
        if match and match.outcome is not MatchOutcome.EXEMPT:
            return match
        exempt = exempt or match
    return exempt


def _match(rule: Rule, policy: Policy, held: Held, facts: Facts, at_ms: int) -> Match | None:
    """Return the match of one rule at any hour, ``None`` if it does not concern the holder."""
    if held.state not in rule.states or held.idle_ms < rule.after_ms:
        return None
    unknown: list[str] = []
    for key, is_met in _conditions(rule, held, facts):
        if is_met is False:
            return None
        unknown += [key] if is_met is None else []
    exceptions = {"exempt_owners": policy.exempt_owners}
    exceptions |= {f"except_{key}": patterns for key, patterns in rule.exceptions.items()}
    for name, patterns in exceptions.items():
        is_exempt = bool(patterns) and _is_any_like(_values(name.partition("_")[2], held, facts), patterns)
        if is_exempt:
            return Match(outcome=MatchOutcome.EXEMPT, rule=rule, reason=name)
        unknown += [name] if is_exempt is None else []
    for hold in (*policy.holds, *rule.holds):
        is_on_hold = at_ms < hold.until_ms and _is_on_hold(hold, held, facts)
        if is_on_hold:
            reason = safe(f"until {to_rfc3339(hold.until_ms)}: {hold.reason}", _WIDEST)
            return Match(outcome=MatchOutcome.HOLD, rule=rule, reason=reason)
        unknown += ["hold"] if is_on_hold is None else []
    if unknown:
        return Match(outcome=MatchOutcome.UNKNOWN, rule=rule, reason=f"a value that {unknown[0]} needs is unknown")
    return Match(outcome=MatchOutcome.MATCHED, rule=rule)


def _conditions(rule: Rule, held: Held, facts: Facts) -> Iterator[tuple[str, bool | None]]:
    """Yield the key of each condition and whether it is met, ``None`` if that is unknown."""
    if rule.min_memory_bytes is not None and held.state is not HeldState.EMPTY:
        memory_bytes = held.memory_bytes
        yield "min_memory", None if memory_bytes is None else memory_bytes >= rule.min_memory_bytes
    for label, patterns in rule.labels.items():
        yield "labels", label in held.host_labels and _is_like(held.host_labels[label], patterns)
    for key, patterns in rule.conditions.items():
        found = _values(key, held, facts)
        if key in {"hosts", "models"}:
            yield key, _all(_is_like(value, patterns) for value in found)
        else:
            yield key, _is_any_like(found, patterns)


def _values(key: str, held: Held, facts: Facts) -> Sequence[str | None]:
    """Return the values that the patterns of a key are compared with: ``None`` for unknown, no value for none."""
    found: Sequence[str | None]
    match key:
        case "hosts":
            found = held.hosts
        case "models":
            found = [card.name for card in held.cards]
        case "owners":  # memory without a listed process has no owner
            found = _one(held.owner, may_lack=held.state is HeldState.NO_PROCESS)
        case "namespaces":
            found = _one(held.namespace, may_lack=held.pod is None)
        case "programs" | "workloads":
            name = held.program if key == "programs" else held.workload
            found = _one(name, may_lack=held.state is not HeldState.IDLE_HELD)
        case "groups":  # a namespace that is an owner may have a user's name
            owner = None if held.owner == held.namespace else held.owner
            groups = None if owner is None else facts.groups(owner)
            no_owner = held.owner is None and held.state is HeldState.NO_PROCESS
            found = _one(None, may_lack=no_owner) if groups is None else sorted(groups)
        case _:
            found = _one(None if held.job is None else facts.of_job(held.job, key), may_lack=held.job is None)
    return found


def _one(value: str | None, *, may_lack: bool) -> Sequence[str | None]:
    return [] if value is None and may_lack else [value]


def _is_on_hold(hold: Hold, held: Held, facts: Facts) -> bool | None:
    """Return whether all selectors of a hold match, host and GPU the same card; ``None`` if that is unknown."""
    host, gpu = hold.selectors.get("host", "*"), hold.selectors.get("gpu", "*")
    cards = [card for card in held.cards if fnmatchcase(card.host, host)]
    results: list[bool | None] = [any(fnmatchcase(card.gpu, gpu) or str(card.index) == gpu for card in cards)]
    if "owner" in hold.selectors:
        results.append(_is_any_like(_values("owners", held, facts), (hold.selectors["owner"],)))
    if "job" in hold.selectors:
        results.append(held.job is not None and fnmatchcase(held.job, hold.selectors["job"]))
    if "pod" in hold.selectors:
        is_like = held.pod is not None and fnmatchcase(held.pod, hold.selectors["pod"])
        is_uid = held.pod is not None and "/" not in held.pod
        results.append(None if is_uid and not is_like else is_like)
    return _all(results)


def _is_like(value: str | None, patterns: Sequence[str]) -> bool | None:
    return None if value is None else any(fnmatchcase(value, pattern) for pattern in patterns)


def _is_any_like(found: Sequence[str | None], patterns: Sequence[str]) -> bool | None:
    """Return whether any value matches any pattern; ``None`` if one is unknown: then it is the only one."""
    return None if None in found else any(_is_like(value, patterns) for value in found)


def _all(results: Iterable[bool | None]) -> bool | None:
    """Return False if any is, else ``None`` if any is, else True."""
    known = list(results)
    return False if False in known else None if None in known else True
