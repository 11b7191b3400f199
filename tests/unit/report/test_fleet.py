"""Reports of many hosts: chosen by label, added up by group, and what is wrong with hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from fakes.reports import render_json
from fakes.store import DAY_MS, HOUR_MS, SINCE_MS, UNTIL_MS, FakeStore, card, extent, store_of
from gua.core.errors import UsageError
from gua.core.plaintext import cells
from gua.report.collect import collect
from gua.report.forms.text import render_text
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.sections.groups import MOST_GROUPS, MOST_OF_A_FLEET, Groupings
from gua.report.states import STATES
from gua.report.window import ReportRequest

HOSTILE = "\x1b]0;owned\x07\u202e" + "x" * 10_000
LABELS = {
    "a-1": {"host.name": "a-1", "team": "vision", "k8s.cluster.name": "a"},
    "a-2": {"host.name": "a-2", "team": "audio", "k8s.cluster.name": "a"},
    "b-1": {"host.name": "b-1", "team": "vision", "k8s.cluster.name": "b", HOSTILE: HOSTILE},
    "c-1": {"host.name": "c-1"},
}


def fleet(**views: object) -> FakeStore:
    """Return four hosts; a thousandth of a millisecond stands for MIG instances, whose time is no whole number."""
    cards = [
        card("a-1", "GPU-1", (30.0, 10.0, 8.0, 0.0), gaps=1),
        card("a-1", "GPU-2", (0.0, 48.0, 0.0, 0.0), gpu_index=1, gaps=3),
        card("a-2", "GPU-3", (1 / 3, 0.1, 0.0, 0.0), name="NVIDIA L4"),
        card("b-1", "GPU-4", (0.0, 0.0, 12.0, 0.0), name="NVIDIA L4", gaps=2)
        | {"expected_gpu_ms": 24.0 * HOUR_MS, "unobserved_gpu_ms": 12.0 * HOUR_MS},
        card("c-1", "GPU-5", (0.0, 0.0, 0.0, 1.0), name=None),
    ]
    labels = [{"host": host, "labels": of_host} for host, of_host in LABELS.items()]
    return store_of(cards, **{"labels": labels, **views})


def report(store: FakeStore, **asked: str | tuple[str, ...] | frozenset[str]) -> Report:
    return collect(store, ReportRequest(now_ms=UNTIL_MS, since="2d", **asked))


def troubled() -> FakeStore:
    quiet = {"ahead_ms": None, "behind_ms": None, "last_ms": UNTIL_MS - DAY_MS, "is_silent": 1}
    clock = {"ahead_ms": None, "behind_ms": None, "last_ms": UNTIL_MS, "is_silent": 0}
    agent = {"host": "c-1", "first_ms": SINCE_MS, "last_ms": UNTIL_MS}
    return fleet(
        fleet=[
            {**quiet, "host": "a-2"},
            {**quiet, "host": HOSTILE, "last_ms": UNTIL_MS - HOUR_MS},
            {**clock, "host": "a-1", "ahead_ms": 7_200_000},
            {**clock, "host": "b-1", "behind_ms": 90_000},
        ],
        host_name_conflicts=[
            {**agent, "instance": "11112222-3333-4444", "host_id": "aaaabbbbccccdddd"},
            {**agent, "instance": HOSTILE, "host_id": ""},
        ],
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_of_a_fleet_is_the_golden_one(golden: Callable[[str, str], None], width: int) -> None:
    every = tuple(f"host.name={host}" for host in LABELS)
    made = report(troubled(), where=every, by=("team", "model", HOSTILE))
    text = render_text(made, Style(width=width))
    assert [line for line in text.splitlines() if cells(line) > width] == []
    assert not {character for character in text if ord(character) < 32} - {"\n"}
    assert "\u202e" not in text
    golden(f"fleet-{width}.txt", text)


def test_json_of_a_fleet_is_the_golden_one(golden: Callable[[str, str], None]) -> None:
    made = report(fleet(), where=tuple(f"host.name={host}" for host in LABELS), by=("cluster",))
    golden("fleet.json", render_json(made))


def test_no_question_is_of_other_hosts_than_those_chosen_by_a_label() -> None:
    hours = [{"hour": SINCE_MS // HOUR_MS, "is_counted": True, "card_ticks": 12}]
    store = fleet(activity=[{"host": "a-1", "gpu": "GPU-1", "metric": 1, "known_us": 1}], hours=hours)
    report(store, where=("team=vision",), sections=frozenset({"right-size", "slow-cards", "usefulness"}))
    asked = {view: parameters["hosts"] for view, parameters in store.asked if "since_ms" in parameters}
    assert {"right_size", "card_sizes", "slow_cards", "activity_owners"} <= set(asked)
    assert [view for view, hosts in asked.items() if hosts != ["a-1", "b-1"]] == []


@pytest.mark.parametrize("by", ["host", "cluster", "model", "team"])
def test_groups_add_up_to_the_headline_exactly(by: str) -> None:
    made = report(fleet(), by=(by,))
    groups = made[Groupings][0].groups
    for state in STATES:
        assert round(sum(group.states[state].gpu_ms for group in groups), 3) == round(
            made.headline.states[state].gpu_ms, 3
        )
        assert sum(group.states[state].card_ticks or 0 for group in groups) == made.headline.states[state].card_ticks
    assert round(sum(group.expected_gpu_ms for group in groups), 3) == round(made.coverage.expected_gpu_ms, 3)
    assert sum(group.unobserved_gpu_ms for group in groups) == made.coverage.unobserved_gpu_ms
    assert sum(group.gaps for group in groups) == made.coverage.gaps
    assert sum(group.cards for group in groups) == len(made.cards)


def test_a_card_without_the_label_is_a_group_of_its_own() -> None:
    groups = report(fleet(), by=("team",))[Groupings][0].groups
    assert [(group.name, group.hosts, group.cards) for group in groups] == [
        ("audio", 1, 1),
        ("vision", 2, 3),
        (None, 1, 1),
    ]


@pytest.mark.parametrize(
    ("asked", "hosts"),
    [
        ({"where": ("team=vision",)}, ["a-1", "b-1"]),
        ({"where": ("team=vision", "team=audio")}, ["a-1", "a-2", "b-1"]),
        ({"where": ("team=vision",), "clusters": ("a",)}, ["a-1"]),
        ({"where": ("team=vision",), "hosts": ("b-1", "a-2")}, ["b-1"]),
        ({"where": ("host.name=c-1",)}, ["c-1"]),
        ({"where": (f"{HOSTILE}={HOSTILE}",)}, ["b-1"]),
        ({"clusters": ("a", "b")}, ["a-1", "a-2", "b-1"]),
        ({"where": tuple(f"host.name={host}" for host in LABELS)}, []),
    ],
)
def test_labels_select_the_hosts_that_every_view_is_queried_for(asked: dict[str, Any], hosts: list[str]) -> None:
    store = fleet()
    report(store, **asked)
    assert {tuple(parameters["hosts"]) for view, parameters in store.asked if "since_ms" in parameters} == {
        tuple(hosts)
    }


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"where": ("teem=vision",)}, "no host has a label 'teem': there are .*k8s.cluster.name, team, .*host.name"),
        ({"where": ("team=video",)}, r"no host has team=video: team is vision \(2\), audio \(1\)"),
        ({"where": ("team=audio",), "clusters": ("b",)}, "no host has k8s.cluster.name=b and team=audio together"),
        ({"where": ("team",)}, "--where 'team' is no label: write KEY=VALUE"),
        ({"where": ("=vision",)}, "--where '=vision' is no label"),
        ({"clusters": ("c",)}, r"no host has k8s.cluster.name=c: k8s.cluster.name is a \(2\), b \(1\)"),
        ({"by": ("rack",)}, "no host has a label 'rack': there are "),
        ({"hosts": ("c-1",), "where": ("team=vision",)}, "no host has a label 'team': there are host.name"),
        ({"where": (HOSTILE,)}, "is no label"),
    ],
)
def test_a_filter_that_matches_no_host_is_refused_with_the_known_values(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        report(fleet(), **asked)
    assert len(str(raised.value)) < 1000


def test_labels_are_queried_only_if_they_are_needed() -> None:
    store = fleet()
    report(store, by=("host", "model"))
    assert "labels" not in {view for view, _ in store.asked}


def test_silence_is_computed_at_the_windows_end_or_now() -> None:
    store = fleet()
    report(store, until="12h")
    assert [parameters["until_ms"] for view, parameters in store.asked if view == "fleet"] == [UNTIL_MS - DAY_MS // 2]
    later = fleet()
    report(later, until="2100-01-01")
    assert [parameters["until_ms"] for view, parameters in later.asked if view == "fleet"] == [UNTIL_MS]


def test_troubles_are_in_json_in_full_and_ids_short() -> None:
    made = json.loads(render_json(report(troubled())))
    assert [one["host"] for one in made["silent"]] == [HOSTILE, "a-2"]
    assert made["skewed"] == [
        {"host": "a-1", "ahead_seconds": 7200.0, "behind_seconds": None},
        {"host": "b-1", "ahead_seconds": None, "behind_seconds": 90.0},
    ]
    (claim,) = made["claimed"]
    assert claim["host"] == "c-1"
    assert {(agent["instance"], agent["host_id"]) for agent in claim["agents"]} == {
        ("11112222-333", "aaaabbbbcccc"),
        (HOSTILE[:12], None),
    }


def test_a_fleet_of_very_many_is_cut_and_says_how_many_are_left_out() -> None:
    hosts = [f"node-{number:04d}" for number in range(1_000)]
    cards = [card(host, f"GPU-{host}", (1.0, number / 100, 0.0, 0.0)) for number, host in enumerate(hosts)]
    quiet = [
        {"host": host, "last_ms": UNTIL_MS - DAY_MS, "is_silent": 1, "ahead_ms": None, "behind_ms": None}
        for host in hosts[:700]
    ]
    made = report(store_of(cards, extents=[extent(host) for host in hosts], fleet=quiet))
    text = render_text(made, Style(width=120))
    flat = " ".join(text.split())
    assert len(text.splitlines()) < 200
    assert f"{1_000 - MOST_GROUPS + 1} others" in flat
    assert f"and {1_000 - MOST_OF_A_FLEET} more with less idle time" in flat
    assert "700 hosts are silent: node-0000 since" in flat
    assert "and 695 more (--json has all)" in flat
    rows = re.findall(r"^  (?:node-\d+|\d+ others) +(\d+) ", text.split("Per card")[0], flags=re.MULTILINE)
    assert sum(map(int, rows)) == 1_000
    assert len(json.loads(render_json(made))["groups"][0]["groups"]) == 1_000
