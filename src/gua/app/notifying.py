"""One run of notices: what is due by a policy, sent by its channels, and recorded in the store before and after."""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final

from gua.app import sending
from gua.app.held_now import ON_SEVERAL_HOSTS, held_now
from gua.app.notice_commands import command_arguments, run_command
from gua.app.sending import DUE, MOST_DETAIL, UNREACHABLE, ChannelOutcome, Stores, Versions, now_ms, worst
from gua.core.errors import UnavailableError
from gua.core.moments import DAY_MS, begin_ms, format_duration, local_day, to_rfc3339
from gua.core.plaintext import safe
from gua.notices import channels, messages, record
from gua.notices.addresses import AddressBook, NotApplicableError, no_addresses
from gua.notices.channels import Channel, SendResult
from gua.notices.due import COMMAND, Due
from gua.notices.held import SUCCESSES, Held, HolderKind, Notice, NoticeResult
from gua.notices.matching import Facts, Match, MatchOutcome, first_rule
from gua.notices.messages import Message, MessageSettings, NextStep
from gua.notices.policy import Policy, Step
from gua.notices.record import Inserter, Lease, SentBefore, SentRow, channel_name, notice_row

_SHORTEST_LOOKBACK_MS: Final = 7 * DAY_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeOutcome:
    """A notice that was due, and its channels; without any the owner had enough messages for the day."""

    notice: Notice
    channels: list[ChannelOutcome] = field(default_factory=list)

    @property
    def result(self) -> str:
        """Return the worst result of its channels; ``limited`` without any."""
        return worst(self.channels) or str(NoticeResult.LIMITED)


@dataclass(kw_only=True, slots=True)
class RunOutcome:
    """The notices of a run as of ``at_ms`` (Unix ms).

    In words: ``left_out`` who is exempt or on hold, ``unknown`` what no notice may rest on, ``unresolved`` notices of a
    killed run: it is unknown whether they were sent.
    """

    at_ms: int
    unknown: list[str]
    unresolved: list[str]
    notices: list[NoticeOutcome] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def has_failed(self) -> bool:
        """Return whether a channel failed or could not be reached."""
        good = {DUE, str(NoticeResult.LIMITED), *SUCCESSES}
        return any(notice.result not in good for notice in self.notices)


@dataclass(frozen=True, slots=True)
class _Delivery:
    """One message by one channel, for one notice or a summary of several.

    ``message`` is its id; the same message may go by several channels. ``parts`` are the notices, each with the
    channel's number in its step. Without a ``channel`` there is a ``problem``.
    """

    message: str
    parts: tuple[tuple[int, NoticeOutcome], ...]
    template: str
    channel: Channel | None
    problem: str = ""

    def note(self, result: str, detail: str = "") -> None:
        """Add the same outcome to each of its notices."""
        for number, part in self.parts:
            name, text = self.channel_name(number), safe(detail, MOST_DETAIL)
            part.channels.append(ChannelOutcome(channel=name, result=result, detail=text))

    def channel_name(self, number: int) -> str:
        """Return the name of its channel in the record."""
        return channel_name(number, channels.shown(self.template))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """What is due, and what is to be sent and run for it."""

    outcome: RunOutcome
    commands: list[NoticeOutcome]
    deliveries: list[_Delivery]
    lasting: list[str]  # holders that are there, with notices that would expire


@dataclass(eq=False)
class NoticeRun:
    """A run of ``gua notify`` by a policy, as of ``clock()`` (Unix ms).

    ``enforce`` lets steps run their commands. ``retry_failed`` sends again what a channel reported as failed.
    """

    policy: Policy
    stores: Stores
    _: KW_ONLY
    book: AddressBook | None
    facts: Facts
    clock: Callable[[], int]
    hosts: tuple[str, ...] = ()
    enforce: bool = False
    retry_failed: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def __post_init__(self) -> None:
        """Read the clock."""
        policy = self.policy
        self._at_ms = self.clock()
        self._setting = MessageSettings(timezone=policy.timezone, sender=policy.sender, contact=policy.contact)
        self._steps = {rule.name: rule.steps for rule in policy.rules}
        self._versions = Versions()
        self._reached: dict[tuple[str, int], str] = {}

    def plan(self) -> RunOutcome:
        """Return what is due, without sending or recording anything."""
        with self.stores() as store:
            plan = self._plan(store)
        for delivery in plan.deliveries:
            delivery.note(DUE if delivery.channel else NoticeResult.FAILED, delivery.problem)
        for one in plan.commands:
            one.channels.append(ChannelOutcome(channel=self._command_name(one.notice), result=DUE))
        return plan.outcome

    def send(self) -> RunOutcome:
        """Send what is due and record it; return the results.

        A channel that cannot be reached is not recorded, and due again. Raises UnavailableError if another run sends.
        """
        with sending.giving_back(self.stores) as lease:
            with self.stores() as store:
                lease.take(store)
                plan = self._plan(store)
                store.keep_notices(plan.lasting)
            ready = [delivery for delivery in plan.deliveries if self._is_ready(delivery)]
            written_ms = self._versions.next_ms
            results = sending.send_all(
                ready, lease, stores=self.stores, send=self._sent, rows=self._rows, written_ms=written_ms
            )
            for delivery, result in zip(ready, results, strict=True):
                delivery.note(result.result, result.detail)
            self._run_commands(plan.commands, lease)
        return plan.outcome

    def _plan(self, store: Inserter) -> _Plan:
        before = record.sent_before(store, with_failed=not self.retry_failed)
        self._versions = Versions(before.newest_ms)
        now = held_now(store, at_ms=self._at_ms, lookback_ms=_lookback_ms(self.policy), hosts=self.hosts)
        self._setting = replace(self._setting, active_percent=now.active_percent, interval_seconds=now.interval_seconds)
        unresolved = [_unresolved(row) for row in before.unresolved()]
        outcome = RunOutcome(at_ms=self._at_ms, unknown=list(now.unknown), unresolved=unresolved)
        commands: list[NoticeOutcome] = []
        for held in now.held:
            match = first_rule(self.policy, held, self.facts, self._at_ms)
            if match is None:
                continue
            if match.outcome is MatchOutcome.MATCHED:
                sent = before.of(held.kind, held.key, match.rule.name)
                due = Due(rule=match.rule, held=held, sent=sent, at_ms=self._at_ms, enforce=self.enforce)
                if notice := due.notice():
                    found = NoticeOutcome(notice=notice)
                    outcome.notices.append(found)
                    if due.runs_command(notice):
                        commands.append(found)
            elif match.outcome is MatchOutcome.UNKNOWN:
                outcome.unknown.append(f"{describe(held)}: {match.reason}")
            else:
                outcome.left_out.append(f"{describe(held)}: {match.outcome}, {match.reason}")
        there = {(held.kind, held.key) for held in now.held} | now.used
        old = (row for row in before.rows if row.written_ms < now_ms() - DAY_MS)
        lasting = sorted({f"{row.kind} {row.holder}" for row in old if (row.kind, row.holder) in there})
        deliveries = self._deliveries(outcome.notices, before)
        return _Plan(outcome=outcome, commands=commands, deliveries=deliveries, lasting=lasting)

    def _deliveries(self, notices: Sequence[NoticeOutcome], before: SentBefore) -> list[_Delivery]:
        """Return the messages: one for each notice, or one for all of an owner where the day's limit needs it."""
        zone = self.policy.timezone
        today = before.messages_since(begin_ms(local_day(self._at_ms, zone), zone))
        by_owner: dict[str, list[NoticeOutcome]] = {}
        for one in notices:
            if one.notice.to:  # not where only a command is due
                by_owner.setdefault(one.notice.held.owner or "", []).append(one)
        deliveries: list[_Delivery] = []
        for owner, each in by_owner.items():
            left = self.policy.most_per_owner_per_day - today.get(owner, 0)
            groups = [[one] for one in each]
            if left < len(each):  # without any left they stay due: a summary of the next day has them
                groups = [each] if left > 0 else []
            deliveries += (delivery for group in groups for delivery in self._of_group(group))
        return deliveries

    def _of_group(self, notices: Sequence[NoticeOutcome]) -> Iterator[_Delivery]:
        """Yield one delivery for each channel of some notices; one with several notices is a summary."""
        message = secrets.token_hex(8)
        by_channel: dict[tuple[str, str], _Delivery] = {}
        find = self.book or no_addresses
        for one in notices:
            for number, template in one.notice.to:
                try:
                    address = find(one.notice.held.owner) if "{address}" in template else None
                    channel = channels.fill(template, channels.parts(one.notice, address))
                except NotApplicableError as error:
                    yield _Delivery(message, ((number, one),), template, None, str(error))
                    continue
                key = (channel.url, channel.owner or "")
                parts = by_channel[key].parts if key in by_channel else ()
                by_channel[key] = _Delivery(message, (*parts, (number, one)), template, channel)
        yield from by_channel.values()

    def _is_ready(self, delivery: _Delivery) -> bool:
        """Return whether a message can be sent now; note why not."""
        if delivery.channel is None:
            return True  # recorded as failed: else it would be reported at each run
        reason = channels.reachable(delivery.channel, environ=self.environ, checked=self._reached)
        if reason is not None:
            delivery.note(UNREACHABLE, reason)
        return reason is None

    def _rows(self, delivery: _Delivery, result: SendResult, written_ms: int) -> list[dict[str, object]]:
        return [
            self._row(one.notice, delivery.channel_name(number), delivery.message, result, written_ms)
            for number, one in delivery.parts
        ]

    def _sent(self, delivery: _Delivery) -> SendResult:
        if delivery.channel is None:
            return SendResult(result=NoticeResult.FAILED, detail=delivery.problem)
        return channels.send(delivery.channel, self._message(delivery), environ=self.environ)

    def _message(self, delivery: _Delivery) -> Message:
        notices = [one.notice for _, one in delivery.parts]
        if len(notices) > 1:
            return messages.summary_message(notices, self._setting)
        notice = notices[0]
        step = self._step(notice)
        template = None if step.template is None else messages.read_template(step.template)
        return messages.notice_message(notice, self._setting, next_step=self._next_step(notice), template=template)

    def _step(self, notice: Notice) -> Step:
        return self._steps[notice.rule][notice.step - 1]

    def _next_step(self, notice: Notice) -> NextStep | None:
        """Return what follows if the holder stays idle, and when at the earliest."""
        step, steps = self._step(notice), self._steps[notice.rule]
        distances_ms = step.reminder_distances_ms
        following = []
        if notice.reminder <= len(distances_ms):
            at_ms = self._at_ms + distances_ms[notice.reminder - 1]
            following.append(NextStep(what="a reminder", at_ms=at_ms))
        if notice.step < len(steps) and notice.reminder == 1:
            follower = steps[notice.step]
            what = "the site frees the GPU" if follower.command else "the next notice"
            following.append(NextStep(what=what, at_ms=self._at_ms + follower.after_ms - step.after_ms))
        return min(following, key=lambda one: one.at_ms, default=None)

    def _run_commands(self, notices: Iterable[NoticeOutcome], lease: Lease) -> None:
        """Run the commands of due steps, each after its cards were read again, and record what was read."""
        for one in notices:
            notice = one.notice
            step, name, message = self._step(notice), self._command_name(notice), secrets.token_hex(8)
            with self.stores() as store:
                lease.renew(store)
                held = self._read_again(store, notice.held)
                result, arguments = _command_of(step, held)
                store.insert_json("notices", [self._row(notice, name, message, result, self._versions.next_ms())])
            if held is not None and arguments is not None:
                done = run_command(arguments)
                idle = f"{held.state} for {format_duration(held.idle_ms // 1000 * 1000)} at {to_rfc3339(held.last_ms)}"
                result = SendResult(result=done.result, detail=f"{done.detail}; read before: {idle}")
                with self.stores() as store:
                    store.insert_json("notices", [self._row(notice, name, message, result, self._versions.next_ms())])
            one.channels.append(ChannelOutcome(channel=name, result=result.result, detail=result.detail))

    def _command_name(self, notice: Notice) -> str:
        return channel_name(COMMAND, f"command {self._step(notice).command[0]}")

    def _read_again(self, store: Inserter, held: Held) -> Held | None:
        """Return the same holder as it is now, ``None`` if it is not idle on all its cards, or not known to be."""
        hosts = () if held.kind in ON_SEVERAL_HOSTS else held.hosts
        now = held_now(store, at_ms=self.clock(), lookback_ms=_lookback_ms(self.policy), hosts=hosts)
        if (held.kind, held.key) in now.used:
            return None
        same = (held.state, held.kind, held.key)
        return next((one for one in now.held if (one.state, one.kind, one.key) == same), None)

    def _row(
        self, notice: Notice, channel: str, message: str, result: SendResult, written_ms: int
    ) -> dict[str, object]:
        return notice_row(
            notice,
            channel=channel,
            message=message,
            result=result.result,
            sent_ms=self._at_ms,
            written_ms=written_ms,
            detail=safe(result.detail, MOST_DETAIL),
        )


def _command_of(step: Step, held: Held | None) -> tuple[SendResult, list[str] | None]:
    """Return what is recorded before a step's command runs, and its arguments; ``None`` if it must not run."""
    if held is None or held.idle_ms < step.after_ms:
        return SendResult(result=NoticeResult.FAILED, detail="not run: not idle when its cards were read again"), None
    arguments = command_arguments(step.command, held)
    if arguments is None:
        return SendResult(result=NoticeResult.FAILED, detail="not run: a value that it needs is unknown"), None
    return SendResult(result=NoticeResult.STARTED), arguments


def concerned(
    policy: Policy, stores: Stores, facts: Facts, moments: Sequence[int], *, hosts: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """Return in words the holders that a policy concerns at the first of some moments (Unix ms), and at the others."""
    lookback_ms = _lookback_ms(policy)
    found: list[dict[str, None]] = []
    with stores() as store:
        for at_ms in moments:
            try:
                held = held_now(store, at_ms=at_ms, lookback_ms=lookback_ms, hosts=hosts).held
            except UnavailableError:  # before the first tick
                held = ()
            matches = [(one, first_rule(policy, one, facts, at_ms)) for one in held]
            lines = (f"{describe(one)}: {_match_text(match)}" for one, match in matches if match)
            found.append(dict.fromkeys(lines))
    earlier = dict.fromkeys(line for lines in found[1:] for line in lines)
    return list(found[0]), list(earlier)


def _match_text(match: Match) -> str:
    rule = f"rule {match.rule.name}"
    return rule if match.outcome is MatchOutcome.MATCHED else f"{rule}, {match.outcome}: {match.reason}"


def _lookback_ms(policy: Policy) -> int:
    longest_ms = max((step.after_ms for rule in policy.rules for step in rule.steps), default=0)
    return max(longest_ms + DAY_MS, _SHORTEST_LOOKBACK_MS)


def describe(held: Held) -> str:
    """Return what a holder is, for a line of output: kind, id, owner, host and GPU."""
    names = {
        HolderKind.PROCESS: f"pid {held.pid}",
        HolderKind.JOB: f"job {held.job}",
        HolderKind.POD: f"pod {held.pod}",
        HolderKind.ALLOCATION: f"allocation {held.key}",
        HolderKind.CARD: "memory without a process",
    }
    card = held.cards[0]
    more = f" and {len(held.cards) - 1} more" if len(held.cards) > 1 else ""
    place = f"{held.host} GPU {card.gpu if card.index is None else card.index}{more}"
    owner = f" of {held.owner}" if held.owner else ""
    return safe(f"{names[held.kind]}{owner} on {place}", MOST_DETAIL)


def _unresolved(row: SentRow) -> str:
    what = f"{row.kind} {row.holder}, rule {row.rule}, step {row.step}, channel {row.channel}"
    return safe(f"{what}, at {to_rfc3339(row.sent_ms)}: the run was killed, and it is not sent again", 2 * MOST_DETAIL)
