"""Messages of digests, of a report made by hand with hostile names, several currencies and every section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fakes.reports import GIB, HOSTILE, LONG, SCRIPT, having, lacking, week_report
from gua.app.digest import By, Digest, Digester, message_of, message_of_several
from gua.core.plaintext import safe
from gua.core.words import Use
from gua.notices.messages import MOST_ROWS, Message
from gua.report.costs import Cost
from gua.report.model import Report
from gua.report.sections.allocation import AllocatedHours
from gua.report.sections.now_rows import Now
from gua.report.sections.right_size import ProgramOnCard, RightSize
from gua.report.sections.usage import Usage
from gua.report.states import ACTIVE, IDLE_HELD, UNKNOWN

LAST = ("Sent by gua.",)
MOST_LINES = 25


class Tags(HTMLParser):
    """The elements of an HTML text; attributes count as such."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


@pytest.fixture(scope="module")
def report() -> Report:
    """Return a week in which the first owner pays in two currencies, and whose allocations are partly Kubernetes'."""
    made = week_report()
    usage = made[Usage]
    first = usage.owners[0]
    both = {state: Cost(amounts={"EUR": 12.5, "USD": 3.25}, unpriced_gpu_ms=3_600_000) for state in first.states}
    return having(made, replace(usage, owners=(replace(first, costs=both), *usage.owners[1:])))


@pytest.fixture(scope="module")
def digester(report: Report) -> Digester:
    return Digester(report, By.OWNER)


def message(report: Report, digester: Digester, name: str | None) -> Message:
    return message_of(digester.digest(name, [name]), "Your GPUs", report, LAST)


def whole(made: Message) -> str:
    assert made.html is not None
    return f"{made.subject}\n---\n{made.text}---\n{made.html}"


def team(report: Report, digester: Digester, names: list[str | None]) -> Message:
    digest = digester.digest("vision", names, is_team=True)
    each = [digester.digest(name, [name]) for name in names]
    return message_of_several(digest, "GPUs of team vision", report, LAST, each=each)


def test_a_digest_of_an_owner_is_the_one_kept(
    report: Report, digester: Digester, golden: Callable[[str, str], None]
) -> None:
    golden("digest/owner.txt", whole(message(report, digester, report[Usage].owners[0].owner)))


def test_a_digest_of_a_hostile_owner_is_the_one_kept(
    report: Report, digester: Digester, golden: Callable[[str, str], None]
) -> None:
    golden("digest/hostile.txt", whole(message(report, digester, SCRIPT)))


def test_a_digest_of_a_team_is_the_one_kept(
    report: Report, digester: Digester, golden: Callable[[str, str], None]
) -> None:
    names = [name for name in digester.names() if name is not None and name.isalnum()]
    golden("digest/team.txt", whole(team(report, digester, list(names))))


def test_the_whole_list_is_the_one_kept(report: Report, digester: Digester, golden: Callable[[str, str], None]) -> None:
    names = digester.names()
    each = [digester.digest(name, [name]) for name in names]
    digest = digester.digest(None, names, is_team=True)
    made = message_of_several(digest, "GPUs of all owners", report, LAST, each=each, most=MOST_ROWS)
    golden("digest/admins.txt", whole(made))


def test_no_message_has_the_name_of_another_owner(report: Report, digester: Digester) -> None:
    """Programs of an owner are named as others are here, so the names are looked for in the others' whole digests."""
    names = [name for name in digester.names() if name is not None]
    assert len(names) > 8
    for name in names:
        own = digester.digest(name, [name])
        mine = {
            safe(text) for text in (name, *(one.program or "" for one in report[Usage].owners if one.owner == name))
        }
        text = whole(message(report, digester, name))
        assert {one.owner for one in (*own.streaks, *own.holds)} <= {name}
        for other in names:
            if safe(other) not in mine:
                assert safe(other, 30) not in text, (name, other)


def test_a_team_sees_its_members_only(report: Report, digester: Digester) -> None:
    names = [name for name in digester.names() if name is not None and name.isalnum()]
    members, others = names[::2], names[1::2]
    assert members
    assert others
    text = whole(team(report, digester, list(members)))
    assert all(f" {name} " in f" {text} ".replace("\n", " ") for name in members)
    assert not any(f" {name} " in f" {text} ".replace("\n", " ") for name in others)


def test_hostile_names_add_no_element_line_or_control_character(report: Report, digester: Digester) -> None:
    names = digester.names()
    assert set(HOSTILE) & {*names}
    for made in (*(message(report, digester, name) for name in names), team(report, digester, names)):
        assert made.html is not None
        assert made.subject.isprintable()
        assert len(made.subject) <= 120
        lines = made.text.splitlines()
        assert len(lines) <= MOST_LINES
        assert all(line.isprintable() for line in lines)
        assert Tags(made.html).found <= {"p", "b", "table", "cellpadding", "tr", "th", "td"}
        assert LONG[:200] not in made.text


def test_more_owners_than_rows_are_one_row_and_add_up(report: Report, digester: Digester) -> None:
    one = digester.digest("frank", ["frank"])
    each = [replace(one, name=f"user{number}") for number in range(40)]
    times = {use: replace(time, gpu_ms=40 * time.gpu_ms) for use, time in one.times.items()}
    digest = replace(one, name="many", times=times)
    made = message_of_several(digest, "GPUs of team many", report, LAST, each=each)
    assert len(made.text.splitlines()) <= MOST_LINES
    table = [line.split() for line in made.text.split("\n\n")[1].splitlines()]
    (rest,) = [row for row in table if row[1] == "more"]
    assert rest[0] == "30"
    used = [float(row[1].replace(",", "")) for row in table[1:11]]
    assert sum(used) + float(rest[2].replace(",", "")) == pytest.approx(float(table[-1][1].replace(",", "")))


def test_each_currency_has_its_own_column_and_missing_prices_are_reported(report: Report, digester: Digester) -> None:
    text = message(report, digester, report[Usage].owners[0].owner).text
    assert text.count("12.50") == text.count("3.25") == 3  # used, idle-held and unknown
    header = next(line for line in text.splitlines() if line.startswith("GPU time"))
    assert header.split() == ["GPU", "time", "GPU-hours", "EUR", "USD"]
    assert "have no price" in text


def test_an_owner_sees_no_currency_of_others(report: Report, digester: Digester) -> None:
    digests = {name: digester.digest(name, [name]) for name in digester.names()}
    assert any(
        "USD" not in (digest.cost() or Cost(amounts={}, unpriced_gpu_ms=0)).amounts for digest in digests.values()
    )
    for name, digest in digests.items():
        cost = digest.cost()
        for currency in ("EUR", "USD"):
            if cost is None or currency not in cost.amounts:
                header = message(report, digester, name).text.splitlines()[2]
                assert currency not in header


def test_all_digests_together_have_all_time_of_the_report(report: Report, digester: Digester) -> None:
    every = [digester.digest(name, [name]) for name in digester.names()]
    states = report.headline.states
    for use, state in (("used", ACTIVE), ("idle-held", IDLE_HELD), ("unknown", UNKNOWN)):
        assert sum(digest.gpu_ms(use) for digest in every) == pytest.approx(states[state].gpu_ms)


def test_allocations_of_a_namespace_are_in_no_digest_of_a_user(report: Report) -> None:
    """A namespace may have the name of a user who has nothing to do with it."""
    hours = report[AllocatedHours]
    mine = hours.owners[0]
    theirs = replace(mine, source="kubernetes", owner="frank")
    now = report[Now]
    card = next(one for one in now.allocations if one.use == Use.EMPTY)
    empty = replace(card, source="kubernetes", owner="frank", job_name="theirs", in_use_ms=10**9)
    made = having(report, replace(hours, owners=(*hours.owners, theirs)), replace(now, allocations=(empty,)))
    before = Digester(report, By.OWNER).digest("frank", ["frank"])
    digest = Digester(made, By.OWNER).digest("frank", ["frank"])
    assert digest.times == before.times
    assert not [one for one in digest.holds if one.what == "theirs"]
    namespace = Digester(made, By.NAMESPACE).digest("frank", ["frank"])
    assert namespace.gpu_ms("empty") == theirs.uses[Use.EMPTY]
    assert namespace.gpu_ms("used") == theirs.uses[Use.USED]
    assert namespace.gpu_ms("idle-held") == theirs.uses[Use.HELD]
    assert [one.what for one in namespace.holds] == ["theirs"]
    assert (namespace.streaks, namespace.suggestion) == ((), None)


def test_a_process_in_a_pod_is_held_by_no_user_of_the_same_name(report: Report) -> None:
    now = report[Now]
    holder = replace(now.holders[0], owner="frank", pid=77, program="mine", pod_uid=None)
    in_pod = replace(holder, pid=78, program="in-a-pod", pod_uid="1-2-3")
    made = having(report, replace(now, holders=(holder, in_pod), others=()))
    held = [one.what for one in Digester(made, By.OWNER).digest("frank", ["frank"]).holds]
    assert [what for what in held if "pid" in what] == ["mine (pid 77)"]


def workload(report: Report, **changes: object) -> ProgramOnCard:
    one = replace(report[RightSize].workloads[0], owner="frank", program="train.py", job=None, is_instance=False)
    fits = {"fits_half": False, "fits_slice": False, "slice": None, "fits_smaller": False, "smaller_model": None}
    return replace(
        one, model="NVIDIA A100", peak_bytes=8 * GIB, usable_bytes=80 * GIB, gpu_ms=7_200_000, **fits | changes
    )  # type: ignore[arg-type]


def suggestion(report: Report, *workloads: ProgramOnCard) -> str | None:
    made = having(report, replace(report[RightSize], workloads=workloads))
    return Digester(made, By.OWNER).digest("frank", ["frank"]).suggestion


@pytest.mark.parametrize(
    ("changes", "less"),
    [
        ({"fits_slice": True, "slice": "1/8", "fits_half": True}, "a MIG slice of 1/8 of the GPU"),
        ({"fits_half": True}, "half of its memory"),
        ({"fits_smaller": True, "smaller_model": "NVIDIA T4"}, "a T4"),
    ],
)
def test_a_program_that_fits_less_is_the_suggestion(report: Report, changes: dict[str, object], less: str) -> None:
    had = "train.py had at most 8.0 of 80.0 GiB at the ticks of 2.0 GPU-hours on A100"
    assert suggestion(report, workload(report, **changes)) == f"{had}: {less} would have been enough memory"


def test_a_program_is_no_suggestion_if_one_of_its_runs_does_not_fit_or_is_unknown(report: Report) -> None:
    fits = workload(report, fits_half=True)
    for other in (False, None):
        assert "enough memory" not in (suggestion(report, fits, workload(report, fits_half=other)) or "")
    assert "enough memory" not in (suggestion(report, replace(fits, owner="grace")) or "")


def test_without_a_program_that_fits_less_it_is_what_an_idle_limit_gives_back(report: Report) -> None:
    usage = report[Usage]
    (mine,) = [one for one in usage.owners if one.owner == "frank"]

    def said(longest_idle_ms: int) -> str | None:
        one = replace(mine, longest_idle_ms=longest_idle_ms)
        made = having(lacking(report, RightSize), replace(usage, owners=(one,)))
        return Digester(made, By.OWNER).digest("frank", ["frank"]).suggestion

    assert said(5 * 3_600_000) == "if it ends after 1 h without use, train.py frees its part of a GPU 4 h earlier"
    assert said(3_600_000) is None


def test_the_basis_has_window_thresholds_and_the_time_not_observed(report: Report, digester: Digester) -> None:
    text = message(report, digester, "frank").text
    coverage = report.coverage
    share = coverage.unobserved_gpu_ms / coverage.expected_gpu_ms * 100
    assert "Basis: 2026-03-23 00:00 to 2026-03-30 00:00 Europe/Berlin (7 days)" in text
    assert "Used: utilization of 5 % or more" in text
    assert "100 MiB" in text
    assert f"Not observed, so counted nowhere: {share:.1f} % of the time of all cards." in text


def test_an_empty_digest_has_a_message(report: Report, digester: Digester) -> None:
    digest: Digest = digester.digest("nobody", ["nobody"])
    assert digest.gpu_ms() == 0
    assert "0.000 GPU-hours used" in message_of(digest, "Your GPUs", report, LAST).text
