"""Runs of notices on a store in memory: what is sent, recorded, limited, left out, and run as a command."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from fakes.idle_notice import card, idle
from fakes.notice_store import NoticeStore, RecordingChannels, unix_ms
from gua.app import notifying, sending
from gua.app.held_now import HeldNow
from gua.app.notice_commands import command_arguments, run_command
from gua.app.notifying import NoticeRun, RunOutcome
from gua.notices.addresses import template_addresses
from gua.notices.held import Held, HeldState, HolderKind, NoticeResult
from gua.notices.policy import parse_policy

HOUR_MS: Final = 3_600_000
AT_MS: Final = int(datetime(2026, 11, 25, 12, tzinfo=ZoneInfo("UTC")).timestamp() * 1000)
RULE: Final = '[[rule]]\nname = "idle"\nstate = ["idle-held", "empty"]\nafter = "2h"\n'
ONE_STEP: Final = RULE + '[[rule.step]]\nto = ["json://one.example/{owner}"]\n'
TWO_CHANNELS: Final = RULE + '[[rule.step]]\nto = ["json://one.example/{owner}", "json://two.example"]\n'
COMMAND: Final = ONE_STEP + '[[rule.step]]\nafter = "8h"\ncommand = ["CMD", "{job}", "{owner}"]\n'


class NoFacts:
    def groups(self, owner: str) -> frozenset[str] | None:
        del owner
        return None

    def of_job(self, job: str, key: str) -> str | None:
        del job, key
        return None


@dataclass
class World:
    """A store, channels, holders and a clock; each run evaluates the policy at ``now_ms``."""

    monkeypatch: pytest.MonkeyPatch
    store: NoticeStore = field(default_factory=NoticeStore)
    channels: RecordingChannels = field(default_factory=RecordingChannels)
    held: list[Held] = field(default_factory=list)
    used: frozenset[tuple[HolderKind, str]] = frozenset()
    unknown: tuple[str, ...] = ()
    now_ms: int = AT_MS
    commands: list[list[str]] = field(default_factory=list)
    on_read: Callable[[int], None] = lambda _reads: None
    reads: int = 0

    def __post_init__(self) -> None:
        self.monkeypatch.setattr(notifying, "held_now", self.held_now)
        self.monkeypatch.setattr(notifying.channels, "reachable", self.channels.reachable)
        self.monkeypatch.setattr(notifying.channels, "send", self.channels.send)
        for module in (notifying, sending):
            self.monkeypatch.setattr(module, "now_ms", lambda: self.now_ms)

    def held_now(self, _reader: object, *, at_ms: int, **_others: object) -> HeldNow:
        self.reads += 1
        self.on_read(self.reads)
        since = [replace(one, idle_ms=at_ms - one.since_ms, last_ms=at_ms) for one in self.held]
        return HeldNow(at_ms=at_ms, held=tuple(since), unknown=self.unknown, used=self.used)

    def run(self, policy: str, *, dry: bool = False, **options: Any) -> RunOutcome:  # noqa: ANN401 - an option each
        stores: Callable[[], AbstractContextManager[NoticeStore]] = self.store.open
        run = NoticeRun(
            parse_policy(policy, Path("policy.toml")),
            stores,
            book=template_addresses("{owner}@example.org"),
            facts=NoFacts(),
            clock=lambda: self.now_ms,
            environ={},
            **options,
        )
        return run.plan() if dry else run.send()

    def later(self, hours: float) -> None:
        self.now_ms += round(hours * HOUR_MS)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture
def touched(world: World, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let commands be recorded and not run."""

    def ran(arguments: list[str]) -> object:
        world.commands.append(list(arguments))
        return notifying.SendResult(result=NoticeResult.SENT, detail="exit code 0")

    monkeypatch.setattr(notifying, "run_command", ran)
    return world.commands


def process(
    pid: int = 42,
    *,
    owner: str | None = "alice",
    hours: float = 3,
    now_ms: int = AT_MS,
    **changes: Any,  # noqa: ANN401 - a field each
) -> Held:
    """Return a process that is idle for so many hours at ``now_ms``."""
    known = {"key": f"node1 {pid} 7", "pid": pid, "owner": owner, "cards": (card(0),)}
    return idle(**{**known, "since_ms": now_ms - round(hours * HOUR_MS), **changes})


def results(outcome: RunOutcome) -> list[tuple[int | None, int, int, str]]:
    return [(one.notice.held.pid, one.notice.step, one.notice.reminder, one.result) for one in outcome.notices]


def test_a_notice_is_sent_once_and_recorded_before_and_after(world: World) -> None:
    world.held = [process()]
    assert results(world.run(ONE_STEP)) == [(42, 1, 1, "sent")]
    assert results(world.run(ONE_STEP)) == []
    assert world.channels.urls == ["json://one.example/alice"]
    assert [row["result"] for row in world.store.inserted] == ["started", "sent"]


def test_nothing_is_recorded_where_nothing_is_due(world: World) -> None:
    world.held = [process(hours=1)]
    assert results(world.run(ONE_STEP)) == []
    assert world.store.inserted == []


def test_a_dry_run_sends_and_records_nothing(world: World) -> None:
    world.held = [process()]
    assert results(world.run(ONE_STEP, dry=True)) == [(42, 1, 1, "due")]
    assert (world.channels.sent, world.store.inserted) == ([], [])


def test_a_reused_pid_gets_its_own_notice_and_nothing_of_the_one_before(world: World) -> None:
    world.held = [process()]
    world.run(ONE_STEP)
    world.held = [process(key="node1 42 8", owner="bob", hours=2)]
    assert results(world.run(ONE_STEP)) == [(42, 1, 1, "sent")]
    assert world.channels.urls[-1] == "json://one.example/bob"


def test_another_cluster_s_job_of_the_same_id_gets_its_own_notice(world: World) -> None:
    world.held = [process(kind=HolderKind.JOB, key="west/7"), process(kind=HolderKind.JOB, key="east/7")]
    assert len(world.run(ONE_STEP).notices) == 2
    assert len(world.channels.sent) == 2


def test_steps_and_reminders_follow_over_the_runs_of_two_days(world: World) -> None:
    policy = RULE + '[[rule.step]]\nto = ["json://one.example"]\nremind_every = "2h"\n'
    policy += '[[rule.step]]\nafter = "24h"\nto = ["json://lead.example"]\n'
    world.held = [process(hours=0)]
    found = []
    for quarter in range(4 * 48):
        found += [(quarter / 4, one[1], one[2]) for one in results(world.run(policy))]
        world.later(0.25)
    assert found == [(2, 1, 1), (4, 1, 2), (8, 1, 3), (16, 1, 4), (24, 2, 1)]


def test_a_card_that_vanishes_between_notice_and_reminder_ends_the_reminders(world: World) -> None:
    policy = RULE + '[[rule.step]]\nto = ["json://one.example"]\nremind_every = "2h"\n'
    world.held = [process()]
    world.run(policy)
    world.held = []
    world.later(5)
    assert results(world.run(policy)) == []


def test_the_clock_set_back_sends_nothing_twice(world: World) -> None:
    policy = RULE + '[[rule.step]]\nto = ["json://one.example"]\nremind_every = "2h"\n'
    world.held = [process(hours=10)]
    world.run(policy)
    world.later(-5)
    assert results(world.run(policy)) == []
    world.later(7)
    assert results(world.run(policy)) == [(42, 1, 2, "sent")]


def test_a_result_replaces_the_failure_of_before_also_where_the_clock_was_set_back(world: World) -> None:
    world.held = [process(hours=20)]
    world.channels.failing = {"json://one.example/alice"}
    assert results(world.run(ONE_STEP)) == [(42, 1, 1, "failed")]
    world.channels.failing = set()
    world.later(-10)
    assert results(world.run(ONE_STEP, retry_failed=True)) == [(42, 1, 1, "sent")]
    assert set(world.store.results().values()) == {"sent"}
    assert results(world.run(ONE_STEP, retry_failed=True)) == []


def test_a_failed_channel_is_reported_and_sent_again_only_with_retry_failed(world: World) -> None:
    world.held = [process()]
    world.channels.failing = {"json://two.example"}
    outcome = world.run(TWO_CHANNELS)
    assert outcome.has_failed
    assert [(one.channel, one.result, one.detail) for one in outcome.notices[0].channels] == [
        ("1 json://one.example", "sent", ""),
        ("2 json://two.example", "failed", "refused"),
    ]
    world.channels.failing = set()
    assert results(world.run(TWO_CHANNELS)) == []
    assert results(world.run(TWO_CHANNELS, retry_failed=True)) == [(42, 1, 1, "sent")]
    assert world.channels.urls == ["json://one.example/alice", "json://two.example"]


def test_an_unreachable_channel_is_not_recorded_and_tried_at_the_next_run(world: World) -> None:
    world.held = [process()]
    world.channels.unreachable = {"json://two.example"}
    outcome = world.run(TWO_CHANNELS)
    assert results(outcome) == [(42, 1, 1, "unreachable")]
    assert outcome.has_failed
    world.channels.unreachable = set()
    world.later(1)
    assert results(world.run(TWO_CHANNELS)) == [(42, 1, 1, "sent")]
    assert world.channels.urls == ["json://one.example/alice", "json://two.example"]


def test_with_every_channel_unreachable_the_notice_stays_due(world: World) -> None:
    world.held = [process()]
    world.channels.unreachable = {"json://one.example/alice"}
    world.run(ONE_STEP)
    assert world.store.inserted == []
    world.channels.unreachable = set()
    world.later(30)
    assert results(world.run(ONE_STEP)) == [(42, 1, 1, "sent")]


def test_one_owner_without_address_stops_no_other_and_is_recorded_as_failed(world: World) -> None:
    world.held = [process(1, owner="a\r\nBcc: x"), process(2, owner=None), process(3, owner="bob")]
    outcome = world.run(RULE + '[[rule.step]]\nto = ["json://one.example/{owner}"]\n')
    assert results(outcome) == [(1, 1, 1, "failed"), (2, 1, 1, "failed"), (3, 1, 1, "sent")]
    assert world.channels.urls == ["json://one.example/bob"]
    assert results(world.run(ONE_STEP)) == []


def test_a_killed_run_s_notice_is_unresolved_and_not_sent_again(world: World) -> None:
    world.held = [process()]
    world.channels.killed = {"json://one.example/alice"}
    with pytest.raises(KeyboardInterrupt):
        world.run(ONE_STEP)
    world.channels.killed = set()
    outcome = world.run(ONE_STEP, retry_failed=True)
    assert results(outcome) == []
    what = "process node1 42 7, rule idle, step 1, channel 1 json://one.example, at 2026-11-25T12:00:00Z"
    assert outcome.unresolved == [f"{what}: the run was killed, and it is not sent again"]


def test_an_owner_gets_one_summary_where_there_would_be_more_than_the_day_s_limit(world: World) -> None:
    world.held = [process(pid) for pid in range(4)] + [process(9, owner="bob")]
    outcome = world.run("most_per_owner_per_day = 3\n" + ONE_STEP)
    assert [one[3] for one in results(outcome)] == ["sent"] * 5
    assert sorted(world.channels.urls) == ["json://one.example/alice", "json://one.example/bob"]
    assert len({row["message"] for row in world.store.inserted}) == 2


def test_as_many_notices_as_the_limit_are_sent_one_by_one(world: World) -> None:
    world.held = [process(pid) for pid in range(3)]
    world.run("most_per_owner_per_day = 3\n" + ONE_STEP)
    assert len(world.channels.sent) == 3


def test_a_message_by_two_channels_counts_once(world: World) -> None:
    policy = "most_per_owner_per_day = 2\n" + TWO_CHANNELS
    world.held = [process(1)]
    world.run(policy)
    world.held = [process(1), process(2)]
    assert results(world.run(policy)) == [(2, 1, 1, "sent")]
    assert len(world.channels.sent) == 4


def test_beyond_the_limit_a_notice_waits_for_the_next_day(world: World) -> None:
    policy = "most_per_owner_per_day = 1\n" + ONE_STEP
    world.held = [process(1), process(2)]
    world.run(policy)
    assert len(world.channels.sent) == 1
    world.held.append(process(3))
    assert results(world.run(policy)) == [(3, 1, 1, "limited")]
    world.later(11.99)
    assert results(world.run(policy)) == [(3, 1, 1, "limited")]
    world.later(0.01)
    assert results(world.run(policy)) == [(3, 1, 1, "sent")]


@pytest.mark.parametrize(
    ("zone", "day"),
    [("America/New_York", "2026-11-01"), ("Europe/Berlin", "2026-03-29"), ("Asia/Kathmandu", "2026-05-01")],
)
def test_the_day_of_the_limit_is_the_zone_s_also_where_its_clock_changes(world: World, zone: str, day: str) -> None:
    policy = f'zone = "{zone}"\nmost_per_owner_per_day = 1\n' + ONE_STEP
    begin = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    begin_ms = int(begin.timestamp() * 1000)
    end_ms = int((begin + timedelta(days=1)).timestamp() * 1000)
    world.now_ms = begin_ms
    world.held = [process(1, now_ms=begin_ms)]
    assert results(world.run(policy)) == [(1, 1, 1, "sent")]
    world.held = [process(2, now_ms=begin_ms)]
    world.now_ms = end_ms - 1
    assert results(world.run(policy)) == [(2, 1, 1, "limited")]
    world.now_ms = end_ms
    assert results(world.run(policy)) == [(2, 1, 1, "sent")]


def test_an_exempt_owner_and_one_on_hold_get_nothing_and_are_reported(world: World) -> None:
    policy = 'exempt_owners = ["svc-*"]\n[[hold]]\nowner = "bob"\nuntil = 2026-12-01\nreason = "thesis"\n' + ONE_STEP
    world.held = [process(1, owner="svc-llm"), process(2, owner="bob")]
    outcome = world.run(policy)
    assert (results(outcome), world.channels.sent) == ([], [])
    assert outcome.left_out == [
        "pid 1 of svc-llm on node1 GPU 0: exempt, exempt_owners",
        "pid 2 of bob on node1 GPU 0: hold, until 2026-12-02T00:00:00Z: thesis",
    ]


def test_a_quiet_time_delays_a_notice_to_its_end(world: World) -> None:
    policy = RULE + '[[rule.quiet]]\nfrom = "11:00"\nuntil = "13:00"\n[[rule.step]]\nto = ["json://one.example"]\n'
    world.held = [process()]
    outcome = world.run(policy)
    assert (results(outcome), len(outcome.left_out)) == ([], 1)
    world.later(1)
    assert results(world.run(policy)) == [(42, 1, 1, "sent")]


def test_a_holder_with_an_undecidable_rule_gets_nothing_and_is_reported(world: World) -> None:
    policy = RULE + 'partitions = ["gpu"]\n[[rule.step]]\nto = ["json://one.example"]\n'
    world.held = [process(kind=HolderKind.JOB, key="7", job="7")]
    world.unknown = ("node9: 1 GPU without a notice: no tick for three intervals",)
    outcome = world.run(policy)
    assert results(outcome) == []
    assert len(outcome.unknown) == 2
    assert "a value that partitions needs is unknown" in outcome.unknown[1]


def job(hours: float = 3, **changes: Any) -> Held:  # noqa: ANN401 - a field each
    return process(kind=HolderKind.JOB, key="7", job="7", hours=hours, **changes)


def test_a_command_runs_only_with_enforce_and_after_a_notice_and_its_grace(
    world: World, touched: list[list[str]]
) -> None:
    world.held = [job(hours=50)]
    world.run(COMMAND, enforce=True)
    world.later(5.9)
    assert results(world.run(COMMAND, enforce=True)) == []
    world.later(0.1)
    assert results(world.run(COMMAND)) == []
    assert touched == []
    assert results(world.run(COMMAND, enforce=True, dry=True)) == [(42, 2, 1, "due")]
    assert results(world.run(COMMAND, enforce=True)) == [(42, 2, 1, "sent")]
    assert touched == [["CMD", "7", "alice"]]
    world.later(30)
    assert results(world.run(COMMAND, enforce=True)) == []
    assert touched == [["CMD", "7", "alice"]]


def test_a_notice_that_a_service_accepted_is_good_and_a_command_may_follow_it(
    world: World, touched: list[list[str]]
) -> None:
    world.held = [job(hours=50)]
    world.channels.success = NoticeResult.ACCEPTED
    first = world.run(COMMAND, enforce=True)
    assert (results(first), first.has_failed) == ([(42, 1, 1, "accepted")], False)
    assert set(world.store.results().values()) == {"accepted"}
    world.later(6)
    assert results(world.run(COMMAND, enforce=True)) == [(42, 2, 1, "sent")]
    assert touched == [["CMD", "7", "alice"]]


def test_a_command_is_recorded_before_it_runs_and_with_what_was_read(world: World, touched: list[list[str]]) -> None:
    world.held = [job()]
    world.run(COMMAND)
    world.later(8)
    world.run(COMMAND, enforce=True)
    started, done = world.store.inserted[-2:]
    assert (started["result"], done["result"], done["channel"]) == ("started", "sent", "0 command CMD")
    assert done["detail"] == "exit code 0; read before: idle-held for 11h at 2026-11-25T20:00:00Z"
    assert touched


def test_a_command_does_not_run_if_the_card_is_in_use_when_it_is_read_again(
    world: World, touched: list[list[str]]
) -> None:
    world.held = [job()]
    world.run(COMMAND)
    world.later(8)

    def used_from_now_on(_reads: int) -> None:
        if world.reads == planned + 2:
            world.held = []

    planned = world.reads
    world.on_read = used_from_now_on
    outcome = world.run(COMMAND, enforce=True)
    assert outcome.notices[0].channels[0].detail == "not run: not idle when its cards were read again"
    assert (touched, outcome.has_failed) == ([], True)


def test_a_command_does_not_run_for_a_job_that_uses_another_of_its_cards(
    world: World, touched: list[list[str]]
) -> None:
    world.held = [job(state=HeldState.EMPTY)]
    world.run(COMMAND)
    world.later(8)
    world.used = frozenset({(HolderKind.JOB, "7")})
    assert results(world.run(COMMAND, enforce=True)) == [(42, 2, 1, "failed")]
    assert touched == []


def test_a_command_does_not_run_if_the_job_was_active_meanwhile(world: World, touched: list[list[str]]) -> None:
    world.held = [job()]
    world.run(COMMAND)
    world.later(8)

    def active_meanwhile(_reads: int) -> None:
        if world.reads == planned + 2:
            world.held = [job(hours=1, now_ms=world.now_ms)]

    planned = world.reads
    world.on_read = active_meanwhile
    assert results(world.run(COMMAND, enforce=True)) == [(42, 2, 1, "failed")]
    assert touched == []


def test_a_command_does_not_run_where_no_notice_arrived(world: World, touched: list[list[str]]) -> None:
    world.held = [job()]
    world.channels.failing = {"json://one.example/alice"}
    world.run(COMMAND)
    world.later(40)
    assert results(world.run(COMMAND, enforce=True)) == []
    assert touched == []


def test_a_channel_tried_again_does_not_run_the_command_twice(world: World, touched: list[list[str]]) -> None:
    policy = (
        ONE_STEP + '[[rule.step]]\nafter = "8h"\nto = ["json://two.example", "json://x.example"]\ncommand = ["CMD"]\n'
    )
    world.held = [job()]
    world.run(policy)
    world.later(8)
    world.channels.unreachable = {"json://x.example"}
    world.run(policy, enforce=True)
    world.later(1)
    world.channels.unreachable = set()
    world.run(policy, enforce=True)
    assert world.channels.urls == ["json://one.example/alice", "json://two.example", "json://x.example"]
    assert touched == [["CMD"]]


def test_the_limit_of_messages_neither_counts_nor_stops_a_command(world: World, touched: list[list[str]]) -> None:
    policy = "most_per_owner_per_day = 1\n" + COMMAND
    world.held = [job()]
    world.run(policy)
    world.later(8)
    assert results(world.run(policy, enforce=True)) == [(42, 2, 1, "sent")]
    assert len(touched) == 1
    world.held.append(process(5, hours=0, now_ms=world.now_ms))
    world.later(6)
    assert results(world.run(policy, enforce=True)) == [(5, 1, 1, "sent")]


def test_a_run_is_described_by_what_holds_the_cards() -> None:
    two = (card(0), card(1))
    assert notifying.describe(job(cards=two)) == "job 7 of alice on node1 GPU 0 and 1 more"
    of_card = process(state=HeldState.NO_PROCESS, kind=HolderKind.CARD, owner=None)
    assert notifying.describe(of_card) == "memory without a process on node1 GPU 0"
    hostile = notifying.describe(process(owner="x\n\x1b[31m"))
    assert hostile.isprintable()


@pytest.mark.parametrize(
    "owner",
    ["-rf", "a b", "a;rm", "$(x)", "a\nb", "", "a\u202eb", "é", "{job}", "--all", "a'b", "|", "../../x\0", "@-"],
)
def test_a_hostile_owner_is_no_argument(owner: str) -> None:
    held = process(owner=owner, job="7")
    found = command_arguments(["tool", "{owner}"], held)
    assert found is None


def test_a_placeholder_in_a_value_is_not_replaced_and_a_value_may_be_within_an_argument() -> None:
    assert command_arguments(["t", "--user={owner}", "{pid}", "{other}x"], process(owner="alice")) is None
    assert command_arguments(["t", "--user={owner}", "{pid}"], process(owner="alice")) == ["t", "--user=alice", "42"]
    assert command_arguments(["t", "{job}"], process()) is None


def test_an_unknown_value_is_recorded_as_the_reason_that_the_command_did_not_run(
    world: World, touched: list[list[str]]
) -> None:
    world.held = [process()]
    world.run(COMMAND)
    world.later(8)
    outcome = world.run(COMMAND, enforce=True)
    assert outcome.notices[0].channels[0].detail == "not run: a value that it needs is unknown"
    assert touched == []


def test_a_command_s_result_is_its_exit_code_and_last_line() -> None:
    done = run_command(["python3", "-c", "print('one'); print('t\\x1b[31mwo'); raise SystemExit(3)"])
    assert (done.result, done.detail.startswith("exit code 3: t")) == (NoticeResult.FAILED, True)
    assert done.detail.isprintable()
    assert run_command(["true"]).result is NoticeResult.SENT
    assert run_command(["/no/such/program"]).detail == "could not be started: No such file or directory"


def test_versions_of_rows_grow_within_a_run_and_from_run_to_run(world: World) -> None:
    world.held = [process()]
    world.run(ONE_STEP)
    world.later(-3)
    world.held.append(process(43))
    world.run(ONE_STEP)
    written = [unix_ms(row["written"]) for row in world.store.inserted]
    assert written == sorted(set(written))


def test_notices_of_a_day_ago_are_kept_while_their_holder_is_there_idle_or_not(world: World) -> None:
    world.held = [
        idle(owner=owner, key=f"n1 {pid} 5", since_ms=AT_MS - 3 * HOUR_MS)
        for pid, owner in enumerate(("ana", "bo", "cleo"))
    ]
    world.run(ONE_STEP)
    keys = [held.key for held in world.held]
    world.later(23)
    world.run(ONE_STEP)
    assert world.store.kept == []
    world.later(2)
    world.held = world.held[:1]
    world.used = frozenset({(HolderKind.PROCESS, keys[1])})
    world.run(ONE_STEP, dry=True)
    assert world.store.kept == [], "a dry run writes nothing"
    world.run(ONE_STEP)
    assert world.store.kept == sorted(f"process {key}" for key in keys[:2])
