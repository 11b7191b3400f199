"""``gua top``: what is drawn of a snapshot, what keys change, and what silence makes of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.store import whole
from fakes.top import (
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    allocated,
    allocated_lab,
    allocation,
    card,
    fleet,
    holder,
    lab,
    snapshot,
    status,
)
from gua.core.errors import UnavailableError, UsageError
from gua.core.plaintext import cells
from gua.report.allocations import SOURCES
from gua.report.kit.style import Style
from gua.report.top import text as drawing
from gua.report.top.live import CURRENT_ALLOCATIONS, TOP_CARDS, keys_of, snapshot_of_agent, snapshot_of_store
from gua.report.top.model import SORTS, Snapshot, TopView, aged, chosen_cards, chosen_holders, press
from gua.report.top.text import render_top, render_top_json

Golden = Callable[[str, str], None]
HOSTILE = "\x1b]0;owned\x07\u202e<b>" + "x" * 10_000
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def drawn(snap: Snapshot, view: TopView | None = None, *, width: int = 100, **values: Any) -> str:  # noqa: ANN401 - of style
    height = values.pop("height", None)
    note = values.pop("note", None)
    return "\n".join(render_top(snap, view or TopView(), Style(width=width, **values), height=height, note=note)) + "\n"


def pids(snap: Snapshot, view: TopView) -> list[int | None]:
    return [one.pid for one in chosen_holders(snap, view)]


def typed(*keys: str, view: TopView | None = None) -> TopView:
    after = view or TopView()
    for key in keys:
        pressed = press(after, key)
        assert pressed is not None
        after = pressed
    return after


class TestDrawing:
    @pytest.mark.parametrize("width", [20, 40, 80, 140])
    def test_a_snapshot_is_the_golden_one(self, golden: Golden, width: int) -> None:
        golden(f"top-{width}.txt", drawn(lab(), width=width))

    def test_plain_text_is_the_golden_one(self, golden: Golden) -> None:
        text = drawn(lab(), width=100, unicode=False)
        assert text.isascii()
        golden("top-ascii.txt", text)

    def test_coloured_text_is_the_plain_one_with_colours(self, golden: Golden) -> None:
        text = drawn(lab(), width=100, colour=True)
        assert ANSI.sub("", text) == drawn(lab(), width=100)
        golden("top-colour.txt", text)

    @pytest.mark.parametrize("width", [60, 80, 140])
    def test_cards_that_are_allocated_are_the_golden_ones(self, golden: Golden, width: int) -> None:
        golden(f"top-allocated-{width}.txt", drawn(allocated_lab(), TopView(panes="cards"), width=width))

    def test_the_owner_of_an_allocation_is_shown_only_if_a_source_is_read(self) -> None:
        assert "allocated to" not in drawn(lab(), width=140)
        assert "allocated to" in drawn(allocated_lab(), width=80)

    @pytest.mark.parametrize(
        ("values", "text"),
        [
            (allocated(), "nobody"),
            ({**allocated(), "free_ms": 2 * MINUTE_MS}, "nobody 2m"),
            ({**allocated(), "free_ms": 2 * MINUTE_MS, "free_is_lower_bound": True}, "nobody ≥2m"),
            ({**allocated(), "free_ms": HOUR_MS}, "nobody"),
            ({"allocation": "unknown"}, "unknown"),
            (allocated(allocation()), "ana: empty 1h"),
            (allocated(allocation(use_is_lower_bound=True)), "ana: empty ≥1h"),
            (allocated(allocation(use="used-by-others")), "ana: used by others 1h"),
            (allocated(allocation(use="unknown")), "ana: use unknown 1h"),
            (allocated(allocation(use_ms=None, owner=None)), "?: empty"),
            (allocated(allocation(), allocation("78")), "ana: empty 1h +1"),
        ],
    )
    def test_a_allocation_in_few_words(self, values: dict[str, Any], text: str) -> None:
        lines = drawn(snapshot((card(0, **values),)), TopView(panes="cards"), width=140).splitlines()
        (row,) = (line for line in lines if line.startswith("0 "))
        assert f" {text} H100" in re.sub(" +", " ", row)

    def test_the_end_of_an_allocation_is_shown_if_it_is_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = time.mktime((2026, 12, 31, 23, 59, 59, 0, 0, -1))
        clock = SimpleNamespace(localtime=lambda seconds=now: time.localtime(seconds), strftime=time.strftime)
        monkeypatch.setattr(drawing, "time", clock)
        until = [round(now * 1000) + each for each in (0, 2_000, 84 * 24 * HOUR_MS, -2 * 24 * HOUR_MS)]
        allocations = [allocated(allocation(use="used", until_ms=each)) for each in (*until, 2**80, None)]
        cards = [card(number, **each) for number, each in enumerate(allocations)]
        shown = drawn(snapshot(cards), TopView(panes="cards"), width=90)
        rows = [line for line in shown.splitlines() if re.match(r"\d idle", line)]
        assert re.search(r"used 1h +23:59 +H100", rows[0])
        assert re.search(r"used 1h +2027-01-01 +H100", rows[1])
        assert re.search(r"used 1h +2027-03-25 +H100", rows[2])
        assert re.search(r"used 1h +12-29 23:59 +H100", rows[3])
        assert re.search(r"used 1h {6,}H100", rows[4])
        assert re.search(r"used 1h {6,}H100", rows[5])
        assert "until" not in drawn(snapshot((card(0, **allocations[5]),)), TopView(panes="cards"), width=90)

    def test_a_filter_finds_the_owner_of_an_allocation(self) -> None:
        for text in ("BOB", "78", "used-by", "kubernetes/"[:3]):
            found = chosen_cards(allocated_lab(), TopView(text=text))
            assert bool(found) is (text != "kub"), text
        assert [one.index for one in chosen_cards(allocated_lab(), TopView(text="bob"))] == [1, 2]

    def test_allocated_cards_are_counted_and_of_these_the_empty_ones(self) -> None:
        assert allocated_lab().allocated == (3, 1)
        assert lab().allocated is None
        assert "3 allocated, 1 of them empty" in " ".join(drawn(allocated_lab(), width=140).split())
        assert " allocated" not in drawn(lab(), width=140)
        made = json.loads(render_top_json(allocated_lab(), allocated_lab().cards, ()))
        assert made["allocated"] == {"allocated_cards": 3, "empty_cards": 1}
        assert json.loads(render_top_json(lab(), lab().cards, ()))["allocated"] is None

    def test_a_fleet_has_its_worst_cards_first(self, golden: Golden) -> None:
        golden("top-fleet.txt", drawn(fleet(), width=100, height=40))

    @pytest.mark.parametrize("height", [1, 2, 5, 10, 24, 60])
    @pytest.mark.parametrize("width", [20, 33, 60, 140])
    @pytest.mark.parametrize(
        "view",
        [
            TopView(),
            TopView(panes="cards", offset=7),
            TopView(panes="holders", offset=10_000),
            TopView(helping=True),
            TopView(typing=True, text=HOSTILE),
            TopView(text="nobody has this"),
            TopView(only_idle=True, paused=True, text="gpu"),
        ],
    )
    def test_no_screen_is_larger_than_the_terminal(self, view: TopView, width: int, height: int) -> None:
        for snap in (lab(), allocated_lab(), fleet(), snapshot(())):
            lines = render_top(snap, view, Style(width=width, colour=True), height=height, note="no news: " + HOSTILE)
            assert len(lines) <= height
            assert max(cells(ANSI.sub("", line)) for line in lines) <= width

    @pytest.mark.parametrize("width", [20, 60, 140])
    def test_names_that_would_paint_the_terminal_are_made_harmless(self, width: int) -> None:
        names = {"host": HOSTILE, "gpu": HOSTILE}
        snap = snapshot(
            (
                card(
                    None,
                    **names,
                    **allocated(allocation(HOSTILE, owner=HOSTILE, job_name=HOSTILE, use=HOSTILE)),
                    name=HOSTILE,
                    reason=HOSTILE,
                ),
                card(1, host="other", allocation=HOSTILE),
            ),
            (holder(**names, index=None, owner=HOSTILE, program=HOSTILE, container_id=HOSTILE, slurm_job_id=HOSTILE),),
            conditions=(HOSTILE[:300],),
        )
        text = drawn(snap, width=width)
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert max(cells(line) for line in text.splitlines()) <= width

    def test_no_bar_stands_without_its_number(self) -> None:
        for line in drawn(lab(), width=140).splitlines()[3:]:
            if "█" in line or "▍" in line:
                assert re.search(r"[0-9]\.[0-9] +[█▏▎▍▌▋▊▉]", line), line

    def test_a_silent_card_is_unobserved_with_how_long_and_never_idle(self) -> None:
        (line,) = (line for line in drawn(lab(), width=140).splitlines() if line.startswith("4 "))
        assert re.match(r"4 +unobserved +1h .*was idle-held$", line)
        assert "121" not in line  # the watts of then

    def test_an_active_card_without_a_process_has_a_note_until_it_is_silent(self) -> None:
        one = card(state="active", last_state="active", utilization=0.93, without_process=True)
        assert any(line.endswith("no process") for line in drawn(snapshot((one,)), width=140).splitlines())
        later = aged(snapshot((one,)), 3_600_000)
        assert later.cards[0].without_process is None
        assert not any(line.endswith("no process") for line in drawn(later, width=140).splitlines())

    def test_an_empty_snapshot_shows_that_it_is_empty(self) -> None:
        assert "no card yet" in drawn(snapshot(()))
        assert "no process holds any of these cards" in drawn(snapshot((card(),)))

    def test_help_names_every_key(self) -> None:
        text = drawn(lab(), TopView(helping=True), height=40)
        for key in ("s, 1 to 6", "/", "i", "v", "p, space", "q"):
            assert key in text


class TestKeys:
    def test_s_cycles_through_all_orders_and_digits_pick_one(self) -> None:
        view, seen = TopView(), []
        for _ in SORTS:
            seen.append(view.sort)
            view = typed("s", view=view)
        assert tuple(seen) == SORTS
        assert view.sort == SORTS[0]
        assert [typed(str(number)).sort for number in range(1, 7)] == list(SORTS)
        assert typed("7") == typed("0") == typed("²") == TopView()

    def test_a_filter_is_typed_kept_and_dropped(self) -> None:
        view = typed("/", "b", "o", "x", "backspace", "q", "backspace")
        assert (view.text, view.typing) == ("bo", True)
        assert (typed("enter", view=view).text, typed("enter", view=view).typing) == ("bo", False)
        assert typed("escape", view=view) == TopView()
        assert typed("enter", "escape", view=view) == TopView()

    def test_a_filter_takes_no_control_characters_and_has_an_end(self) -> None:
        assert typed("/", "\x1b", "\u202e", "up", "\x00", "é", " ", "a").text == "é a"
        assert len(typed("/", *"a" * 500).text) == 200

    def test_toggles(self) -> None:
        assert typed("i").only_idle
        assert not typed("i", "i").only_idle
        assert typed("p").paused
        assert not typed("p", " ").paused
        assert [typed(*"v" * count).panes for count in range(4)] == ["both", "cards", "holders", "both"]

    def test_help_is_left_by_any_key_and_q_quits_everywhere_but_in_a_filter(self) -> None:
        assert typed("h").helping
        assert typed("?", "i") == TopView()
        assert press(TopView(), "q") is None
        assert press(TopView(helping=True), "q") is None
        assert press(TopView(typing=True), "q") == TopView(typing=True, text="q")

    def test_the_list_moves_and_not_above_its_head(self) -> None:
        assert typed("down", "j", "page-down").offset == 12
        assert typed("down", "page-up").offset == 0
        assert typed("down", "k", "up").offset == 0
        below = drawn(fleet(), typed("v", "v", "down", "down"), height=20)
        assert "gpu-039/6" not in below

    def test_the_end_of_a_list_stays_on_the_screen(self) -> None:
        text = drawn(fleet(), TopView(panes="cards", offset=10_000), height=20)
        assert "more" not in text
        assert "gpu-000/1" in text

    @pytest.mark.parametrize(
        ("sent", "keys"),
        [
            ("q", ["q"]),
            ("/é ", ["/", "é", " "]),
            ("\x1b[A\x1bOBk\x1b[5~", ["up", "down", "k", "page-up"]),
            ("\x1b", ["escape"]),
            ("\x1b\x1b", ["escape", "escape"]),
            ("\x1b[1;5Cs", ["unknown", "s"]),
            ("\x1bx", ["unknown"]),
            ("\r\x7f", ["enter", "backspace"]),
            ("\x1b[" + "1" * 100 + "A", ["unknown", *"1" * 86, "A"]),
        ],
    )
    def test_what_a_terminal_sends_is_cut_into_keys(self, sent: str, keys: list[str]) -> None:
        assert [*keys_of(sent)] == keys


class TestChoosing:
    def test_holders_are_sorted_and_the_unknown_come_last(self) -> None:
        assert pids(lab(), TopView()) == [4242, 4247, 4244, 4243, 4246, 4245]
        assert pids(lab(), TopView(sort="memory"))[-2:] == [4244, 4245]
        assert pids(lab(), TopView(sort="utilization"))[0] == 4243
        assert pids(lab(), TopView(sort="utilization"))[-1] == 4245
        assert pids(lab(), TopView(sort="owner"))[-1] == 4245
        assert pids(lab(), TopView(sort="program"))[:2] == [4244, 4242]
        assert pids(lab(), TopView(sort="card")) == [4242, 4244, 4243, 4245, 4246, 4247]

    def test_a_filter_finds_holders_by_any_of_their_words_and_the_cards_that_they_hold(self) -> None:
        assert pids(lab(), TopView(text="BOB")) == [4244, 4243]
        assert pids(lab(), TopView(text="77")) == [4242]
        assert pids(lab(), TopView(text="b011d3bd")) == [4247]
        assert [one.index for one in chosen_cards(lab(), TopView(text="bob"))] == [1]
        assert [one.gpu for one in chosen_cards(lab(), TopView(text="unobserved"))] == ["GPU-4"]

    def test_only_idle_leaves_what_is_idle_and_nothing_that_is_not_known(self) -> None:
        assert pids(lab(), TopView(only_idle=True)) == [4242, 4247, 4244]
        shown = [one.gpu for one in chosen_cards(lab(), TopView(only_idle=True))]
        assert shown == ["GPU-0", "GPU-1", "MIG-1"]  # on GPU-1 a process idles beside one at work

    def test_cards_of_one_host_are_in_their_order_and_those_that_are_gone_last(self) -> None:
        assert [one.gpu for one in chosen_cards(lab(), TopView())] == [
            "GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-5", "MIG-1", "GPU-4",
        ]  # fmt: skip


class TestSilence:
    def test_cards_without_a_tick_for_three_intervals_become_unobserved(self) -> None:
        snap = snapshot((card(0, age_ms=12_000), card(1, age_ms=70_000)), (holder(), holder(gpu="GPU-1", index=1)))
        later = aged(snap, 21_000)
        assert [one.state for one in later.cards] == ["idle-held", "unobserved"]
        assert [(one.state, one.idle_ms) for one in later.holders] == [("idle", HOUR_MS), ("unobserved", None)]
        assert later.cards[1].last_state == "idle-held"
        assert later.cards[1].state_ms == 91_000

    def test_news_is_due_when_the_next_tick_is(self) -> None:
        assert snapshot((card(0, age_ms=12_000), card(1, age_ms=29_000))).due_ms == 1_000
        assert snapshot((card(0, age_ms=35_000),)).due_ms == 0
        assert snapshot((card(0, state="unobserved", age_ms=HOUR_MS),)).due_ms is None


class TestTheAgent:
    def test_a_card_that_was_given_back_is_free_since_then(self) -> None:
        snap = status()
        snap["cards"][0] |= {"free_seconds": 120.0, "free_is_lower_bound": True}
        (card,) = snapshot_of_agent(snap, where="").cards
        assert (card.free_ms, card.free_is_lower_bound) == (2 * MINUTE_MS, True)

    def test_its_cards_and_holders_are_shown_without_ignored_processes(self) -> None:
        snap = snapshot_of_agent(status(), where="/run/gua/agent.sock")
        (shown,), (held,) = snap.cards, snap.holders
        assert (shown.host, shown.state, shown.state_ms, shown.state_is_lower_bound) == (
            "gpu-1",
            "idle-held",
            3_600_000,
            True,
        )
        assert (held.pid, held.slurm_job_id, held.idle_ms, held.idle_is_lower_bound) == (1, "7", 3_600_000, True)

    def test_a_process_that_came_after_the_card_fell_idle_is_idle_no_longer_than_it_lives(self) -> None:
        snap = status()
        snap["cards"][0]["holders"][0]["since"] = "2999-01-01T00:00:00Z"
        assert snapshot_of_agent(snap, where="").holders[0].idle_ms == 0

    def test_how_long_a_process_is_idle_on_a_card_at_work_is_not_known(self) -> None:
        snap = status()
        snap["cards"][0]["state"] = "active"
        assert snapshot_of_agent(snap, where="").holders[0].idle_ms is None

    def test_an_active_card_without_a_process_is_marked(self) -> None:
        snap = status()
        snap["cards"][0] |= {"state": "active", "without_process_seconds": 60.0}
        assert snapshot_of_agent(snap, where="").cards[0].without_process is True
        snap["cards"][0] |= {"without_process_seconds": None}
        assert snapshot_of_agent(snap, where="").cards[0].without_process is False

    def test_a_card_that_it_has_not_read_for_three_intervals_is_unobserved(self) -> None:
        snap = status(stalled=True)
        snap["cards"][0]["sample_age_seconds"] = 91.0
        shown = snapshot_of_agent(snap, where="")
        assert shown.cards[0].state == shown.holders[0].state == "unobserved"
        assert "stalled" in shown.conditions[0]

    def test_allocations_of_a_card_are_sorted_worst_first(self) -> None:
        allocation = {"source": "slurm", "id": "77", "owner": "ana", "use": "used", "use_seconds": 60.0}
        snap = status(
            allocation_sources=[
                {"source": "files", "ok": True, "reason": None},
                {"source": "slurm", "ok": False, "reason": "no answer"},
            ]
        )
        snap["cards"][0] |= {
            "allocation": "allocated",
            "allocations": [
                allocation,
                {**allocation, "id": "78", "use": "empty", "use_is_lower_bound": True},
                {**allocation, "id": "79", "use": "free beer"},
            ],
        }
        shown = snapshot_of_agent(snap, where="")
        assert shown.cards[0].allocation == "allocated"
        assert [(one.id, one.use, one.use_ms, one.use_is_lower_bound) for one in shown.cards[0].allocations] == [
            ("78", "empty", 60_000, True),
            ("77", "used", 60_000, False),
            ("79", "unknown", 60_000, False),
        ]
        assert shown.conditions == ("allocations by slurm cannot be read: no answer",)

    @pytest.mark.parametrize("value", [None, "x", -1, 1e400, True, [], {}, 2**80])
    def test_nonsense_is_unknown(self, value: object) -> None:
        snap = status(conditions=value, agent=value, allocation_sources=[value, {"source": value}])
        snap["cards"] = [dict.fromkeys(snap["cards"][0], value), {}, value]
        snap["cards"][1] = {
            **status()["cards"][0],
            "holders": [dict.fromkeys(status()["cards"][0]["holders"][0], value)],
            "allocation": "allocated",
            "allocations": [dict.fromkeys(("source", "id", "owner", "uid", "pod_name", "use", "use_seconds"), value)],
        }
        drawn(snapshot_of_agent(snap, where=""))
        drawn(snapshot_of_agent(status(cards=value), where=""))


class Store:
    """Answers with the rows that it was given."""

    is_concurrent = False

    def __init__(self, **views: list[dict[str, Any]]) -> None:
        self.views = views

    def rows(self, view: str, parameters: object) -> list[dict[str, Any]]:  # noqa: ARG002 - as a store has it
        return self.views[view]


def test_an_empty_store_and_unknown_hosts_are_refused() -> None:
    with pytest.raises(UnavailableError, match="no ticks yet"):
        snapshot_of_store(Store(top_cards=[], top_holders=[], extent=[]), where="")
    extent = {"host": "gpu-1", "source": "agent", "cards": 1, "first_ms": 0, "last_ms": 1, "interval_ms": 1}
    with pytest.raises(UsageError, match="no host 'gpu-9' in this store: it knows gpu-1"):
        snapshot_of_store(Store(top_cards=[], top_holders=[], extent=[extent]), where="", hosts=["gpu-9"])


def test_a_store_yields_the_allocations_of_cards_and_the_unreadable_sources() -> None:
    row = whole(TOP_CARDS, {"host": "gpu-1", "gpu": "GPU-0", "state": "truly-idle", "last_state": "truly-idle"})
    job = whole(CURRENT_ALLOCATIONS, {"host": "gpu-1", "gpu": "GPU-0", "source": "slurm", "owner": "ana"})
    store = Store(
        top_cards=[{**row, "allocation": "allocated", "now_ms": NOW_MS}],
        top_holders=[],
        current_allocations=[
            {**job, "allocation_id": "7", "use": "used", "last_ms": NOW_MS, "use_since_ms": NOW_MS - MINUTE_MS},
            {**job, "allocation_id": "8", "use": "empty", "last_ms": NOW_MS, "use_since_ms": NOW_MS - HOUR_MS},
        ],
        allocation_sources=[
            whole(
                SOURCES, {"host": "gpu-1", "source": "slurm", "reason": "no answer", "last_ms": 9, "last_failed_ms": 9}
            )
        ],
    )
    shown = snapshot_of_store(store, where="")
    assert [(one.id, one.use, one.use_ms) for one in shown.cards[0].allocations] == [
        ("8", "empty", HOUR_MS),
        ("7", "used", MINUTE_MS),
    ]
    assert shown.allocated == (1, 1)
    assert shown.conditions == ("allocations by slurm on gpu-1 cannot be read: no answer",)
    bare = Store(top_cards=[{**row, "now_ms": NOW_MS}], top_holders=[])
    assert snapshot_of_store(bare, where="").allocated is None


def test_json_is_the_golden_one(golden: Golden) -> None:
    snap = lab()
    golden("top.json", render_top_json(snap, chosen_cards(snap, TopView()), chosen_holders(snap, TopView())))


def test_json_says_null_where_nothing_is_known() -> None:
    snap = replace(lab(), taken_ms=NOW_MS + MINUTE_MS)
    found = json.loads(render_top_json(snap, snap.cards, snap.holders))
    assert found["states"]["unobserved"] == 1
    unknown = next(one for one in found["holders"] if one["pid"] == 4245)
    assert (unknown["owner"], unknown["memory_bytes"], unknown["idle_seconds"]) == (None, None, None)
