"""The policy of notices: which holders of idle GPUs get a notice, when and by which channels, from a TOML file."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final, TypeVar

from gua.core import moments
from gua.core.errors import DataError, UsageError
from gua.core.moments import format_duration
from gua.core.plaintext import safe
from gua.notices import policy_values as values
from gua.notices.held import HeldState
from gua.state.named_file import read_named_file

_OUTSIDE: Final = ("groups", "partitions", "accounts", "qos")  # slow to look up, so they are compared last
EXCEPTIONS: Final = ("hosts", "owners", "namespaces", "programs", "workloads", *_OUTSIDE)
CONDITIONS: Final = ("models", *EXCEPTIONS)
EVERY_HOLDER_HAS: Final = frozenset(("hosts", "models", "owners"))
SELECTORS: Final = ("owner", "host", "job", "pod", "gpu")
_POLICY_KEYS: Final = (
    "zone",
    "most_per_owner_per_day",
    "sender",
    "contact",
    "exempt_owners",
    "addresses",
    "hold",
    "rule",
    "digest",
)
_RULE_KEYS: Final = (
    *("name", "state", "after", "min_memory", "labels", "quiet", "hold", "step"),
    *CONDITIONS,
    *(f"except_{key}" for key in EXCEPTIONS),
)
_DIGEST_KEYS: Final = ("to", "least_gpu_hours", "opt_out", "admins", "team")
_STEP_KEYS: Final = ("to", "after", "remind_every", "growing", "most_reminders", "command", "template")
_MOST_BYTES: Final = 2**20
T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, kw_only=True, slots=True)
class Addresses:
    """How an owner becomes an address: by a template with ``{owner}``, a file, or a command with the owner added."""

    template: str | None = None
    file: Path | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """No notices until ``until_ms`` (Unix ms) for holders that match the patterns of all ``selectors``."""

    selectors: Mapping[str, str]
    until_ms: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Quiet:
    """Times in which nothing is sent: minutes of days of the week (Monday is 0), or of dates if there are any.

    If ``until_minute`` is not after ``from_minute``, it is on the next day.
    """

    days: frozenset[int] = frozenset(range(7))
    dates: tuple[tuple[date, date], ...] = ()
    from_minute: int = 0
    until_minute: int = values.DAY_MINUTES

    def contains(self, local: datetime) -> bool:
        """Return whether a local time is within."""
        minute = local.hour * 60 + local.minute
        today, yesterday = local.date(), local.date() - timedelta(days=1)
        if self.from_minute < self.until_minute:
            return self._has(today) and self.from_minute <= minute < self.until_minute
        return (self._has(today) and minute >= self.from_minute) or (
            self._has(yesterday) and minute < self.until_minute
        )

    def _has(self, day: date) -> bool:
        if self.dates:
            return any(first <= day <= last for first, last in self.dates)
        return day.weekday() in self.days


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A notice by the channels ``to`` (templates of URLs that may hold secrets), or a command, or both.

    ``after_ms`` is the idle time from which it is due. ``template`` is the path of a text template.
    """

    to: tuple[str, ...] = field(default=(), repr=False)
    after_ms: int
    remind_every_ms: int | None = None
    growing: int = 2
    most_reminders: int = 3
    command: tuple[str, ...] = ()
    template: Path | None = None

    @property
    def reminder_distances_ms(self) -> tuple[int, ...]:
        """Return the time [ms] from the notice to its first reminder, and from each reminder to the next."""
        every_ms = self.remind_every_ms
        return () if every_ms is None else tuple(every_ms * self.growing**n for n in range(self.most_reminders))


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Which holders it concerns, and its steps.

    ``conditions`` and ``exceptions`` are shell patterns by key, as ``owners``. All conditions and ``labels`` must
    match; any exception exempts.
    """

    name: str
    states: tuple[HeldState, ...]
    after_ms: int
    min_memory_bytes: int | None = None
    conditions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    exceptions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    quiet: tuple[Quiet, ...] = ()
    holds: tuple[Hold, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def concerns_everybody(self) -> bool:
        """Return whether it has no condition besides state and idle time; exceptions do not count."""
        narrow = [key for key, given in self.conditions.items() if key not in EVERY_HOLDER_HAS or "*" not in given]
        return not (narrow or self.labels or self.min_memory_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """The owners that match a pattern or are in a group, and the channels of their leads."""

    name: str
    owners: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    to: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Digests:
    """Who gets a digest: owners by the channels ``to``, leads of teams, and ``admins`` the whole list.

    Nothing is sent to who has less than ``least_gpu_hours`` used, idle-held and empty together, or matches ``opt_out``.
    """

    to: tuple[str, ...] = field(default=(), repr=False)
    least_gpu_hours: float = 1
    opt_out: tuple[str, ...] = ()
    admins: tuple[str, ...] = field(default=(), repr=False)
    teams: tuple[Team, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Rules in order, and what is common to them; ``zone`` is the IANA name of the zone of its times.

    ``sender`` and ``contact`` are printed in messages: who sends them, and where to request a hold.
    """

    path: Path
    zone: str = "UTC"
    most_per_owner_per_day: int = 3
    sender: str = "gua"
    contact: str | None = None
    exempt_owners: tuple[str, ...] = ()
    addresses: Addresses | None = None
    holds: tuple[Hold, ...] = ()
    rules: tuple[Rule, ...] = ()
    digests: Digests | None = None

    @property
    def timezone(self) -> tzinfo:
        """Return the time zone of its times."""
        return moments.zone(self.zone)


def read_policy(path: Path) -> Policy:
    """Return the policy of a TOML file.

    Raises DataError for the first problem of its content, UsageError if it is no file, or has commands and others may
    change it, and UnavailableError if it cannot be read.
    """
    content, status = read_named_file(path, _MOST_BYTES, "a policy, a TOML file")
    try:
        policy = parse_policy(content.decode("utf-8-sig"), path)
    except UnicodeDecodeError:
        raise DataError(f"{safe(str(path))}: is not UTF-8 text: save it as TOML in UTF-8") from None
    check_permissions(policy, status)
    return policy


def check_permissions(policy: Policy, status: os.stat_result) -> None:
    """Raise UsageError if the policy has commands, and others than its file's owner may write to the file."""
    commands = [step.command for rule in policy.rules for step in rule.steps]
    commands += [policy.addresses.command] if policy.addresses else []
    if any(commands) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        path = safe(str(policy.path))
        raise UsageError(f"{path}: has commands, and others than its owner may change it: run chmod go-w on it")


def parse_policy(text: str, path: Path) -> Policy:
    """Return the policy of a TOML text; paths in it are relative to the folder of ``path``. Raises DataError."""
    shown = safe(str(path))
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{shown}: is not TOML: {safe(str(error), 200)}") from None
    return _policy(_Table(document, f"{shown}: ", _POLICY_KEYS), path)


class _Table:
    """A table of the policy, and its place for messages. All methods raise DataError for the first problem."""

    def __init__(self, table: Mapping[str, Any], place: str, known: Sequence[str]) -> None:
        self._table = table
        self._place = place
        for key in table:
            if key not in known:
                raise self.problem(key, f"unknown key: {values.nearest(key, known)}")

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def problem(self, key: str, problem: str) -> DataError:
        """Return the error for a key."""
        return DataError(f"{self._place}{safe(key, 64)}: {problem}")

    def get(self, key: str, parse: Callable[[Any], T], default: D) -> T | D:
        """Return the parsed value of a key, or ``default`` if it is missing."""
        return self.need(key, parse) if key in self._table else default

    def need(self, key: str, parse: Callable[[Any], T]) -> T:
        """Return the parsed value of a key that must be there."""
        if key not in self._table:
            raise self.problem(key, "is missing: add it")
        try:
            return parse(self._table[key])
        except UsageError as error:
            raise self.problem(key, str(error)) from None

    def table(self, key: str, known: Sequence[str]) -> _Table:
        """Return a table in this one."""
        table = self._table[key]
        if not isinstance(table, dict):
            raise self.problem(key, f"is no table: write [{key}] before its keys")
        return _Table(table, f"{self._place}{key}: ", known)

    def tables(self, key: str, known: Sequence[str]) -> Iterator[_Table]:
        """Yield the tables of an array of tables, in messages with their number, or the name of a rule."""
        tables = self._table.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            written = "[[digest.team]]" if key == "team" else f"[[{key}]] or [[rule.{key}]]"
            raise self.problem(key, f"is no array of tables: write {written} before each")
        for number, table in enumerate(tables, 1):
            name = table.get("name")
            shown = safe(name, 64) if key == "rule" and isinstance(name, str) else ""
            yield _Table(table, f"{self._place}{key} {shown or number}: ", known)


def _policy(table: _Table, path: Path) -> Policy:
    zone = table.get("zone", values.time_zone, "UTC")
    exempt = table.get("exempt_owners", values.texts, ())
    rules: dict[str, Rule] = {}
    for each in table.tables("rule", _RULE_KEYS):
        rule = _rule(each, moments.zone(zone), path.parent, exempt)
        if rules.setdefault(rule.name, rule) is not rule:
            raise each.problem("name", "an earlier rule has the same: write another")
    return Policy(
        path=path,
        zone=zone,
        most_per_owner_per_day=table.get("most_per_owner_per_day", lambda value: values.whole(value, 1000), 3),
        sender=table.get("sender", values.text, "gua"),
        contact=table.get("contact", values.text, None),
        exempt_owners=exempt,
        addresses=table.get("addresses", lambda value: _addresses(value, path.parent), None),
        holds=_holds(table, moments.zone(zone)),
        rules=tuple(rules.values()),
        digests=_digests(table.table("digest", _DIGEST_KEYS)) if "digest" in table else None,
    )


def _digests(table: _Table) -> Digests:
    to_leads = values.items(values.digest_channel(()), least=1)
    teams: dict[str, Team] = {}
    for each in table.tables("team", ("name", "owners", "groups", "to")):
        team = Team(
            name=each.need("name", values.text),
            owners=each.get("owners", values.patterns, ()),
            groups=each.get("groups", values.patterns, ()),
            to=each.need("to", to_leads),
        )
        if not (team.owners or team.groups):
            raise each.problem("owners", "is missing: add owners, groups or both")
        if teams.setdefault(team.name, team) is not team:
            raise each.problem("name", "an earlier team has the same: write another")
    return Digests(
        to=table.get("to", values.items(values.digest_channel(("address", "owner"))), ()),
        least_gpu_hours=table.get("least_gpu_hours", values.gpu_hours, 1),
        opt_out=table.get("opt_out", values.texts, ()),
        admins=table.get("admins", to_leads, ()),
        teams=tuple(teams.values()),
    )


def _addresses(value: object, folder: Path) -> Addresses:
    keys = ("template", "file", "command")
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in keys:
        raise UsageError(f"is no table with one key: write {', '.join(keys[:-1])} or {keys[-1]} after [addresses]")
    try:
        return Addresses(
            template=values.template(value["template"], ("owner",)) if "template" in value else None,
            file=folder / values.text(value["file"]) if "file" in value else None,
            command=values.command(value["command"], ()) if "command" in value else (),
        )
    except UsageError as error:
        raise UsageError(f"{next(iter(value))} {error}") from None


def _holds(table: _Table, zone: tzinfo) -> tuple[Hold, ...]:
    holds: list[Hold] = []
    for each in table.tables("hold", (*SELECTORS, "until", "reason")):
        selectors = {key: each.need(key, values.text) for key in SELECTORS if key in each}
        if not selectors:
            raise each.problem("owner", f"is missing: add one or more of {', '.join(SELECTORS)}")
        until_ms = each.need("until", lambda value: values.end_ms(value, zone))
        holds.append(Hold(selectors=selectors, until_ms=until_ms, reason=each.need("reason", values.text)))
    return tuple(holds)


def _rule(table: _Table, zone: tzinfo, folder: Path, exempt: tuple[str, ...]) -> Rule:
    after_ms = table.need("after", values.duration_ms)
    rule = Rule(
        name=table.need("name", values.name),
        states=table.need("state", values.states),
        after_ms=after_ms,
        min_memory_bytes=table.get("min_memory", values.size_bytes, None),
        conditions={key: table.need(key, values.patterns) for key in CONDITIONS if key in table},
        labels=table.get("labels", values.labels, {}),
        exceptions={key: some for key in EXCEPTIONS if (some := table.get(f"except_{key}", values.texts, ()))},
        quiet=tuple(_quiet(each) for each in table.tables("quiet", ("days", "dates", "from", "until"))),
        holds=_holds(table, zone),
        steps=_steps(table, after_ms, folder),
    )
    for key in EXCEPTIONS:
        exceptions = rule.exceptions.get(key, ())
        all_exempt = {*exceptions, *(exempt if key == "owners" else ())}
        if key in rule.conditions and {*rule.conditions[key]} <= all_exempt:
            raise table.problem(key, "never matches, as all of it is exempt: remove some from the exceptions")
        if key in EVERY_HOLDER_HAS and "*" in exceptions:
            raise table.problem(f"except_{key}", "exempts everybody, so the rule never matches: remove '*'")
    if _is_always_quiet(rule.quiet):
        raise table.problem("quiet", "covers every hour of the week, so nothing is ever sent: leave some hours out")
    return rule


def _quiet(table: _Table) -> Quiet:
    begin = table.get("from", values.minute_of_day, 0)
    until = table.get("until", values.minute_of_day, values.DAY_MINUTES)
    if ("from" in table) != ("until" in table) or begin in {until, values.DAY_MINUTES}:
        raise table.problem("until", "from and until must differ, and both be there: without them it is the whole day")
    if "dates" in table and "days" in table:
        raise table.problem("dates", "cannot be beside days: write another [[rule.quiet]]")
    if not any(key in table for key in ("days", "dates", "from")):
        raise table.problem("days", "is missing: add days, dates, or from and until")
    return Quiet(
        days=frozenset().union(*table.get("days", values.items(values.weekdays, least=1), [range(7)])),
        dates=table.get("dates", values.items(values.dates, least=1), ()),
        from_minute=begin,
        until_minute=until,
    )


def _is_always_quiet(quiet: tuple[Quiet, ...]) -> bool:
    weekly = [each for each in quiet if not each.dates]
    monday = datetime(2024, 1, 1)  # noqa: DTZ001 - a local time of any zone
    # What is not quiet begins at a midnight, or where a quiet time ends.
    minutes = {0, *(each.until_minute for each in weekly)}
    times = [monday + timedelta(days=day, minutes=minute) for day in range(7) for minute in minutes]
    return all(any(each.contains(local) for each in weekly) for local in times)


def _steps(rule: _Table, rule_after_ms: int, folder: Path) -> tuple[Step, ...]:
    steps: list[Step] = []
    for table in rule.tables("step", _STEP_KEYS):
        step = _step(table, rule_after_ms, folder)
        if steps and step.after_ms <= steps[-1].after_ms:
            least = format_duration(steps[-1].after_ms)
            raise table.problem("after", f"is missing or too short: write more than the step before, {least}")
        if step.after_ms < rule_after_ms:
            raise table.problem("after", f"is shorter than that of the rule, {format_duration(rule_after_ms)}")
        if step.command and not steps:  # a first step without a command has channels
            raise table.problem("command", "has no notice before it: add an earlier step with to")
        steps.append(step)
    return tuple(steps)


def _step(table: _Table, rule_after_ms: int, folder: Path) -> Step:
    step = Step(
        to=table.get("to", values.items(values.channel), ()),
        after_ms=table.get("after", values.duration_ms, rule_after_ms),
        remind_every_ms=table.get("remind_every", values.duration_ms, None),
        growing=table.get("growing", lambda value: values.whole(value, 10), 2),
        most_reminders=table.get("most_reminders", lambda value: values.whole(value, 50), 3),
        command=table.get("command", lambda value: values.command(value, values.COMMAND_PLACEHOLDERS), ()),
        template=table.get("template", lambda value: folder / values.text(value), None),
    )
    if not (step.to or step.command):
        raise table.problem("to", "is missing or empty: add a channel, or a command")
    needs = {"remind_every": "to", "template": "to", "growing": "remind_every", "most_reminders": "remind_every"}
    for key, needed in needs.items():
        if key in table and (needed not in table or (needed == "to" and not step.to)):
            raise table.problem(key, f"is of no use without {needed}: add that, or remove this")
    return step
