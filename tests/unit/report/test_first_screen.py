"""The first screen: what it says in every situation, in how many lines, with the numbers of the sections."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fakes.reports import (
    HOUR_MS,
    MINUTE_MS,
    UNTIL_MS,
    empty_report,
    fleet_report,
    having,
    lacking,
    render_json,
    week_report,
)
from gua.core.plaintext import cells
from gua.report.forms.first_screen import SECTIONS, Steps
from gua.report.forms.first_screen.screen import render_first_screen
from gua.report.forms.html import render_html
from gua.report.kit.basis import at
from gua.report.kit.style import Style
from gua.report.model import Headline, IdleSeconds, MostIdle, Report, UnknownReason, Window, WithoutProcess
from gua.report.sections.card_streaks import IdleSplit, StuckCard
from gua.report.sections.groups import Groupings
from gua.report.sections.now_rows import Now
from gua.report.sections.usage import Usage
from gua.report.states import STATES, StateTime

Golden = Callable[[str, str], None]


@pytest.fixture(scope="module")
def week() -> Report:
    return _screen(week_report(has_source=False))


@pytest.fixture(scope="module")
def fleet() -> Report:
    return _screen(fleet_report(hosts=8, cards_a_host=8, days=7))


def _screen(report: Report) -> Report:
    report = having(report, replace(report[Usage], usage_by=()))
    return replace(report, sections=SECTIONS)


def drawn(report: Report, width: int = 80, *, brief: bool = False, **style: bool) -> str:
    return render_first_screen(report, Style(width=width, **style), Steps(), brief=brief)


def flat(report: Report, width: int = 80, *, brief: bool = False) -> str:
    return " ".join(drawn(report, width, brief=brief).split())


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_screen_of_a_week_is_the_golden_one(week: Report, golden: Golden, width: int) -> None:
    golden(f"screen-{width}.txt", drawn(week, width))


def test_brief_plain_and_coloured_ones_are_the_golden_ones(week: Report, golden: Golden) -> None:
    golden("screen-brief.txt", drawn(week, brief=True))
    golden("screen-colour.txt", drawn(week, colour=True))
    text = drawn(week, unicode=False)
    assert text.isascii()
    golden("screen-ascii.txt", text)


def test_the_screen_of_a_fleet_is_the_golden_one(fleet: Report, golden: Golden) -> None:
    golden("screen-fleet.txt", drawn(fleet))
    golden("screen-fleet-brief.txt", drawn(fleet, brief=True))


@pytest.mark.parametrize("hosts", [1, 2, 8, 40])
def test_it_is_one_screen_however_many_cards_there_are(hosts: int) -> None:
    report = _screen(fleet_report(hosts=hosts, cards_a_host=8, days=1))
    assert len(drawn(report).splitlines()) <= 50
    assert len(drawn(report, brief=True).splitlines()) <= 24


@pytest.mark.parametrize("has_source", [False, True])
def test_the_first_screen_fits_one_screen_however_much_it_has_to_show(*, has_source: bool) -> None:
    report = _screen(week_report(has_source=has_source))
    for width in (80, 100):
        assert len(drawn(report, width).splitlines()) <= 50
        assert len(drawn(report, width, brief=True).splitlines()) <= 24


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [*range(20, 60, 5), *range(60, 141, 9), 80])
def test_no_line_is_wider_than_the_requested_width(week: Report, fleet: Report, width: int, *, unicode: bool) -> None:
    far = replace(week, window=replace(week.window, timezone="America/Argentina/ComodRivadavia"))
    for report in (week, fleet, empty_report(), far):
        lines = drawn(report, width, unicode=unicode).splitlines()
        assert [line for line in lines if cells(line) > width] == []


def test_the_shortest_and_longest_of_many_intervals_are_shown(week: Report) -> None:
    extent = week.extents[0]
    every = [replace(extent, host=f"node-{ms}", interval_ms=ms) for ms in (1_000, 30_000, 60_000, 600_000)]
    assert "one every 1s to 10m;" in flat(replace(week, extents=tuple(every)))
    assert "one every 1s or 30s or 1m;" in flat(replace(week, extents=tuple(every[:3])))


def test_colour_changes_no_letter(week: Report) -> None:
    assert re.sub(r"\x1b\[[0-9;]*m", "", drawn(week, colour=True)) == drawn(week)


def test_hostile_names_reach_no_terminal(week: Report) -> None:
    text = drawn(week)
    assert not {character for character in text if ord(character) < 32 or 127 <= ord(character) < 160} - {"\n"}
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200f")


def test_its_parts_stand_in_their_order(week: Report) -> None:
    text = drawn(week)
    heads = [
        "! ",
        "GPU usage of",
        "GPU-hours observed",
        "% observed",
        "Top idle holders",
        "no listed process owns",
        "\nFree ",
    ]
    heads += ["GPU-hours of", "By hour", "Basis: ", "\nmore: "]
    places = [text.index(head) for head in heads]
    assert places == sorted(places)


def test_every_number_is_the_sections_own(week: Report) -> None:
    """What people read here is what scripts read in JSON, to the digits that are shown."""
    made = json.loads(render_json(replace(week, sections=(*week.sections, "idle-capacity"))))
    text = drawn(week)
    states = made["headline"]["states"]
    held, observed = states["idle-held"], sum(state["gpu_hours"] for state in states.values())
    said = re.search(
        r"^(.*) of (.*) GPU-hours observed \((.*) %\) .* as much as\n(\S+) of (\S+) GPUs", text, re.MULTILINE
    )
    assert said is not None
    assert [float(one) for one in said.groups()] == [
        near(held["gpu_hours"]),
        near(observed),
        near(100 * held["share"]),
        near(made["idle_capacity"]["idle-held"]["equivalent_gpus"]),
        len(made["cards"]),
    ]
    for state in STATES:
        (written,) = re.findall(rf". {state} ([\d.]+) \(([\d.]+) %\)", text)
        assert [float(one) for one in written] == [
            near(states[state]["gpu_hours"]),
            near(100 * states[state]["share"]),
        ]
    assert float(re.findall(r"([\d.]+) % observed", text)[0]) == near(100 * made["coverage"]["ratio"])
    assert float(re.findall(r"unobserved ([\d.]+)", text)[0]) == near(made["coverage"]["unobserved_gpu_hours"])


def test_what_owners_wasted_is_the_sum_of_their_programs(week: Report) -> None:
    made = json.loads(render_json(week))
    wasted, cost = Counter[str](), Counter[str]()
    for one in made["owners"]:
        name = one["owner"] if one["kind"] == "listed" else "nobody"
        wasted[name] += one["states"]["idle-held"]["gpu_hours"]
        cost[name] += one["costs"]["idle-held"]["amounts"]["EUR"]
    text = drawn(week)
    for owner in ("alice", "bob", "carol"):
        ((hours, euros),) = re.findall(rf"^  {owner} +([\d.]+) +(\d+) ", text, re.MULTILINE)
        assert (float(hours), float(euros)) == (near(wasted[owner]), pytest.approx(cost[owner], abs=0.5))
    (nobody,) = re.findall(r"^  ([\d.]+), (\d+) EUR .*in memory", text, re.MULTILINE)
    (others,) = re.findall(r"^  and \d+ others: ([\d.]+), (\d+) EUR", text, re.MULTILINE)
    listed = re.findall(r"^  \S.*? +([\d.]+) +(\d+) .*GPU \d.* \d+[mh] ", text, re.MULTILINE)
    hours, euros = (sum(map(float, column)) for column in zip(nobody, others, *listed, strict=True))
    assert hours == pytest.approx(float(re.findall(r"^([\d.]+) of", text, re.MULTILINE)[0]), abs=0.001)
    assert euros == pytest.approx(float(re.findall(r"([\d,.]+) EUR", text)[0].replace(",", "")), abs=4)


def test_currencies_are_side_by_side_and_missing_prices_are_reported(week: Report) -> None:
    text = flat(week)
    assert "1,055.74 EUR + 5.60 USD (estimated), and 2.8 GPU-hours without a price." in text
    assert "Some cards have no price: gua prices set MODEL 2.50 --currency EUR" in text
    assert re.search(r"Top idle holders wasted GPU-h EUR USD holds now", text)


def unpriced(report: Report) -> Report:
    """Return the report of a store without prices."""
    usage, groups = report[Usage], report[Groupings]
    return replace(
        having(
            report,
            replace(usage, owners=tuple(replace(one, costs=None) for one in usage.owners)),
            Groupings(replace(by, groups=tuple(replace(group, costs=None) for group in by.groups)) for by in groups),
        ),
        headline=replace(report.headline, costs=None),
        cards=tuple(replace(card, costs=None) for card in report.cards),
    )


def test_without_prices_the_command_that_sets_one_is_shown(week: Report, fleet: Report, golden: Golden) -> None:
    bare = unpriced(week)
    golden("screen-fleet-unpriced.txt", drawn(unpriced(fleet)))
    assert "To see its cost: gua prices set H100 2.50 --currency EUR\n" in drawn(bare)
    elsewhere = render_first_screen(bare, Style(), Steps(store="--store clickhouse://db"))
    assert "2.50 --currency EUR --store clickhouse://db" in elsewhere
    assert "prices set" not in render_first_screen(bare, Style(), Steps(store=None))
    assert "EUR" not in drawn(bare).replace("--currency EUR", "")
    assert len(drawn(bare).splitlines()) <= 50
    assert len(drawn(bare, brief=True).splitlines()) <= 24


def test_each_card_has_its_own_hours_and_the_worst_comes_first(week: Report) -> None:
    made = json.loads(render_json(week))
    lines = re.findall(r"^  (.* GPU \d) +(?:active|idle-held|truly-idle|silent) .*$", drawn(week), re.MULTILINE)
    worst = sorted(made["cards"], key=lambda card: -card["states"]["idle-held"]["gpu_hours"])
    assert [line.rpartition(" GPU ")[2] for line in lines] == [str(card["index"]) for card in worst]
    for card, line in zip(worst, drawn(week).split("GPU-hours of")[1].splitlines()[1:], strict=False):
        written = re.findall(r"(\d+\.\d)", line.rpartition(" GPU ")[2])
        assert [float(one) for one in written] == [near(card["states"][state]["gpu_hours"]) for state in STATES]


def test_the_sparkline_names_the_hour_with_the_highest_share_of_a_state(week: Report) -> None:
    made = json.loads(render_json(week))
    for state in STATES:
        shares = [hour["states"][state]["share"] or 0 for hour in made["time_of_day"]]
        (said,) = re.findall(rf"^  {state} .* most (\d\d): ([\d.]+) %$", drawn(week), re.MULTILINE)
        assert float(said[1]) == near(100 * max(shares))
        assert float(said[1]) == near(100 * shares[int(said[0])])


def near(value: float) -> Any:  # noqa: ANN401 - pytest has no name for it
    return pytest.approx(value, abs=0.1001)


def spent(report: Report, *hours: float, unobserved: float = 0) -> Report:
    """Return the report with other GPU-hours by state, of one GPU."""
    states = {state: StateTime(gpu_ms=part * HOUR_MS, card_ticks=1) for state, part in zip(STATES, hours, strict=True)}
    whole = sum(hours)
    shares = {state: part / whole if whole else None for state, part in zip(STATES, hours, strict=True)}
    coverage = replace(
        report.coverage,
        expected_gpu_ms=(whole + unobserved) * HOUR_MS,
        observed_gpu_ms=whole * HOUR_MS,
        unobserved_gpu_ms=unobserved * HOUR_MS,
        ratio=whole / (whole + unobserved),
    )
    return replace(
        lacking(report, Now, IdleSplit),
        headline=Headline(states=states, shares=shares, equivalent_gpus=shares),
        coverage=coverage,
    )


@pytest.mark.parametrize(
    ("hours", "unobserved", "said"),
    [
        (
            (2, 6, 2, 0),
            0,
            "6.00 of 10.00 GPU-hours observed (60.0 %) were held and did nothing: as much as 0.6 of 1 GPU.",
        ),
        ((7, 0, 3, 0), 0, "No GPU was held without being used: of 10.00 GPU-hours observed, 7.00 were active and 3.00"),
        ((0, 0, 0, 10), 0, "Nothing is known of the 10.00 GPU-hours observed: utilization could not be read"),
        ((0, 0, 0, 0), 10, "Nothing was observed: nobody knows what happened in the 10.00 GPU-hours expected."),
        ((1, 1, 1, 1), 6, "Nobody knows what happened in 70.0 % of the expected time: it counts as no state."),
        ((1, 1, 8, 0), 0.5, "1.00 of 10.00 GPU-hours observed (10.0 %) were held"),
    ],
)
def test_every_situation_has_a_verdict(week: Report, hours: tuple[float, ...], unobserved: float, said: str) -> None:
    made = spent(week, *hours, unobserved=unobserved)
    for brief in (False, True):
        assert said in flat(made, 80, brief=brief)
    assert ("Nobody knows" in flat(made)) == (unobserved == 6)
    assert len(drawn(made, brief=True).splitlines()) <= 24


def idling(report: Report, idle_hours: float, of_hours: float, *, on_one: float | None = None) -> Report:
    """Return the report with so many sampled idle hours in the active ones, and of one card."""
    seconds = IdleSeconds(
        sampled_gpu_ms=of_hours * HOUR_MS,
        idle_gpu_ms=idle_hours * HOUR_MS,
        idle_share=idle_hours / of_hours,
        most_idle=MostIdle(
            host="gpu-1",
            gpu=next(card.gpu for card in report.cards if (card.host, card.index) == ("gpu-1", 1)),
            index=1,
            idle_gpu_ms=(idle_hours / 2 if on_one is None else on_one) * HOUR_MS,
        ),
    )
    return replace(report, headline=replace(report.headline, idle_seconds=seconds))


def test_idle_seconds_of_active_hours_are_shown_with_the_sampled_share(week: Report) -> None:
    said = "20.0 of 175.6 active GPU-hours were idle between kernels (16.0 % of 125.0 sampled)"
    assert f"{said}, most on gpu-1 GPU 1 (10.0): gua report --section usefulness" in flat(idling(week, 20, 125))
    assert f"{said}, all on gpu-1 GPU 1: gua" in flat(idling(week, 20, 125, on_one=20))
    alone = replace(idling(week, 20, 125), cards=week.cards[:1])
    assert f"{said}: gua report --section usefulness" in flat(alone)


@pytest.mark.parametrize(
    ("idle_hours", "of_hours", "is_said"),
    [(5, 100, True), (4.9, 100, False), (1, 2, True), (0.99, 2, False), (0, 100, False), (None, None, False)],
)
def test_idle_seconds_are_shown_if_they_are_many_and_known(
    week: Report, idle_hours: float | None, of_hours: float | None, *, is_said: bool
) -> None:
    bare = replace(week, headline=replace(week.headline, idle_seconds=None))
    made = bare if idle_hours is None or of_hours is None else idling(week, idle_hours, of_hours)
    assert ("idle between kernels" in flat(made)) == is_said
    assert ("--section usefulness" in flat(made)) == is_said
    assert "idle between kernels" not in flat(made, brief=True)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_command_for_idle_seconds_can_be_typed(week: Report, width: int) -> None:
    steps = Steps(report="gua report --store 'clickhouse://a-server-of-a-long-name.example.org/gua and more'")
    text = render_first_screen(week, Style(width=width), steps).replace(" \\\n", " ")
    (command,) = re.findall(r"(gua report (?:(?!gua report).)*--section usefulness)$", text, re.MULTILINE)
    assert shlex.split(" ".join(command.split())) == [*shlex.split(steps.report), "--section", "usefulness"]
    hostile = render_first_screen(week, Style(width=width), replace(steps, report="gua report --store 'a\x1bb'"))
    assert "usefulness" not in hostile
    assert "idle between kernels" in " ".join(hostile.split())


def test_a_host_in_its_first_minutes_says_since_when_it_records(week: Report) -> None:
    since = UNTIL_MS - 8 * MINUTE_MS
    made = replace(week, coverage=replace(week.coverage, effective_since_ms=since), requested_at_ms=UNTIL_MS)
    assert "GPU usage of 8 minutes, recorded since 2026-03-29 23:52 Europe/Berlin" in flat(made)
    agents = tuple(replace(extent, source="agent", first_ms=since) for extent in week.extents)
    begun = replace(made, extents=agents, coverage=replace(made.coverage, ratio=0.1, unobserved_gpu_ms=9 * HOUR_MS))
    assert "Nobody knows" not in flat(begun)
    assert "Nobody knows" in flat(
        replace(begun, coverage=replace(begun.coverage, expected_gpu_ms=10 * HOUR_MS), extents=week.extents)
    )
    ended = replace(week.coverage, effective_since_ms=since - 24 * HOUR_MS, effective_until_ms=since - 23 * HOUR_MS)
    imported = flat(replace(week, coverage=ended, requested_at_ms=UNTIL_MS + 24 * HOUR_MS))
    assert "GPU usage of 1 hour, recorded since 2026-03-28 22:52 to 2026-03-28 23:52 Europe/Berlin" in imported
    assert "gua explain gpu-1 1 2026-03-28T22:52:00Z" in imported
    old = replace(made, requested_at_ms=UNTIL_MS + 24 * HOUR_MS)
    assert "recorded since 2026-03-29 23:52 to 2026-03-30 00:00 Europe/Berlin" in flat(old)


def test_a_past_window_shows_nothing_as_now(week: Report) -> None:
    over = flat(replace(week, requested_at_ms=UNTIL_MS + 24 * HOUR_MS))
    assert "holds at the end" in over
    assert "Free at the end: " in over
    assert " now" not in over
    assert "gua explain gpu-1 1 2026-03-29T22:00:00Z" in over
    assert " now" in flat(week)


def test_warnings_are_a_line_each_and_the_rest_is_counted(week: Report) -> None:
    warnings = [line for line in drawn(week, 120).splitlines() if line.startswith("! ")]
    assert warnings[0] == "! Simulated: no real machine was measured."
    assert warnings[-1] == "! and 3 more warnings: --full has them"
    assert len(warnings) == 3


def test_what_cards_and_processes_are_added_up_by_comes_below(week: Report) -> None:
    usage = week_report()[Usage]
    grouped = drawn(having(replace(week, groups_by=("model",)), usage))
    assert (
        grouped.index("By hour") < grouped.index("Per model") < grouped.index("Per owner") < grouped.index("\nmore: ")
    )
    assert "Per host" not in grouped
    assert "Per model" not in drawn(week)
    assert [one.by for one in week[Groupings]][:2] == ["host", "model"]


def test_mig_instances_with_equal_names_are_distinguished(week: Report) -> None:
    instances = [
        replace(card, index=4, name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", mig="instance", gpu=f"MIG-{place}{card.gpu}")
        for place, card in enumerate(week.cards[:3])
    ]
    text = drawn(replace(lacking(week, Now), cards=(*instances[:2], replace(instances[2], name="A100 MIG 2g.20gb"))))
    assert "GPU 4 2g.20gb" in text
    assert len(set(re.findall(r"GPU 4 (MIG-\S+)", text))) == 2


def test_commands_that_go_on_from_here_can_be_typed(week: Report) -> None:
    steps = Steps(report="gua report --since 2d", explain="gua explain --store x")
    (last,) = [
        line for line in render_first_screen(week, Style(width=200), steps).splitlines() if line.startswith("more: ")
    ]
    assert last == (
        "more: gua report --since 2d --full; gua explain --store x gpu-1 1; gua report --since 2d --section what-if"
    )
    hostile = replace(week, cards=tuple(replace(card, host="x\x1b[31m;rm") for card in week.cards))
    assert "gua explain" not in drawn(hostile).rpartition("more: ")[2]


def test_the_card_to_explain_is_the_worst_one_where_others_have_its_index(week: Report) -> None:
    worst = max(week.cards, key=lambda card: card.states["idle-held"].gpu_ms)
    parent = replace(next(card for card in week.cards if card != worst), host=worst.host, index=worst.index)
    text = drawn(replace(lacking(week, Now), cards=(parent, replace(worst, mig="instance", gpu="MIG-1a"))))
    assert f"gua explain {worst.host} MIG-1a" in text


def test_reasons_of_unknown_time_are_the_largest(week: Report) -> None:
    reasons = [UnknownReason(reason=name, gpu_ms=ms, card_ticks=1) for name, ms in (("lost", 1.0), ("memory", 9.0))]
    made = replace(spent(week, 0, 0, 0, 10), unknown=tuple(reasons))
    assert "observed: the held memory is unknown." in flat(made)


def test_seconds_are_left_out_of_windows_longer_than_a_day() -> None:
    day = Window(since_ms=UNTIL_MS - 24 * HOUR_MS, until_ms=UNTIL_MS, timezone="UTC")
    longer = replace(day, since_ms=day.since_ms - 1)
    assert [at(UNTIL_MS - 1000, window) for window in (day, longer)] == ["2026-03-29 21:59:59", "2026-03-29 21:59"]


def test_a_column_is_as_high_as_its_part_and_never_blank_for_what_was_there() -> None:
    parts = (0, 0.001, 0.5, 0.999, 1)
    assert "".join(map(Style().height, parts)) == " ▁▄██"
    assert "".join(map(Style(unicode=False).height, parts)) == " .=##"


def test_the_verdict_and_the_states_below_it_name_the_same_number(week: Report) -> None:
    for number in range(1, 60):
        hours = (0.0603 * number, 0.08049 * number, 0.0111 * number, 0.00889 * number)
        text = flat(spent(week, *hours))
        (said,) = re.findall(r"([\d.,]+) of [\d.,]+ GPU-hours observed \(([\d.]+) %\) were held", text)
        assert re.findall(r"idle-held ([\d.,]+) \(([\d.]+) %\)", text) == [said], hours


@pytest.mark.parametrize("width", [24, 40, 60])
def test_a_command_over_several_lines_is_one_to_a_shell(week: Report, width: int) -> None:
    steps = Steps(report="gua report --store chdb:///data/gua", store="--store chdb:///data/gua")
    text = render_first_screen(week, Style(width=width), steps).replace(" \\\n", " ")
    assert " ".join(text.split()).count("--currency EUR --store chdb:///data/gua") == 1
    typed = [line for line in text.splitlines() if line.startswith("more: ")]
    assert shlex.split(typed[0].removeprefix("more: "))[:5] == [*shlex.split(steps.report), "--full;"]


def without_process(
    report: Report, gpu_hours: float | None, share: float | None, *stuck: StuckCard, known_hours: float = 175.0
) -> Report:
    """Return the report with so many active GPU-hours without a process, and these cards with stuck utilization."""
    found = WithoutProcess(
        gpu_ms=None if gpu_hours is None else gpu_hours * HOUR_MS, known_gpu_ms=known_hours * HOUR_MS, share=share
    )
    made = replace(report, headline=replace(report.headline, active_without_process=found))
    return having(made, replace(report[IdleSplit], stuck=stuck))


@pytest.mark.parametrize(
    ("gpu_hours", "share", "is_shown"),
    [(1, 0.001, True), (0.99, 0.0099, False), (0.5, 0.01, True), (0, 0.0, False), (None, None, False)],
)
def test_active_time_without_a_process_is_shown_from_an_hour_or_a_hundredth_on(
    week: Report, gpu_hours: float | None, share: float | None, *, is_shown: bool
) -> None:
    text = flat(without_process(week, gpu_hours, share))
    assert ("had no process and no held memory" in text) == is_shown
    assert "stuck" not in text
    assert "no held memory" not in flat(without_process(week, gpu_hours, share), brief=True)


@pytest.mark.parametrize(("is_current", "lasts"), [(True, " so far"), (False, "")])
def test_stuck_utilization_is_named_with_its_longest_stretch(week: Report, *, is_current: bool, lasts: str) -> None:
    gpu = next(card.gpu for card in week.cards if (card.host, card.index) == ("gpu-1", 1))
    stuck = StuckCard(
        host="gpu-1",
        gpu=gpu,
        index=1,
        gpu_ms=11 * HOUR_MS,
        longest_ms=9 * HOUR_MS + 5 * MINUTE_MS,
        since_ms=UNTIL_MS - 10 * HOUR_MS,
        until_ms=UNTIL_MS,
        is_current=is_current,
    )
    report = without_process(week, 12.5, 0.071, stuck)
    sentence = (
        "12.5 of 175.6 active GPU-hours had no process and no held memory (7.1 %), 11.0 of them in stretches over 10 "
        f"minutes (stuck utilization), the longest on gpu-1 GPU 1 for 9h 5m{lasts}: gua doctor there has the causes."
    )
    assert sentence in flat(report)
    found = json.loads(render_json(report))["headline"]["active_without_process"]
    assert {key: found[key] for key in ("gpu_hours", "share", "known_gpu_hours", "stuck_gpu_hours")} == {
        "gpu_hours": 12.5,
        "share": 0.071,
        "known_gpu_hours": 175.0,
        "stuck_gpu_hours": 11.0,
    }
    assert [(one["gpu"], one["longest_seconds"], one["is_current"]) for one in found["stuck"]] == [
        (gpu, 32_700.0, is_current)
    ]
    assert sentence in " ".join(re.sub("<[^>]*>", "", render_html(report)).split())


def _needing(report: Report, *actions: int | None) -> Report:
    """Return the report with these recovery actions of its first cards, each an hour longer than the one before."""
    cards = [
        replace(
            card,
            recovery_action=action,
            recovery_ms=None if action is None else place * HOUR_MS,
            recovery_at_ms=None if action is None else report.window.until_ms - MINUTE_MS,
        )
        for place, (card, action) in enumerate(zip(report.cards, actions, strict=False), 1)
    ]
    return replace(report, cards=(*cards, *report.cards[len(cards) :]))


def _needs(report: Report) -> list[str]:
    return [line.removeprefix("! ") for line in drawn(report, 200).splitlines() if " reported for " in line]


def test_cards_that_need_recovery_are_named_with_the_command_longest_first(week: Report) -> None:
    one = replace(week, hosts=("gpu-1",))
    assert _needs(_needing(one, 0, 0, None)) == []
    assert _needs(_needing(one, 1, 0, 9, None)) == [
        "GPU 2 needs attention (recovery action code 9), reported for 3h: look at nvidia-smi -q and at dmesg.",
        "GPU 0 needs a reset, reported for 1h: end its processes, then nvidia-smi --gpu-reset -i 0.",
    ]
    assert _needs(_needing(week, 2)) == ["gpu-1 GPU 0 needs a reboot, reported for 1h: reboot the host."]
    past = replace(_needing(one, 2), requested_at_ms=one.window.until_ms + 90 * 24 * HOUR_MS)
    assert _needs(past) == ["GPU 0 needed a reboot, reported for 1h, not now."]


def test_a_recovery_action_that_is_not_of_now_gets_no_command(week: Report) -> None:
    made = _needing(replace(week, hosts=("gpu-1",)), 1)
    before = replace(made.cards[0], recovery_at_ms=made.window.until_ms - HOUR_MS)
    old = replace(made, cards=(before, *made.cards[1:]))
    assert _needs(old) == ["GPU 0 needed a reset, reported for 1h, not now."]
    assert _needs(replace(old, cards=(replace(before, recovery_at_ms=None), *made.cards[1:]))) == _needs(old)


def test_of_many_cards_that_need_recovery_five_are_named(fleet: Report) -> None:
    many = _needing(fleet, *([1] * 12))
    assert len(_needs(many)) == 5
    assert "! And 7 more cards that need recovery (--json has all)." in drawn(many, 200).splitlines()
    assert all(cells(line) <= 80 for line in drawn(many).splitlines())


def test_a_recovery_action_is_null_in_json_where_the_driver_reports_none(week: Report) -> None:
    told = json.loads(render_json(_needing(week, None, 0, 9)))["cards"]
    assert [(card["recovery_action"], card["recovery_hours"]) for card in told[:3]] == [(None, None), (0, 2), (9, 3)]


def test_active_time_of_which_only_a_part_is_known_says_so(week: Report) -> None:
    text = flat(without_process(week, 3, 0.017, known_hours=88.0))
    assert "had no process and no held memory (1.7 %, of 88.0 with known processes)." in text
