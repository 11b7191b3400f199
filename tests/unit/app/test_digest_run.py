"""Digests of a store: each number once more from its ticks, who gets one, and that each is sent once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from fakes import by_other_means as means
from fakes.allocations import allocated
from fakes.by_other_means import HOUR_MS, IDLE, Counted, Key, Recorded, Seen
from fakes.fleet import spooled_ticks
from fakes.restless import restless
from gua.app import digest_run, sending
from gua.app.digest import SECTIONS, By, Digest
from gua.app.digest_run import ADMINS, DigestOutcome, DigestRun, Recipient
from gua.app.sending import UNREACHABLE
from gua.core.moments import to_rfc3339
from gua.notices import record
from gua.notices.addresses import no_addresses, template_addresses
from gua.notices.channels import Channel, SendResult
from gua.notices.held import NoticeResult
from gua.notices.messages import Message
from gua.notices.policy import parse_policy
from gua.report.costs import Cost
from gua.report.model import Report
from gua.report.sections.notices import NOTICES
from gua.report.states import ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN
from gua.report.window import ReportRequest
from gua.sim.host import END_MS
from gua.store.database import Store, open_store
from servers.process import free_ports
from servers.smtp import Mailbox, mail_server

pytestmark = pytest.mark.engine

HOSTS: Final = ("restless-1", "restless-2")
PRICES: Final = (("Fast", END_MS - 2 * HOUR_MS, "EUR", 2.5), ("Slow", END_MS - HOUR_MS, "USD", 1.25))
STATES: Final = {"used": ACTIVE, "idle-held": IDLE_HELD, "unknown": UNKNOWN}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_store: Callable[[Path], str]) -> Iterator[Store]:
    """Open a store with two restless hosts, whose cards are allocated by Slurm, Kubernetes and gua."""
    with open_store(made_store(tmp_path_factory.mktemp("digest") / "store")) as opened:
        for seed, host in enumerate(HOSTS, start=1):
            ticks = restless(host, seed=seed, ticks=260, end_ms=END_MS)
            assert opened.land(list(spooled_ticks(allocated(ticks, seed=seed, without_source=20)))) == []
        columns = ("model", "valid_from", "currency", "per_gpu_hour")
        rows = [dict(zip(columns, (one[0], one[1] // 1000, *one[2:]), strict=True)) for one in PRICES]
        opened.insert_json("prices", rows)
        opened.count_hours()
        yield opened


class Groups:
    """The groups of ana alone; what others are in is unknown."""

    def groups(self, owner: str) -> frozenset[str] | None:
        return frozenset({"vision", "users"}) if owner == "ana" else None

    def of_job(self, job: str, key: str) -> str | None:
        raise AssertionError((job, key))


def run_of(
    store: Store, text: str, *, since: str = "3h", by: By = By.OWNER, to_admins: bool = False, addresses: bool = True
) -> DigestRun:
    policy = parse_policy(text, Path("/policy.toml"))
    assert policy.digests is not None

    @contextmanager
    def stores() -> Iterator[Store]:
        yield store

    return DigestRun(
        policy=policy,
        digests=policy.digests,
        stores=stores,
        request=ReportRequest(since=since, sections=SECTIONS, now_ms=END_MS),
        by=by,
        to_admins=to_admins,
        book=template_addresses("{owner}@example.org") if addresses else no_addresses,
        facts=Groups(),
        environ={},
    )


def policy_to(port: int, more: str = "") -> str:
    mail = f"mailto://127.0.0.1:{port}?from=gua@example.org"
    leads = 'to = ["' + mail + '&to=lead@example.org"]'
    return (
        f'[digest]\nleast_gpu_hours = 0\nto = ["{mail}&to={{address}}"]\nadmins = ["{mail}&to=admin@example.org"]\n'
        f'{more}\n[[digest.team]]\nname = "vision"\nowners = ["b*"]\ngroups = ["vis*"]\n{leads}\n'
    )


def by_name(outcome: DigestOutcome) -> dict[str | None, Recipient]:
    return {one.digest.name: one for one in outcome.recipients if one.kind != ADMINS}


@pytest.fixture(scope="module")
def dry(store: Store) -> DigestOutcome:
    return run_of(store, policy_to(1), to_admins=True).run(dry_run=True)


@pytest.fixture(scope="module")
def counted(store: Store, dry: DigestOutcome) -> Counted:
    window = dry.report.window
    assert window.until_ms - window.since_ms == 3 * HOUR_MS
    return Recorded(store).window(window.since_ms, window.until_ms)


def us(value: float) -> object:
    return pytest.approx(value, abs=0.01)


def check_cost(cost: Cost | None, spent: means.Spent) -> None:
    if cost is None:
        assert spent.amounts == {}
        assert spent.unpriced_ms == us(0)
        return
    assert {name: value for name, value in cost.amounts.items() if value} == pytest.approx(spent.amounts, abs=1e-6)
    assert cost.unpriced_gpu_ms == us(spent.unpriced_ms)


def test_each_owner_has_the_time_of_its_processes_and_its_empty_allocations(
    dry: DigestOutcome, counted: Counted
) -> None:
    shares = means.shares(counted, lambda one: one.row["owner"])
    rest = shares.pop(("unlisted",))
    empty: dict[object, float] = defaultdict(float)
    for _, part in means.every_part(counted):
        if part.source not in {"", "kubernetes"}:
            empty[part.owner] += part.gpu_ms if part.use == "empty" else 0
    found = by_name(dry)
    assert len(found) >= 4
    assert {*found} == {*(name for name, share in shares.items() if sum(share.gpu_ms.values())), *empty, None}
    for name, one in found.items():
        share = shares[name].gpu_ms if name in shares else dict.fromkeys(STATES.values(), 0.0)
        for use, state in STATES.items():
            expected = share[state] + (rest.gpu_ms[state] if name is None else 0)
            assert one.digest.times[use].gpu_ms == us(expected), (name, use)
        assert one.digest.times["empty"].gpu_ms == us(empty[name])
    assert sum(empty.values()) > 0
    assert sum(one.digest.gpu_ms("used") for one in found.values()) > 0


def test_each_owner_has_the_cost_of_its_time_in_each_currency(dry: DigestOutcome, counted: Counted) -> None:
    currencies: set[str] = set()
    for name, one in by_name(dry).items():
        if name is None:
            continue
        ticks = [
            (process[:2], tick)
            for process, of in counted.processes.items()
            for tick in of
            if tick.row["owner"] == name and tick.card_state != TRULY_IDLE
        ]
        spent = means.spent(counted, PRICES, ticks)
        for use, state in STATES.items():
            check_cost(one.digest.times[use].cost, spent[state])
        parts = [
            (key, part)
            for key, part in means.every_part(counted)
            if part.source not in {"", "kubernetes"} and part.owner == name
        ]
        check_cost(one.digest.times["empty"].cost, means.spent_by_use(counted, PRICES, parts)["empty"])
        cost = one.digest.cost()
        currencies |= {*cost.amounts} if cost else set()
    assert currencies == {"EUR", "USD"}


def test_each_owner_has_its_longest_idle_streaks(dry: DigestOutcome, counted: Counted) -> None:
    shares = means.shares(counted, lambda one: (one.row["owner"], one.row["program"]))
    del shares["unlisted",]
    longest: dict[object, list[int]] = defaultdict(list)
    for whose, share in shares.items():
        assert isinstance(whose, tuple)
        if share.longest_idle_ms and sum(share.gpu_ms.values()) > 0:
            longest[whose[0]].append(share.longest_idle_ms)
    for name, one in by_name(dry).items():
        assert [streak.for_ms for streak in one.digest.streaks] == sorted(longest[name], reverse=True)[:3]
        for streak in one.digest.streaks:
            program = None if streak.what == "(unknown)" else streak.what
            assert shares[name, program].longest_idle_ms == streak.for_ms
    assert longest


def idle_at_the_end(counted: Counted) -> Iterator[tuple[str | None, int, int]]:
    """Yield owner, pid and idle time of each process without a pod that is idle at its card's newest tick."""
    newest: dict[Key, Seen] = {key: ticks[-1] for key, ticks in counted.ticks.items()}
    ends: dict[Key, int] = defaultdict(int)
    for process, ticks in counted.processes.items():
        ends[process[:2]] = max(ends[process[:2]], ticks[-1].until_ms)
    for process, ticks in counted.processes.items():
        card, last = newest[process[:2]], ticks[-1]
        is_fresh = counted.until_ms - card.until_ms <= 3 * max(counted.cards[process[:2]]["interval_ms"], card.ms)
        is_there = last.until_ms == ends[process[:2]] >= card.until_ms - 1.5 * card.ms
        if is_fresh and is_there and card.state != TRULY_IDLE and last.state == IDLE and not last.row["pod_uid"]:
            yield last.row["owner"], process[2], means.episodes(ticks)[-1].ms


def test_each_owner_has_what_it_holds_at_the_end(dry: DigestOutcome, counted: Counted) -> None:
    expected: dict[object, list[tuple[str, int]]] = defaultdict(list)
    for owner, pid, idle_ms in idle_at_the_end(counted):
        expected[owner].append((f"(pid {pid})", idle_ms))
    assert sum(map(len, expected.values())) >= 1
    for name, one in by_name(dry).items():
        held = [
            (hold.what[hold.what.index("(pid") :], hold.for_ms)
            for hold in one.digest.holds
            if hold.state == "idle" and "(pid" in hold.what
        ]
        assert sorted(map(str, held)) == sorted(map(str, expected[name]))


def test_the_share_of_time_that_was_not_observed(dry: DigestOutcome, counted: Counted) -> None:
    every = means.coverage(counted).values()
    share = sum(one.unobserved_gpu_ms for one in every) / sum(one.gpu_ms for one in every)
    assert digest_run_share(dry) == pytest.approx(share, abs=1e-3)
    assert share > 0


def digest_run_share(outcome: DigestOutcome) -> float:
    from gua.app.digest import unobserved_share  # noqa: PLC0415 - for this test alone

    found = unobserved_share(outcome.report)
    assert found is not None
    return found


def test_each_namespace_has_its_allocations_by_use(store: Store, counted: Counted) -> None:
    uses = {"used": "used", "idle-held": "held", "empty": "empty", "unknown": "unknown"}
    outcome = run_of(store, policy_to(1), by=By.NAMESPACE).run(dry_run=True)
    found = by_name(outcome)
    assert {"ana", "bo"} & {*found}
    for name, one in found.items():
        parts = [
            (key, part) for key, part in means.every_part(counted) if part.source == "kubernetes" and part.owner == name
        ]
        told = means.uses(part for _, part in parts)
        spent = means.spent_by_use(counted, PRICES, parts)
        for use, theirs in uses.items():
            assert one.digest.times[use].gpu_ms == us(told.get(theirs, 0)), (name, use)
            check_cost(one.digest.times[use].cost, spent[theirs])


def test_a_team_has_what_its_members_have_by_pattern_or_group(store: Store, dry: DigestOutcome) -> None:
    outcome = run_of(store, policy_to(1), by=By.TEAM, to_admins=True).run(dry_run=True)
    team, admins = outcome.recipients
    owners = by_name(dry)
    members = {name for name in owners if name and (name == "ana" or name.startswith("b"))}
    assert set(team.digest.members) == members == {"ana", "bo"}
    for use in team.digest.times:
        assert team.digest.gpu_ms(use) == us(sum(owners[name].digest.gpu_ms(use) for name in members))
    assert team.message is not None
    others = {name for name in owners if name} - members
    assert others
    assert not any(name in team.message.text for name in others)
    assert set(outcome.unknown) == others
    assert admins.message is not None
    assert "unknown here: chen" in admins.message.text


def test_admins_have_all_owners_and_the_time_without_a_known_owner(dry: DigestOutcome) -> None:
    admins = dry.recipients[-1]
    assert admins.kind == ADMINS
    assert admins.message is not None
    for name in by_name(dry):
        assert (name or "(unknown)") in admins.message.text
    states = dry.report.headline.states
    assert admins.digest.gpu_ms("used") == us(states[ACTIVE].gpu_ms)
    assert admins.digest.gpu_ms("idle-held") == us(states[IDLE_HELD].gpu_ms)
    assert "(unknown): without a known owner, so nobody got it." in admins.message.text


def test_unknown_and_opted_out_owners_get_nothing(store: Store) -> None:
    found = by_name(run_of(store, policy_to(1, 'opt_out = ["ch*"]')).run(dry_run=True))
    assert (found[None].message, found[None].left_out) == (None, "the owner is unknown")
    assert (found["chen"].message, found["chen"].left_out) == (None, "opted out")
    assert found["ana"].message is not None


def test_nothing_is_sent_below_the_threshold(store: Store, dry: DigestOutcome) -> None:
    hours = {name: one.digest.gpu_ms() / HOUR_MS for name, one in by_name(dry).items() if name}
    least = sorted(hours.values())[1]
    text = policy_to(1).replace("least_gpu_hours = 0", f"least_gpu_hours = {least + 1e-9}")
    found = by_name(run_of(store, text).run(dry_run=True))
    for name, own in hours.items():
        assert (found[name].message is None) == (own <= least), name
    assert any(one.message for one in found.values())


@pytest.fixture
def collected(dry: DigestOutcome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs have the report of one of them, with their own windows: how it is sent does not depend on it."""

    def again(_store: Store, request: ReportRequest, *, count: object) -> Report:
        del count
        since_ms = END_MS - int((request.since or "").removesuffix("h")) * HOUR_MS
        return replace(dry.report, window=replace(dry.report.window, since_ms=since_ms))

    monkeypatch.setattr(digest_run, "collect", again)


def sent_to(mailbox: Mailbox) -> list[str]:
    return sorted(address.partition("@")[0] for address in mailbox.recipients())


@pytest.mark.usefixtures("collected")
def test_each_gets_its_own_once_for_a_window(store: Store) -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        text = policy_to(port)
        first = run_of(store, text, since="26h", to_admins=True).run(dry_run=False)
        assert not first.has_failed
        to = [name for name, one in by_name(first).items() if one.message]
        assert sent_to(mailbox) == sorted(["admin", *map(str, to)])
        again = run_of(store, text, since="25h", to_admins=True).run(dry_run=False)  # begins on the same day
        assert not again.has_failed
        assert len(mailbox.mails) == len(to) + 1
        assert {each.outcome.detail for each in again.deliveries} == {"by an earlier run, not sent again"}
        other = run_of(store, text, since="50h").run(dry_run=False)
        assert len(mailbox.mails) == 2 * len(to) + 1
        assert not other.has_failed
    for recipients, mail in mailbox.mails:
        name = recipients[0].partition("@")[0]
        content = mail.get_body(("plain",))
        assert content is not None
        own = str(content.get_content())
        assert name in {"admin", *to}
        assert not any(f" of {other}" in own for other in to if name != "admin")


@pytest.mark.usefixtures("collected")
def test_a_digest_is_no_notice(store: Store) -> None:
    with mail_server(Mailbox()) as port:
        assert not run_of(store, policy_to(port), since="225h").run(dry_run=False).has_failed
    rows = store.select(
        "SELECT kind, owner, holder, result FROM gua_public.notices WHERE rule = 'digest' AND result = 'sent'"
    )
    assert {row["kind"] for row in rows} == {"digest"}
    assert any(row["owner"] == "ana" and row["holder"].startswith("owner ana 20") for row in rows)
    of_card = {"host": HOSTS[0], "rule": "idle", "step": 1, "reminder": 1, "channel": "1 x", "result": "sent"}
    of_card |= {"cards": [{"host": HOSTS[0], "gpu": "GPU-0"}], "sent": to_rfc3339(END_MS), "since": to_rfc3339(END_MS)}
    store.insert_json("notices", [{**of_card, "kind": kind, "holder": kind} for kind in ("process", "digest")])
    read = {"since_ms": 0, "until_ms": 2**42, "use_hourly": 0}
    parameters = {name: read.get(name, []) for name in NOTICES.parameters}
    assert [row.holder for row in NOTICES.rows(store, parameters)] == ["process"]
    assert [row.holder for row in record.sent_before(store).rows] == ["process"]


class Killed(BaseException):
    """The process was killed."""


@pytest.mark.usefixtures("collected")
def test_a_killed_run_sends_nothing_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox()
    send = digest_run.channels.send

    def send_two(channel: Channel, message: Message, *, environ: Mapping[str, str]) -> SendResult:
        result = send(channel, message, environ=environ)
        if len(mailbox.mails) == 2:
            raise Killed
        return result

    with mail_server(mailbox) as port:
        text = policy_to(port)
        with monkeypatch.context() as patched:
            patched.setattr(digest_run.channels, "send", send_two)
            with pytest.raises(Killed):
                run_of(store, text, since="75h").run(dry_run=False)
        before = len(mailbox.mails)
        again = run_of(store, text, since="75h").run(dry_run=False)
    assert before == 2
    assert len(mailbox.mails) == 2
    assert again.has_failed
    assert {each.outcome.result for each in again.deliveries} == {NoticeResult.STARTED}


@pytest.mark.usefixtures("collected")
def test_a_run_killed_between_batches_goes_on_with_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    mailbox = Mailbox()
    monkeypatch.setattr(sending, "_SMALLEST_BATCH", 1)
    send = digest_run.channels.send

    def send_one(channel: Channel, message: Message, *, environ: Mapping[str, str]) -> SendResult:
        if mailbox.mails:
            raise Killed
        return send(channel, message, environ=environ)

    with mail_server(mailbox) as port:
        text = policy_to(port)
        with monkeypatch.context() as patched:
            patched.setattr(digest_run.channels, "send", send_one)
            with pytest.raises(Killed):
                run_of(store, text, since="100h").run(dry_run=False)
        again = run_of(store, text, since="100h").run(dry_run=False)
    results = [str(each.outcome.result) for each in again.deliveries]
    assert results.count("started") == 1
    assert results.count("sent") == len(results) - 1
    assert len(mailbox.mails) == len(results) - 1
    assert len({*sent_to(mailbox)}) == len(mailbox.mails)


@pytest.mark.usefixtures("collected")
def test_a_server_that_is_down_gets_it_at_the_next_run(store: Store) -> None:
    (port,) = free_ports(1)
    failed = run_of(store, policy_to(port), since="125h").run(dry_run=False)
    assert failed.has_failed
    assert {each.outcome.result for each in failed.deliveries} == {UNREACHABLE}
    mailbox = Mailbox()
    with mail_server(mailbox) as other:
        assert not run_of(store, policy_to(other), since="125h").run(dry_run=False).has_failed
    assert len(mailbox.mails) == len(failed.deliveries)


@pytest.mark.usefixtures("collected")
def test_a_refused_digest_is_sent_again_for_the_same_days_and_no_other_twice(store: Store) -> None:
    mailbox, willing = Mailbox(refused=frozenset({"bo@example.org"})), Mailbox()
    with mail_server(mailbox) as port, mail_server(willing) as other:
        runs = [run_of(store, policy_to(port), since="150h").run(dry_run=False) for _ in range(2)]
        others = [run_of(store, policy_to(other), since="150h").run(dry_run=False) for _ in range(2)]
    for outcome in runs:
        results = {each.recipient.digest.name: each.outcome.result for each in outcome.deliveries}
        assert results.pop("bo") == NoticeResult.FAILED
        assert {*results.values()} == {NoticeResult.SENT}
        assert outcome.has_failed
    assert not any(outcome.has_failed for outcome in others)
    assert Counter(sent_to(mailbox)) == dict.fromkeys(sent_to(mailbox), 1)
    assert "bo" not in sent_to(mailbox)
    assert sent_to(willing) == ["bo"]
    key = next(each.key for each in others[0].deliveries if each.recipient.digest.name == "bo")
    rows = [row for row in record.SENT.rows(store, {"since_ms": 0}) if row.holder == key]
    assert {row.result for row in rows if row.channel.endswith(f":{other}")} == {NoticeResult.SENT}


@pytest.mark.usefixtures("collected")
def test_a_refused_digest_is_sent_again_also_where_the_clock_was_set_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailbox = Mailbox(refused=frozenset({"bo@example.org"}))
    with mail_server(mailbox) as port:
        assert run_of(store, policy_to(port), since="250h").run(dry_run=False).has_failed
        mailbox._refused = frozenset()  # noqa: SLF001 - the address is there now
        monkeypatch.setattr(sending.time, "time_ns", lambda: 1_000_000_000_000_000_000)
        results = [run_of(store, policy_to(port), since="250h").run(dry_run=False).has_failed for _ in range(2)]
    assert results == [False, False]
    assert Counter(sent_to(mailbox))["bo"] == 1


@pytest.mark.usefixtures("collected")
def test_a_digest_that_may_have_arrived_is_not_sent_again(store: Store) -> None:
    mailbox = Mailbox(drops_after_data=True)
    with mail_server(mailbox) as port:
        first = run_of(store, policy_to(port), since="275h").run(dry_run=False)
        count = len(mailbox.mails)
        again = run_of(store, policy_to(port), since="275h").run(dry_run=False)
    assert count == len(first.deliveries) == len(mailbox.mails)
    for outcome in (first, again):
        assert {each.outcome.result for each in outcome.deliveries} == {NoticeResult.STARTED}
        assert outcome.has_failed


@pytest.mark.usefixtures("collected")
def test_without_an_address_it_fails_is_not_recorded_and_is_sent_once_there_is_one(store: Store) -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        text = policy_to(port)
        failed = run_of(store, text, since="175h", addresses=False).run(dry_run=False)
        assert {each.outcome.detail for each in failed.deliveries} == {"the policy has no [addresses]"}
        assert mailbox.mails == []
        assert not run_of(store, text, since="175h").run(dry_run=False).has_failed
    assert len(mailbox.mails) == len(failed.deliveries)


@pytest.mark.usefixtures("collected")
def test_a_hostile_owner_gets_no_mail_and_stops_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch, dry: DigestOutcome
) -> None:
    digest: Digest = by_name(dry)["ana"].digest
    names = ["a&to=root", "a,root", "a\r\nBcc: root@example.org", "bo"]
    text = Message(subject="x", text="x")
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        run = run_of(store, policy_to(port), since="200h")
        to = run.digests.to
        every = [Recipient(kind="owner", digest=replace(digest, name=name), message=text, to=to) for name in names]
        monkeypatch.setattr(DigestRun, "_recipients", lambda *_: iter(every))
        outcome = run.run(dry_run=False)
    assert [str(each.outcome.result) for each in outcome.deliveries] == ["failed", "failed", "failed", "sent"]
    assert sent_to(mailbox) == ["bo"]
