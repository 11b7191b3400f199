"""Which rule concerns a holder: conditions, exceptions, holds, quiet times, and what is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gua.notices.held import Held, HeldCard, HeldState, HolderKind
from gua.notices.matching import Facts, Match, MatchOutcome, first_rule
from gua.notices.policy import parse_policy

HOUR_MS = 3_600_000
GIB = 2**30
AT_MS = int(datetime(2026, 11, 25, 12, tzinfo=UTC).timestamp() * 1000)
CARD = HeldCard(host="gpu-1", gpu="GPU-a", index=0, name="NVIDIA H100", memory_bytes=2 * GIB)
HELD = Held(
    state=HeldState.IDLE_HELD,
    kind=HolderKind.PROCESS,
    key="gpu-1/42/1",
    cards=(CARD,),
    owner="alice",
    since_ms=AT_MS - 3 * HOUR_MS,
    idle_ms=3 * HOUR_MS,
    last_ms=AT_MS,
    program="python",
    workload="Python",
    pid=42,
    job="4711",
    pod="team-a/notebook-0",
    namespace="team-a",
    host_labels={"team": "vision"},
)
NO_PROCESS = replace(HELD, state=HeldState.NO_PROCESS, owner=None, program=None, workload=None, pid=None)
TWO_CARDS = (CARD, replace(CARD, host="gpu-2", gpu="GPU-b", index=1, name="NVIDIA A100"))


@dataclass
class KnownFacts:
    of_owners: Mapping[str, frozenset[str]] = field(default_factory=lambda: {"alice": frozenset({"alice", "vision"})})
    of_jobs: Mapping[tuple[str, str], str] = field(
        default_factory=lambda: {("4711", "partitions"): "gpu", ("4711", "accounts"): "lab", ("4711", "qos"): "normal"}
    )
    queries: list[str] = field(default_factory=list)

    def groups(self, owner: str) -> frozenset[str] | None:
        self.queries.append(owner)
        return self.of_owners.get(owner)

    def of_job(self, job: str, key: str) -> str | None:
        self.queries.append(f"{job} {key}")
        return self.of_jobs.get((job, key))


NOTHING = KnownFacts({}, {})


def rule(lines: str = "", *, name: str = "idle", after: str = "2h", state: str = "idle-held") -> str:
    return f'[[rule]]\nname = "{name}"\nstate = "{state}"\nafter = "{after}"\n{lines}\n'


def match(text: str, held: Held = HELD, facts: Facts | None = None, at_ms: int = AT_MS) -> Match:
    found = first_rule(parse_policy(text, Path("policy.toml")), held, facts or KnownFacts(), at_ms)
    assert found is not None
    return found


def outcome(text: str, held: Held = HELD, facts: Facts | None = None) -> MatchOutcome | None:
    found = first_rule(parse_policy(text, Path("policy.toml")), held, facts or KnownFacts(), AT_MS)
    return found and found.outcome


def test_the_first_matching_rule_wins() -> None:
    text = rule('owners = ["bob"]', name="bob") + rule(name="first") + rule(name="second", after="1h")
    assert match(text).rule.name == "first"


def test_a_rule_concerns_its_states_from_its_idle_time_on() -> None:
    assert outcome(rule(after="3h")) is MatchOutcome.MATCHED
    assert outcome(rule(after="10801s")) is None
    assert outcome(rule(state="empty")) is None
    assert match(rule(after="4h", name="later") + rule(name="now")).rule.name == "now"
    assert outcome("") is None


@pytest.mark.parametrize(
    ("key", "yes", "no"),
    [
        ("hosts", "gpu-*", "GPU-*"),
        ("models", "*H100", "H100"),
        ("owners", "ali[a-c]e", "alic"),
        ("groups", "vis*", "audio"),
        ("namespaces", "team-?", "team"),
        ("partitions", "gpu", "cpu"),
        ("accounts", "l*", "m*"),
        ("qos", "normal", "high"),
        ("workloads", "Python", "python"),
        ("programs", "python", "python3"),
    ],
)
def test_all_patterns_are_compared_with_case(key: str, yes: str, no: str) -> None:
    assert outcome(rule(f'{key} = ["{no}", "{yes}"]')) is MatchOutcome.MATCHED
    assert outcome(rule(f'{key} = ["{no}"]')) is None
    if key != "models":
        exempt = match(rule(f'except_{key} = ["{no}", "{yes}"]'))
        assert (exempt.outcome, exempt.reason) == (MatchOutcome.EXEMPT, f"except_{key}")
        assert outcome(rule(f'except_{key} = ["{no}"]')) is MatchOutcome.MATCHED


def test_all_labels_of_a_rule_must_match() -> None:
    assert outcome(rule('labels = { team = ["audio", "vis*"] }')) is MatchOutcome.MATCHED
    assert outcome(rule('labels = { team = "vision", room = "*" }')) is None


def test_conditions_must_match_all_cards_and_an_exception_only_one() -> None:
    held = replace(HELD, cards=TWO_CARDS)
    assert outcome(rule('hosts = ["gpu-1", "gpu-2"]'), held) is MatchOutcome.MATCHED
    assert outcome(rule('hosts = ["gpu-1"]'), held) is None
    assert outcome(rule('models = ["*H100"]'), held) is None
    assert outcome(rule('except_hosts = ["gpu-2"]'), held) is MatchOutcome.EXEMPT


def test_the_memory_of_all_cards_counts() -> None:
    assert outcome(rule('min_memory = "2GiB"')) is MatchOutcome.MATCHED
    assert outcome(rule('min_memory = "2.1GiB"')) is None
    assert outcome(rule('min_memory = "4GiB"'), replace(HELD, cards=TWO_CARDS)) is MatchOutcome.MATCHED
    unknown = replace(HELD, cards=(CARD, replace(CARD, memory_bytes=None)))
    assert outcome(rule('min_memory = "1MiB"'), unknown) is MatchOutcome.UNKNOWN


def test_an_allocation_without_a_process_needs_no_memory() -> None:
    held = replace(HELD, state=HeldState.EMPTY, cards=(replace(CARD, memory_bytes=None),))
    assert outcome(rule('min_memory = "1GiB"', state="empty"), held) is MatchOutcome.MATCHED


def test_an_exempt_holder_of_one_rule_may_be_concerned_by_the_next() -> None:
    text = rule('except_groups = ["vision"]', name="all") + rule(name="vision", after="3h")
    assert match(text).rule.name == "vision"
    assert match(rule('except_groups = ["vision"]', name="all")).reason == "except_groups"


def test_an_exempt_owner_is_exempt_from_all_rules() -> None:
    found = match('exempt_owners = ["ali*"]\n' + rule() + rule('partitions = ["x"]', name="two"), facts=NOTHING)
    assert (found.outcome, found.reason, found.rule.name) == (MatchOutcome.EXEMPT, "exempt_owners", "idle")
    assert outcome('exempt_owners = ["ali*"]\n' + rule(after="4h")) is None


@pytest.mark.parametrize(
    ("lines", "held", "key"),
    [
        ('owners = ["*"]', replace(HELD, owner=None), "owners"),
        ('except_owners = ["svc"]', replace(HELD, owner=None), "except_owners"),
        ('models = ["*"]', replace(HELD, cards=(replace(CARD, name=None),)), "models"),
        ('programs = ["*"]', replace(HELD, program=None), "programs"),
        ('except_workloads = ["service"]', replace(HELD, workload=None), "except_workloads"),
        ('namespaces = ["*"]', replace(HELD, namespace=None), "namespaces"),
        ('groups = ["*"]', HELD, "groups"),
        ('groups = ["*"]', replace(HELD, owner=None), "groups"),
        ('except_groups = ["x"]', HELD, "except_groups"),
        ('partitions = ["*"]', HELD, "partitions"),
        ('except_accounts = ["x"]', HELD, "except_accounts"),
        ('qos = ["*"]', HELD, "qos"),
    ],
)
def test_an_unknown_value_ends_the_search_without_a_notice(lines: str, held: Held, key: str) -> None:
    found = match(rule(lines) + rule(name="everybody"), held, NOTHING)
    assert (found.outcome, found.rule.name) == (MatchOutcome.UNKNOWN, "idle")
    assert found.reason == f"a value that {key} needs is unknown"


def test_an_unknown_owner_may_be_an_exempt_one() -> None:
    found = match('exempt_owners = ["root"]\n' + rule(), replace(HELD, owner=None))
    assert (found.outcome, found.reason) == (MatchOutcome.UNKNOWN, "a value that exempt_owners needs is unknown")


def test_an_unknown_value_does_not_matter_if_another_condition_excludes_the_holder() -> None:
    text = rule('partitions = ["gpu"]\nprograms = ["vllm"]') + rule(name="everybody")
    assert match(text, facts=NOTHING).rule.name == "everybody"
    assert match(rule('models = ["x"]\nowners = ["bob"]') + rule(name="e"), replace(HELD, owner=None)).rule.name == "e"
    two = replace(HELD, cards=(replace(CARD, name=None), CARD))
    assert outcome(rule('models = ["*A100"]'), two) is None


def test_an_exception_that_is_certain_wins_over_an_unknown_one() -> None:
    text = rule('except_groups = ["x"]\nexcept_programs = ["python"]\npartitions = ["gpu"]')
    assert outcome(text, facts=NOTHING) is MatchOutcome.EXEMPT


def test_a_field_that_a_holder_cannot_have_matches_except_rules_only() -> None:
    bare = replace(HELD, job=None, pod=None, namespace=None)
    for key in ("partitions", "accounts", "qos", "namespaces"):
        assert outcome(rule(f'{key} = ["*"]'), bare, NOTHING) is None
        assert outcome(rule(f'except_{key} = ["*"]'), bare, NOTHING) is MatchOutcome.MATCHED
    for key in ("owners", "groups", "programs", "workloads"):
        state = "no-process"
        assert outcome(rule(f'{key} = ["*"]', state=state), NO_PROCESS, NOTHING) is None
        assert outcome(rule(f'except_{key} = ["a"]', state=state), NO_PROCESS, NOTHING) is MatchOutcome.MATCHED


def test_an_empty_allocation_of_an_unknown_owner_is_not_decidable() -> None:
    held = replace(HELD, state=HeldState.EMPTY, owner=None, program=None)
    assert outcome(rule('except_owners = ["a"]', state="empty"), held) is MatchOutcome.UNKNOWN
    assert outcome(rule('except_programs = ["a"]', state="empty"), held) is MatchOutcome.MATCHED


def test_a_namespace_that_is_an_owner_has_no_groups_of_a_user() -> None:
    held = replace(HELD, owner="alice", namespace="alice")
    assert outcome(rule('groups = ["vision"]'), held) is MatchOutcome.UNKNOWN


def test_facts_are_queried_only_if_they_decide() -> None:
    facts = KnownFacts()
    for text in (rule('groups = ["x"]', after="4h"), rule('groups = ["x"]\nprograms = ["x"]'), rule("except_qos = []")):
        outcome(text, facts=facts)
    assert facts.queries == []


def hold(selectors: str, until: str = "2026-11-25") -> str:
    return f'[[hold]]\n{selectors}\nuntil = "{until}"\nreason = "a paper"\n'


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ('owner = "alice"', MatchOutcome.HOLD),
        ('owner = "al*"', MatchOutcome.HOLD),
        ('owner = "bob"', MatchOutcome.MATCHED),
        ('host = "gpu-1"', MatchOutcome.HOLD),
        ('host = "gpu-2"', MatchOutcome.HOLD),
        ('host = "gpu-3"', MatchOutcome.MATCHED),
        ('gpu = "GPU-b"', MatchOutcome.HOLD),
        ('gpu = "1"', MatchOutcome.HOLD),
        ('gpu = "2"', MatchOutcome.MATCHED),
        ('host = "gpu-1"\ngpu = "0"', MatchOutcome.HOLD),
        ('host = "gpu-1"\ngpu = "1"', MatchOutcome.MATCHED),
        ('job = "4711"', MatchOutcome.HOLD),
        ('job = "471"', MatchOutcome.MATCHED),
        ('pod = "team-a/*"', MatchOutcome.HOLD),
        ('pod = "team-b/*"', MatchOutcome.MATCHED),
        ('owner = "alice"\njob = "1"', MatchOutcome.MATCHED),
    ],
)
def test_a_hold_concerns_holders_that_all_its_selectors_match(selectors: str, expected: MatchOutcome) -> None:
    held = replace(HELD, cards=TWO_CARDS)
    assert outcome(hold(selectors) + rule(), held) is expected
    assert outcome(rule(hold(selectors).replace("[[hold]]", "[[rule.hold]]")), held) is expected


def test_a_hold_ends_at_its_end_and_has_its_reason() -> None:
    text = hold('owner = "alice"') + rule() + rule(name="second")
    end_ms = int(datetime(2026, 11, 26, tzinfo=UTC).timestamp() * 1000)
    found = match(text, at_ms=end_ms - 1)
    assert (found.outcome, found.reason) == (MatchOutcome.HOLD, "until 2026-11-26T00:00:00Z: a paper")
    assert match(text, at_ms=end_ms).outcome is MatchOutcome.MATCHED


def test_a_hold_of_a_rule_concerns_only_that_rule_and_ends_the_search() -> None:
    held_by_first = rule(hold('owner = "alice"').replace("[[hold]]", "[[rule.hold]]"), name="first")
    assert match(held_by_first + rule(name="second")).rule.name == "first"
    assert match(held_by_first + rule(name="second")).outcome is MatchOutcome.HOLD
    assert match(rule('owners = ["alice"]', name="own") + held_by_first).rule.name == "own"


def test_a_hold_of_an_unknown_owner_or_pod_is_not_decidable() -> None:
    text = hold('owner = "bob"') + rule()
    assert outcome(text, replace(HELD, owner=None)) is MatchOutcome.UNKNOWN
    assert outcome(hold('owner = "bob"\njob = "1"') + rule(), replace(HELD, owner=None)) is MatchOutcome.MATCHED
    by_uid = replace(HELD, pod="2c1f9c1e-uid", namespace=None)
    assert outcome(hold('pod = "team-a/x"') + rule(), by_uid) is MatchOutcome.UNKNOWN
    assert outcome(hold('pod = "2c1f9c1e-uid"') + rule(), by_uid) is MatchOutcome.HOLD
    assert outcome(hold('pod = "*"') + rule(), replace(HELD, pod=None, namespace=None)) is MatchOutcome.MATCHED


def quiet_at(quiet: str, local: datetime) -> bool:
    found = match(f'zone = "Europe/Berlin"\n{rule(f"quiet = [{quiet}]")}', at_ms=int(local.timestamp() * 1000))
    assert found.outcome in {MatchOutcome.QUIET, MatchOutcome.MATCHED}
    assert found.rule.name == "idle"
    return found.outcome is MatchOutcome.QUIET


BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = '{ days = ["mon-fri"], from = "22:00", until = "07:00" }'


@pytest.mark.parametrize(
    ("quiet", "local", "is_quiet"),
    [
        (NIGHT, datetime(2026, 11, 27, 21, 59, 59, tzinfo=BERLIN), False),  # a Friday
        (NIGHT, datetime(2026, 11, 27, 22, 0, tzinfo=BERLIN), True),
        (NIGHT, datetime(2026, 11, 28, 6, 59, 59, tzinfo=BERLIN), True),
        (NIGHT, datetime(2026, 11, 28, 7, 0, tzinfo=BERLIN), False),
        (NIGHT, datetime(2026, 11, 28, 23, 0, tzinfo=BERLIN), False),
        (NIGHT, datetime(2026, 11, 30, 6, 0, tzinfo=BERLIN), False),  # Monday: the night of Sunday
        (NIGHT, datetime(2026, 12, 1, 6, 0, tzinfo=BERLIN), True),
        ('{ from = "12:00", until = "13:00" }', datetime(2026, 11, 28, 12, 59, tzinfo=BERLIN), True),
        ('{ from = "12:00", until = "13:00" }', datetime(2026, 11, 28, 13, 0, tzinfo=BERLIN), False),
        ('{ from = "12:00", until = "24:00" }', datetime(2026, 11, 28, 23, 59, tzinfo=BERLIN), True),
        ('{ from = "12:00", until = "24:00" }', datetime(2026, 11, 28, 0, 0, tzinfo=BERLIN), False),
        ('{ from = "12:00", until = "00:00" }', datetime(2026, 11, 28, 0, 0, tzinfo=BERLIN), False),
        ('{ days = ["sat"] }', datetime(2026, 11, 28, 0, 0, tzinfo=BERLIN), True),
        ('{ days = ["sat"] }', datetime(2026, 11, 29, 0, 0, tzinfo=BERLIN), False),
        ('{ dates = ["2026-12-24"] }', datetime(2026, 12, 24, 0, 0, tzinfo=BERLIN), True),
        ('{ dates = ["2026-12-24"] }', datetime(2026, 12, 23, 23, 59, tzinfo=BERLIN), False),
        ('{ dates = ["2026-12-24/2027-01-02"] }', datetime(2027, 1, 2, 23, 59, tzinfo=BERLIN), True),
        ('{ dates = ["2026-12-24/2027-01-02"] }', datetime(2027, 1, 3, 0, 0, tzinfo=BERLIN), False),
        ('{ dates = ["2026-12-24"], from = "18:00", until = "10:00" }', datetime(2026, 12, 25, 9, tzinfo=BERLIN), True),
        (
            '{ dates = ["2026-12-24"], from = "18:00", until = "10:00" }',
            datetime(2026, 12, 24, 9, tzinfo=BERLIN),
            False,
        ),
        # Clocks go from 02:00 to 03:00 on 29 March, and from 03:00 to 02:00 on 25 October 2026.
        ('{ from = "01:30", until = "02:30" }', datetime(2026, 3, 29, 0, 59, tzinfo=UTC), True),
        ('{ from = "01:30", until = "02:30" }', datetime(2026, 3, 29, 1, 0, tzinfo=UTC), False),
        ('{ from = "02:30", until = "04:00" }', datetime(2026, 3, 29, 0, 59, tzinfo=UTC), False),
        ('{ from = "02:30", until = "04:00" }', datetime(2026, 3, 29, 1, 0, tzinfo=UTC), True),
        ('{ from = "02:30", until = "04:00" }', datetime(2026, 3, 29, 2, 0, tzinfo=UTC), False),
        ('{ from = "01:00", until = "02:30" }', datetime(2026, 10, 25, 0, 29, tzinfo=UTC), True),
        ('{ from = "01:00", until = "02:30" }', datetime(2026, 10, 25, 0, 30, tzinfo=UTC), False),
        ('{ from = "01:00", until = "02:30" }', datetime(2026, 10, 25, 1, 29, tzinfo=UTC), True),
        (NIGHT, datetime(2026, 10, 23, 20, 0, tzinfo=UTC), True),
        (NIGHT, datetime(2026, 10, 26, 20, 59, tzinfo=UTC), False),
        (NIGHT, datetime(2026, 10, 26, 21, 0, tzinfo=UTC), True),
    ],
)
def test_quiet_times_are_those_of_the_policys_clock(quiet: str, local: datetime, is_quiet: bool) -> None:  # noqa: FBT001
    assert quiet_at(quiet, local) is is_quiet


def test_a_quiet_rule_ends_the_search() -> None:
    found = match(rule('quiet = [{ days = ["wed"] }]', name="quiet") + rule(name="loud"))
    assert (found.outcome, found.rule.name) == (MatchOutcome.QUIET, "quiet")


def test_hostile_names_are_compared_and_never_shown() -> None:
    held = replace(HELD, owner="a\nb\x1b[2J" + "*" * 10_000, program="[")
    assert outcome(rule('owners = ["a*"]'), held) is MatchOutcome.MATCHED
    found = match(hold('owner = "a*"') + rule(), held)
    assert found.reason.isprintable()
    assert len(found.reason) < 200
