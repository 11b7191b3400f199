"""``gua explain``: the tick that a moment lies in, the line of the rules that fitted, and every value, in any width."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.explained import GIB, HOST, NOON_MS, ExplainedStore, card, part, process, tick
from gua.core.allocation import use
from gua.core.errors import UnavailableError, UsageError
from gua.core.plaintext import cells
from gua.core.rules import State
from gua.core.words import Relation, Use
from gua.report.explain.explain import ExplainedPart, ExplainRequest, Explanation, explain
from gua.report.explain.model import (
    CARD_VALUES,
    EXPLAIN_ALLOCATIONS,
    JUDGED_VALUES,
    PROCESS_FACTS,
    PROCESS_VALUES,
    ExplainedPartRow,
)
from gua.report.explain.text import render_explanation, render_explanation_json
from gua.report.kit.style import Style
from gua.store import statements

Golden = Callable[[str, str], None]
HOSTILE = "\x1b]0;owned\x07\u202e<b>" + "x" * 10_000


def request(**values: str | int) -> ExplainRequest:
    asked: dict[str, Any] = {
        "host": HOST,
        "card": "0",
        "time": "2026-03-25T12:00:40Z",
        "around": "2",
        "timezone": "UTC",
        "now_ms": NOON_MS + 7_200_000,
    }
    asked |= values
    words = tuple(str(asked.pop(name)) for name in ("host", "card", "time"))
    return ExplainRequest(**{"words": words, **asked})


def lab() -> ExplainedStore:
    """A card that is held, at work, held, lost sight of for 5 minutes, and of unknown utilization."""
    return ExplainedStore(
        [card("GPU-5e1b0c"), card("GPU-5e1b1d", 1)],
        [
            tick(0, utilization=0),
            tick(30, utilization=9000, utilization_max=10_000),
            tick(60),
            tick(360, utilization=None, utilization_coverage_ms=None),
            tick(390, utilization_coverage_ms=0),
        ],
        [
            process(30, 4242, utilization=9000, state="active"),
            process(60, 4242, slurm_job_id="77"),
            process(60, 4243, owner=None, uid=None, memory_bytes=None, utilization=None, state="unknown"),
        ],
    )


def test_allocation_details_are_queried_only_if_a_source_was_read() -> None:
    looked, without_source = ({"allocation": "allocated"}, {"allocation": None})
    for values, times in ((looked, 1), (without_source, 0)):
        store = ExplainedStore([card("GPU-5e1b0c")], [tick(30), tick(60, **values)])
        explain(store, request(time="2026-03-25T12:00:40Z"))
        assert [view for view, _ in store.asked].count("explain_allocations") == times


def told(**values: str | int) -> Explanation:
    return explain(lab(), request(**values))


def text(explanation: Explanation, width: int = 100) -> str:
    return render_explanation(explanation, Style(width=width))


def test_a_moment_lies_in_the_tick_that_ends_at_it_or_after_it() -> None:
    for second, ends in ((30.001, 60), (60, 60), (30, 30), (0.001, 30)):
        time = f"2026-03-25T12:{int(second // 60):02d}:{second % 60:06.3f}Z"
        covering = told(time=time).covering
        assert covering is not None
        assert covering.row.ts_ms == NOON_MS + ends * 1000, time


def test_a_moment_without_a_tick_is_unobserved_and_its_neighbours_are_named() -> None:
    found = told(time="2026-03-25T12:02:00Z")
    assert found.covering is None
    assert (found.before, found.after) == (
        (NOON_MS + 30_000, NOON_MS + 60_000),
        (NOON_MS + 330_000, NOON_MS + 360_000),
    )
    words = " ".join(text(found).split())
    assert "unobserved. No tick covers that moment: the tick before ended 1m earlier, at 2026-03-25 12:01" in words
    assert "the next began 3m 30s later, at 2026-03-25 12:05:30." in words
    assert "Why" not in words
    assert "unobserved before it 4m 30s" in words
    assert json.loads(render_explanation_json(found))["state"] == "unobserved"


def test_before_the_first_tick_and_after_the_last_there_is_a_neighbour_on_one_side_only() -> None:
    first, last = told(time="2020-01-01"), told(time="2026-03-25T13:30:00Z")
    assert (first.before, first.after) == (None, (NOON_MS - 30_000, NOON_MS))
    assert (last.before, last.after) == ((NOON_MS + 360_000, NOON_MS + 390_000), None)
    assert "there is none before it" in " ".join(text(first).split())
    assert "there is none after it" in " ".join(text(last).split())


def test_the_lines_of_the_rules_stand_there_with_their_numbers_up_to_the_one_that_fits() -> None:
    words = " ".join(text(told()).split())
    assert "2026-03-25 12:00:40 UTC: idle-held, by line 4a of the rules." in words
    assert "utilization samples cover 29.0 of its 30.0 s; sampled by gua daemon." in words
    for line in (
        "1 unknown no the card's status is ok",
        "2 active no utilization 3.2 % < 10 %, the largest of general 3.2 %, encoder not known",
        "3a truly-idle no held at most 8.5 GiB > threshold 100 MiB",
        "3b truly-idle no the driver reports its reserve",
        "4a idle-held yes held at least 8.5 GiB > threshold 100 MiB",
    ):
        assert line in words
    assert "4b" not in words


def test_the_explanation_omits_engines_at_zero_unless_all_are_zero() -> None:
    every = {"utilization_encoder": 0, "utilization_decoder": 0, "process_utilization_max": 0}
    for general, expected in (
        (320, "utilization 3.2 % < 10 %, the largest of general 3.2 %"),
        (0, "utilization 0 % < 10 %"),
    ):
        store = ExplainedStore([card("GPU-a")], [tick(60, utilization=general, **every)])
        (line,) = [one.text for one in explain(store, request()).ticks[0].branches if one.line == "2"]
        assert line == expected + ("" if general else ", no engine and no process above 0")


def test_exact_bytes_stand_where_rounded_ones_look_alike() -> None:
    one_more = 100 * 2**20 + 1
    store = ExplainedStore(
        [card("GPU-a")],
        [tick(60, memory_used_bytes=one_more, process_memory_compute_bytes=0, process_count_compute=0)],
    )
    words = " ".join(text(explain(store, request())).split())
    assert "held at least 104,857,601 bytes > threshold 104,857,600 bytes" in words


def test_unknown_values_are_shown_as_unknown_and_values_of_zero_are_counted() -> None:
    words = text(told(time="2026-03-25T12:06:00Z", around="1"), 60)
    assert "unknown (utilization could not be read" in " ".join(words.split())
    assert re.search(r"^  utilization, general +not known", words, re.MULTILINE)
    assert "graphics processes" not in words
    zeros = [value for value in CARD_VALUES if all(value.of(one.row) == 0 for one in told(around="1").ticks)]
    assert len(zeros) > 8
    assert f"and {len(zeros)} values of 0 or no" in words
    assert "how much of it utilization samples cover is not known" in " ".join(words.split())
    instant = " ".join(text(told(time="2026-03-25T12:06:30Z")).split())
    assert "utilization is one instant value" in instant


def test_processes_have_their_own_values_and_unknown_owners_are_shown_as_unknown() -> None:
    words = text(told())
    assert re.search(r"^Process 4242 +12:00 *", words, re.MULTILINE) or "Process 4242" in words
    assert "Slurm job 77" in words
    assert "owner not known, user id not known" in " ".join(words.split())
    assert "not there" in words  # 4242 was not on the card in the first tick


def test_a_changed_setting_is_marked_and_used_for_the_verdict() -> None:
    store = lab()
    store.changed = {"active_utilization": 0.03}
    found = explain(store, request())
    assert found.covering is not None
    assert found.covering.branches[-1].state == "active"
    assert not found.covering.agrees  # the rows of the fake were judged by the shipped rules
    words = " ".join(text(found).split())
    assert "active_utilization 3 % (changed, not the default)" in words
    assert "held_memory_bytes 100 MiB (the default)" in words
    assert "! The rules of this gua come to active" in words


@pytest.mark.parametrize("width", [20, 40, 60, 100, 140])
def test_no_line_is_wider_than_the_requested_width(width: int) -> None:
    store = lab()
    store.cards[0] = card("GPU-5e1b0c", name=HOSTILE)
    store.processes += [process(60, 1, owner=HOSTILE, program=HOSTILE, container_id=HOSTILE)]
    drawn = text(explain(store, request()), width)
    assert max(cells(line) for line in drawn.splitlines()) <= width
    assert not {"\x1b", "\x07", "\u202e"} & set(drawn)


@pytest.mark.parametrize("width", [20, 100])
def test_text_is_the_golden_one(golden: Golden, width: int) -> None:
    golden(f"explain-{width}.txt", text(told(), width))


def test_json_is_the_golden_one(golden: Golden) -> None:
    golden("explain.json", render_explanation_json(told(around="1")))


def test_so_many_ticks_on_each_side_or_those_of_a_duration() -> None:
    def seconds(**values: str | int) -> list[int]:
        return [(one.row.ts_ms - NOON_MS) // 1000 for one in told(**values).ticks]

    assert seconds(around="1") == [30, 60, 360]
    assert seconds(around="2") == [0, 30, 60, 360, 390]
    assert seconds(around="500") == [0, 30, 60, 360, 390]
    assert seconds(around="15s") == [30, 60]
    assert seconds(around="1s") == [30, 60]  # the one that it lies in ends later, and is there nevertheless
    assert seconds(around="6m") == [0, 30, 60, 360, 390]


def test_only_a_day_is_read_where_it_has_enough_ticks() -> None:
    store = ExplainedStore([card("GPU-a")], [tick(30 * number) for number in range(10)])
    explain(store, request(time="2026-03-25T12:02:10Z"))
    bounds = [asked["since_ms"] for view, asked in store.asked if view == "explain_moments"]
    assert bounds == [NOON_MS + 130_000 - 86_400_000]


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "times"),
    [(0, 90_000, 1), (-172_800_000, 90_000, 2), (0, 172_800_000, 2)],
    ids=["seen for a day", "seen before", "seen after"],
)
def test_more_than_a_day_is_read_where_the_card_was_seen_then(first_ms: int, last_ms: int, times: int) -> None:
    seen = card("GPU-a", first_ms=NOON_MS + first_ms, last_ms=NOON_MS + last_ms)
    store = ExplainedStore([seen], [tick(30 * number) for number in range(4)])
    found = explain(store, request(time="2026-03-25T12:00:40Z"))
    assert [view for view, _ in store.asked].count("explain_moments") == times
    assert len(found.ticks) == 4


def test_a_duration_counts_back_from_now_or_from_the_newest_tick_of_a_recording() -> None:
    store = lab()
    assert explain(store, request(time="1h")).at_ms == NOON_MS + 3_600_000
    store.source = "import"
    store.cards = [card("GPU-5e1b0c", last_ms=NOON_MS + 390_000)]
    assert explain(store, request(time="1m")).at_ms == NOON_MS + 330_000


def test_a_time_without_an_offset_is_of_the_zone() -> None:
    found = told(time="2026-03-25T13:00:40", timezone="Europe/Berlin")
    assert found.at_ms == NOON_MS + 40_000
    assert "2026-03-25 13:00:40 Europe/Berlin: idle-held" in " ".join(text(found).split())


class TestWhatMayBeLeftOut:
    @staticmethod
    def asked(*words: str, hosts: tuple[str, ...] = (HOST,)) -> Explanation:
        store = lab()
        store.hosts = hosts
        for each in store.cards:
            each |= {"last_ms": NOON_MS + 390_000}
        return explain(store, replace(request(), words=words))

    def test_the_host_where_there_is_one_and_the_time_for_the_newest_tick(self) -> None:
        at_the_newest = [self.asked("1"), self.asked(HOST, "1"), self.asked("GPU-5e1b1d")]
        assert {(one.card.gpu, one.at_ms) for one in at_the_newest} == {("GPU-5e1b1d", NOON_MS + 390_000)}
        assert self.asked("0").covering is not None
        then = [self.asked("0", "2026-03-25T12:00:40Z"), self.asked(HOST, "0", "2026-03-25T12:00:40Z")]
        assert {one.at_ms for one in then} == {NOON_MS + 40_000}

    def test_a_card_is_typed_as_reports_write_it(self) -> None:
        typed = [self.asked("GPU", "1"), self.asked("GPU 1"), self.asked(HOST, "gpu", "1"), self.asked("GPU-1")]
        assert {one.card.gpu for one in typed} == {"GPU-5e1b1d"}
        assert self.asked("GPU", "0", "2026-03-25T12:00:40Z").at_ms == NOON_MS + 40_000
        # What begins a UUID and could be an index is the index: here there is none.
        with pytest.raises(UsageError, match="has no card '5'"):
            self.asked("GPU-5")

    def test_not_the_host_where_there_are_several(self) -> None:
        two = (HOST, "node 2")
        with pytest.raises(
            UsageError, match=f"the store has several hosts, node 2, {HOST}: name one, as in gua explain 'node 2' 0"
        ):
            self.asked("0", hosts=two)
        with pytest.raises(UsageError, match="no host 'node-9' in this store"):
            self.asked("node-9", "0", hosts=two)

    def test_a_wrong_host_before_an_index_is_no_card_and_four_words_are_too_many(self) -> None:
        with pytest.raises(UsageError, match=f"no host 'node-9' in this store: it knows {HOST}"):
            self.asked("node-9", "0")
        with pytest.raises(UsageError, match=r"4 words are too many: gua explain \[HOST\] CARD \[TIME\]"):
            self.asked(HOST, "0", "now", "now")


class TestTheCard:
    @pytest.mark.parametrize("written", ["1", "GPU-5e1b1d", "GPU-5e1b1", "gpu-5E1B1", "5e1b1"])
    def test_is_found_by_index_uuid_or_how_that_begins(self, written: str) -> None:
        assert told(card=written).card.gpu == "GPU-5e1b1d"

    @pytest.mark.parametrize("written", ["2", "GPU-f", "", "x" * 5000])
    def test_a_card_that_does_not_exist_is_refused_with_the_existing_ones(self, written: str) -> None:
        with pytest.raises(UsageError, match=r"node-1 has no card .*0 \(GPU-5e1b0c\), 1 \(GPU-5e1b1d\)"):
            told(card=written)

    def test_an_ambiguous_card_is_refused_with_all_candidates(self) -> None:
        with pytest.raises(UsageError, match=r"'GPU-5e' may be any of 2 cards of node-1: .*GPU-5e1b0c.*GPU-5e1b1d"):
            told(card="GPU-5e")

    def test_a_card_index_selects_the_card_that_had_it_at_that_time(self) -> None:
        store = lab()
        store.cards = [
            card("GPU-old", last_ms=NOON_MS - 60_000),
            card("GPU-new", first_ms=NOON_MS - 60_000),
        ]
        assert explain(store, request()).card.gpu == "GPU-new"
        assert explain(store, request(time="2026-03-25T11:30:00Z")).card.gpu == "GPU-old"

    def test_of_an_index_is_the_whole_one_rather_than_its_instances(self) -> None:
        store = lab()
        store.cards = [card("GPU-a", mig="parent"), card("MIG-b", mig="instance"), card("MIG-c", mig="instance")]
        assert explain(store, request()).card.gpu == "GPU-a"
        store.cards = store.cards[1:]
        with pytest.raises(UsageError, match="may be any of 2 cards"):
            explain(store, request())

    def test_a_whole_uuid_that_is_a_prefix_of_another_selects_its_own_card(self) -> None:
        store = lab()
        store.cards = [card("GPU-a"), card("GPU-ab", 1)]
        assert explain(store, request(card="GPU-a")).card.gpu == "GPU-a"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"host": "node-9"}, "no host 'node-9' in this store: it knows node-1"),
        ({"time": "2026-03-26"}, "is in the future: it is 2026-03-25T14:00:00Z now"),
        ({"time": "someday"}, "is no moment"),
        ({"timezone": "Mars/Base"}, "unknown time zone"),
        ({"around": "501"}, "too many ticks"),
        ({"around": "-1"}, "not a duration"),
        ({"around": "\u0661"}, "not a duration"),
    ],
)
def test_an_invalid_request_is_refused_in_one_line(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        told(**values)
    assert "\n" not in str(raised.value)


def test_an_empty_store_and_dropped_ticks_are_reported() -> None:
    with pytest.raises(UnavailableError, match="no ticks yet"):
        explain(ExplainedStore([], []), request())
    with pytest.raises(UnavailableError, match="no ticks of GPU-a of node-1 any more"):
        explain(ExplainedStore([card("GPU-a")], []), request())


def test_more_ticks_than_anybody_reads_are_refused() -> None:
    store = ExplainedStore([card("GPU-a")], [tick(second) for second in range(1200)])
    with pytest.raises(UsageError, match="more than 1,000 ticks"):
        explain(store, request(around="1h"))


def test_every_column_of_the_views_is_shown() -> None:
    views = {one.creates: one.sql for one in statements.load(statements.EMBEDDED_TOKENS)}
    stored = set(re.findall(r"^    (\w+) SimpleAgg", views["gua", "card_ticks"], re.MULTILINE))
    states = set(re.findall(r"^        (\w+),?$", views["gua_report", "explain_ticks"], re.MULTILINE))
    ticks = stored | states - {"ts", "idle_powered_ms"} | {"ts_ms"}
    shown = {value.column for value in (*CARD_VALUES, *JUDGED_VALUES)}
    assert ticks - shown == {"ts_ms", "state", "reason"}
    assert shown - ticks == set()
    processes = set(re.findall(r"AS (\w+),?\n", views["gua_report", "explain_processes"].split("FROM\n")[0]))
    assert processes - {value.column for value in (*PROCESS_FACTS, *PROCESS_VALUES)} == {
        "ts_ms",
        "pid",
        "created_ms",
        "state",
    }


def test_every_column_of_a_tick_in_the_store_is_shown() -> None:
    views = {one.creates: one.sql for one in statements.load(statements.EMBEDDED_TOKENS)}
    columns = set(re.findall(r"^    (\w+) SimpleAgg", views["gua", "card_ticks"], re.MULTILINE))
    assert columns - {value.column for value in CARD_VALUES} == set()
    of_process = set(re.findall(r"^    (\w+) SimpleAgg", views["gua", "process_ticks"], re.MULTILINE))
    assert of_process - {value.column for value in (*PROCESS_FACTS, *PROCESS_VALUES)} == set()


def test_memory_of_many_gibibytes_is_exact_to_the_byte_in_json() -> None:
    (held,) = (
        one
        for one in json.loads(render_explanation_json(told()))["ticks"][2]["values"]
        if one["name"] == "memory_used_bytes"
    )
    assert held == {"name": "memory_used_bytes", "value": 8 * GIB + GIB // 2, "unit": "By"}


def test_documents_of_both_forms_name_the_same_lines() -> None:
    page = (Path(__file__).parents[3] / "docs" / "rules.md").read_text("utf-8")
    lines = set(re.findall(r"^\| (\d[abc]?) \|", page, re.MULTILINE))
    assert lines >= {"1", "2", "3a", "3b", "3c", "4a", "4b", "4c", "5"}


class TestWhatBecameOfAAllocation:
    """The parts of a tick: their owner, the relation, and the line of the uses that fits."""

    def of(self, *parts: dict[str, Any], **values: object) -> Explanation:
        ticks = [tick(0), tick(30, allocation="allocated", **values), tick(60)]
        return explain(ExplainedStore([card("GPU-5e1b0c")], ticks, parts=parts), request(time="2026-03-25T12:00:20Z"))

    def test_the_text_shows_owner_begin_relation_and_the_line_of_the_rule(self) -> None:
        made = self.of(
            part(30, gpu_time_ms=20_000, duration_ms=20_000, until_ms=NOON_MS + 3_600_000),
            part(30, "", gpu_time_ms=10_000),
            unallocated_gpu_time_ms=10_000,
        )
        shown = " ".join(text(made, 100).split())
        assert (
            "Allocation slurm 1234: held, by line d of the uses of alice, job, job train, since 2026-03-25 11:00, "
            "until 2026-03-25 13:00, 20.0 s of the tick's GPU time"
        ) in shown
        assert "d yes its owner has processes on it, and the card is idle-held" in shown
        assert "Not allocated: unallocated-use, by line c of the uses 10.0 s of the tick's GPU time" in shown
        assert "c yes not allocated, and the card is idle-held" in shown

    def test_json_has_every_part_with_its_lines(self) -> None:
        made = self.of(part(30, pod_uid="u", pod_name="p", pod_namespace="n"))
        (_, covered, _) = json.loads(render_explanation_json(made))["ticks"]
        (one,) = covered["parts"]
        assert (one["source"], one["allocation_id"], one["owner"], one["relation"], one["use"], one["line"]) == (
            "slurm",
            "1234",
            "alice",
            "owner",
            "held",
            "d",
        )
        assert (one["since"], one["until"], one["gpu_seconds"]) == ("2026-03-25T11:00:00Z", None, 30.0)
        assert [line["line"] for line in one["lines"]] == ["a", "b", "c", "d"]
        assert [line["fits"] for line in one["lines"]] == [False, False, False, True]
        assert one["rules_agree"]

    def test_a_tick_without_an_allocation_source_has_no_part(self) -> None:
        assert "by line" in text(told(), 80)
        assert "of the uses" not in text(told(), 80)
        assert json.loads(render_explanation_json(told()))["ticks"][0]["parts"] == []

    def test_an_unknown_use_is_shown_as_unknown(self) -> None:
        shown = text(self.of(part(30, "", use="unknown")), 100)
        assert "Unknown whether allocated: unknown, by line b of the uses" in shown

    def test_a_use_from_a_store_of_another_version_is_marked_as_different(self) -> None:
        assert not self.of(part(30, use="empty")).ticks[1].agrees
        assert "are of another version" in " ".join(text(self.of(part(30, use="empty")), 100).split())

    def test_hostile_names_reach_no_terminal_and_no_line_is_too_wide(self) -> None:
        names = dict.fromkeys(("owner", "kind", "job_name", "pod_name", "pod_namespace"), HOSTILE)
        made = self.of(part(30, HOSTILE[:30], allocation_id=HOSTILE, **names))
        for width in (20, 47, 80, 140):
            shown = text(made, width)
            assert not {one for one in shown if ord(one) < 32 or 127 <= ord(one) < 160} - {"\n"}
            assert "\u202e" not in shown
            assert [line for line in shown.splitlines() if cells(line) > width] == []

    @pytest.mark.parametrize("state", State)
    @pytest.mark.parametrize("relation", [None, *Relation])
    def test_the_explained_lines_end_at_the_line_of_the_decided_use(
        self, state: State, relation: Relation | None
    ) -> None:
        decided_use = use(state, relation)
        row = ExplainedPart(part_row("" if relation is None else "slurm", relation, decided_use), state)
        assert row.agrees
        by_line = {
            "a": {Use.UNKNOWN},
            "c": {Use.FREE, Use.UNALLOCATED_USE},
            "d": {Use.USED, Use.HELD},
            "e": {Use.USED_BY_OTHERS},
            "f": {Use.EMPTY},
            "g": {Use.UNKNOWN},
        }
        assert decided_use in by_line[row.lines[-1].line]
        assert [line.fits for line in row.lines] == [False] * (len(row.lines) - 1) + [True]

    @pytest.mark.parametrize(("relation", "title"), [(None, "Not allocated"), ("unknown", "Unknown whether")])
    def test_an_unknown_card_is_shown_as_not_allocated_only_if_that_is_known(
        self, relation: str | None, title: str
    ) -> None:
        shown = text(self.of(part(30, "", use="unknown", relation=relation), state="unknown", reason="lost", failed=1))
        assert title in shown
        assert ("Not allocated" in shown) == (relation is None)

    def test_the_page_of_the_rules_names_the_same_lines(self) -> None:
        page = (Path(__file__).parents[3] / "docs" / "rules.md").read_text("utf-8")
        assert set(re.findall(r"^\| ([a-g]) \|", page, re.MULTILINE)) == set("abcdefg")


def part_row(source: str, relation: Relation | None, of_use: Use) -> ExplainedPartRow:
    values = part(30, source, relation=relation, use=of_use)
    (row,) = EXPLAIN_ALLOCATIONS.parsed([values])
    return row


def test_an_active_tick_without_a_process_says_so_and_other_ticks_do_not() -> None:
    nobody = {
        "utilization": 9300,
        "memory_used_bytes": 2**20,
        "process_count_compute": 0,
        "process_memory_compute_bytes": 0,
    }

    def explained(seen: int | None) -> tuple[str, dict[str, Any]]:
        ticks = [tick(second, **nobody, processes_seen=seen) for second in (30, 60, 90)]
        found = explain(ExplainedStore(cards=[card("GPU-a")], ticks=ticks), request())
        text = " ".join(render_explanation(found, Style(width=100)).split())
        return text, json.loads(render_explanation_json(found))

    def judged(document: dict[str, Any]) -> object:
        (value,) = [one["value"] for one in document["ticks"][1]["judged"] if one["name"] == "without_process"]
        return value

    text, document = explained(0)
    assert "active, by line 2 of the rules" in text
    assert "No process was there: none was listed at the start or at the end of the tick" in text
    assert "without a process yes yes yes" in text
    assert judged(document) is True
    for seen in (1, None):
        text, document = explained(seen)
        assert "No process was there" not in text
        assert "without a process" not in text
        assert judged(document) is (None if seen is None else False)
