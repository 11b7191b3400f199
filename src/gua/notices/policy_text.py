"""A policy in plain sentences, and warnings about rules that may not do what their author wants."""

from collections.abc import Mapping, Sequence
from typing import Final

from gua.core.moments import WEEKDAYS, format_duration, to_rfc3339
from gua.core.plaintext import few, safe
from gua.notices.channels import shown
from gua.notices.held import HeldState
from gua.notices.policy import Digests, Hold, Policy, Quiet, Rule, Step
from gua.notices.policy_values import DAY_MINUTES

_WIDEST: Final = 60
_MOST_NAMES: Final = 10
_HOLDERS: Final = {
    HeldState.IDLE_HELD: "idle processes on cards",
    HeldState.EMPTY: "allocations without a process",
    HeldState.NO_PROCESS: "idle-held cards without a listed process",
}


def sentences(policy: Policy) -> list[str]:
    """Return a sentence for each rule in order, for what is common to them, and for digests. None has a URL."""
    common = [
        f"For all rules: at most {policy.most_per_owner_per_day} notices per owner and day, times in {policy.zone}."
    ]
    if policy.exempt_owners:
        common.append(f"No rule concerns {_patterns({'owners': policy.exempt_owners})}.")
    common += [f"No rule sends anything {_hold(hold)}." for hold in policy.holds]
    rules = [_sentence(rule) for rule in policy.rules] + (common if policy.rules else ["No rule: nothing is sent."])
    return rules if policy.digests is None else [*rules, _digests(policy.digests)]


def warnings(policy: Policy, *, now_ms: int) -> list[str]:
    """Return a line for each rule or hold that may be a mistake; ``now_ms`` is Unix time."""
    holds = [(f"hold {number}", hold) for number, hold in enumerate(policy.holds, 1)]
    found: list[str] = []
    for position, rule in enumerate(policy.rules):
        holds += [(f"rule {rule.name}: hold {number}", hold) for number, hold in enumerate(rule.holds, 1)]
        if rule.concerns_everybody:
            found.append(f"rule {rule.name}: concerns everybody{' but its exceptions' if rule.exceptions else ''}")
        if not rule.steps:
            found.append(f"rule {rule.name}: has no step, so it sends nothing and no later rule concerns its holders")
        for state in rule.states:
            before = next((one for one in policy.rules[:position] if _covers(one, rule, state)), None)
            if before is not None:
                found.append(f"rule {rule.name}: never reached for {state}, as rule {before.name} concerns everybody")
    for place, hold in holds:
        if hold.until_ms <= now_ms:
            found.append(f"{place}: ended at {to_rfc3339(hold.until_ms)}: remove it, or write a later end")
    return found


def _covers(earlier: Rule, later: Rule, state: HeldState) -> bool:
    is_for_all = earlier.concerns_everybody and not earlier.exceptions
    return is_for_all and state in earlier.states and earlier.after_ms <= later.after_ms


def _sentence(rule: Rule) -> str:
    conditions = [
        _patterns({**rule.conditions, **{f"label {name}": one for name, one in rule.labels.items()}}, " and ")
    ]
    if rule.min_memory_bytes is not None:
        conditions.append(f"{rule.min_memory_bytes / 2**30:.4g} GiB or more")
    if exceptions := _patterns(rule.exceptions):
        conditions.append(f"except {exceptions}")
    holders = " and ".join(_HOLDERS[state] for state in rule.states)
    narrowed = ", ".join(filter(None, conditions)) or "all of them"
    steps = "; ".join(map(_step, rule.steps)) or "nothing"
    pauses = [*map(_quiet, rule.quiet), *map(_hold, rule.holds)]
    after = format_duration(rule.after_ms)
    return f"{rule.name}: {holders} ({narrowed}), idle for {after}, get {'; nothing '.join([steps, *pauses])}."


def _step(step: Step) -> str:
    after = format_duration(step.after_ms)
    parts: list[str] = []
    if step.to:
        parts.append(f"a notice by {_channels(step.to)} after {after}")
    if distances := [format_duration(each) for each in step.reminder_distances_ms]:
        parts.append(f"reminders {few(distances, _MOST_NAMES)} after the one before")
    if step.command:
        parts.append(f"with --enforce the command {safe(' '.join(step.command), _WIDEST)} after {after}")
    return " and ".join(parts)


def _digests(digests: Digests) -> str:
    recipients = [f"owners by {_channels(digests.to)}"] if digests.to else []
    recipients += [f"the leads of {safe(team.name, _WIDEST)} by {_channels(team.to)}" for team in digests.teams]
    recipients += [f"admins by {_channels(digests.admins)}"] if digests.admins else []
    without = f", without {_patterns({'owners': digests.opt_out})}" if digests.opt_out else ""
    least = f"from {digests.least_gpu_hours:g} GPU-hours on"
    return f"gua digest: {few(recipients, _MOST_NAMES) or 'nobody'}, {least}{without}."


def _channels(templates: Sequence[str]) -> str:
    return few(list(dict.fromkeys(map(shown, templates))), _MOST_NAMES)


def _patterns(patterns: Mapping[str, Sequence[str]], between: str = " or ") -> str:
    shown = ((key, [safe(pattern, _WIDEST) for pattern in given]) for key, given in patterns.items() if given)
    return between.join(f"{key} {few(given, _MOST_NAMES)}" for key, given in shown)


def _hold(hold: Hold) -> str:
    selectors = _patterns({key: [pattern] for key, pattern in hold.selectors.items()}, " and ")
    return f"until {to_rfc3339(hold.until_ms)} about {selectors} ({safe(hold.reason, _WIDEST)})"


def _quiet(quiet: Quiet) -> str:
    days = ", ".join(name[:3] for number, name in enumerate(WEEKDAYS) if number in quiet.days)
    if quiet.dates:
        days = few([f"{first}" if first == last else f"{first} to {last}" for first, last in quiet.dates], _MOST_NAMES)
    begin, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (quiet.from_minute, quiet.until_minute))
    is_whole = (quiet.from_minute, quiet.until_minute) == (0, DAY_MINUTES)
    return f"on {days}" if is_whole else f"on {days} from {begin} to {end}"
