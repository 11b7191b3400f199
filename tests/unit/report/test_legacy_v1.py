"""``gua report --rules gpu-usage-audit``: its rule beside ours, as rows, text and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.store import HOUR_MS, SINCE_MS, UNTIL_MS, FakeStore, extent
from gua.core.errors import UnavailableError
from gua.core.plaintext import cells
from gua.report.kit.style import Style
from gua.report.legacy_v1 import (
    WHY,
    collect_older_rules,
    render_older_json,
    render_older_text,
)
from gua.report.window import ReportRequest

REQUEST = ReportRequest(since="2d", now_ms=UNTIL_MS)


def row(gpu: str, theirs: str, ours: str, why: str, card_ticks: int, host: str = "node-1") -> dict[str, Any]:
    return {
        "host": host,
        "gpu": gpu,
        "theirs": theirs,
        "ours": ours,
        "why": why,
        "card_ticks": card_ticks,
        "gpu_time_ms": card_ticks * 30_000,
    }


def store(*rows: dict[str, Any], hours: int = 1, card_ticks: int = 960) -> FakeStore:
    return FakeStore(
        {
            "extent": [extent("node-1")],
            "hours": [
                {"hour": SINCE_MS // HOUR_MS + hour, "is_counted": True, "card_ticks": card_ticks}
                for hour in range(hours)
            ],
            "legacy_v1_rule": rows,
            "named_cards": [{"host": "node-1", "gpu": "GPU-b", "gpu_index": 1, "name": "H100"}],
        }
    )


MIXED = (
    row("GPU-b", "active", "active", "", 100),
    row("GPU-b", "idle-held", "truly-idle", "ignored", 12_000),
    row("GPU-a", "truly-idle", "truly-idle", "", 20),
    row("GPU-a", "not-counted", "unknown", "utilization", 1),
)


def test_cards_have_their_own_counts_by_both_rules() -> None:
    found = collect_older_rules(store(*MIXED), REQUEST)
    assert [(card.gpu, card.index, dict(card.theirs), dict(card.ours)) for card in found.cards] == [
        (
            "GPU-b",
            1,
            {"active": 100, "idle-held": 12_000, "truly-idle": 0, "not-counted": 0},
            {"active": 100, "idle-held": 0, "truly-idle": 12_000, "unknown": 0},
        ),
        (
            "GPU-a",
            None,
            {"active": 0, "idle-held": 0, "truly-idle": 20, "not-counted": 1},
            {"active": 0, "idle-held": 0, "truly-idle": 20, "unknown": 1},
        ),
    ]
    assert found.card_ticks == 12_121


def test_a_long_window_is_queried_in_parts_without_a_gap() -> None:
    asked = store(row("GPU-a", "active", "active", "", 5), hours=3, card_ticks=1_000_000)
    found = collect_older_rules(asked, REQUEST)
    parts = [(one["since_ms"], one["until_ms"]) for view, one in asked.asked if view == "legacy_v1_rule"]
    assert parts == [(SINCE_MS + hour * HOUR_MS, SINCE_MS + (hour + 1) * HOUR_MS) for hour in range(3)]
    assert found.card_ticks == 15


def test_the_text_says_where_and_why_ours_differs() -> None:
    text = render_older_text(collect_older_rules(store(*MIXED), REQUEST), Style(width=100))
    assert "1 GPU-b     100     12,000           0            0" in text
    assert "idle-held         0          0      12,000        0" in text
    assert "120 of 12,121 card ticks are the same by both (0.99 %)." in text
    assert (
        "idle-held by it, truly-idle by ours: 12,000 card ticks, 100.0 GPU-hours: the memory is of programs that "
        "are no users of a card, such as Xorg: its rule counts them."
    ) in " ".join(text.split())


def test_full_agreement_is_shown() -> None:
    text = render_older_text(collect_older_rules(store(MIXED[0]), REQUEST), Style())
    assert "100 of 100 card ticks are the same by both (100.00 %)." in text
    assert "Nowhere." in text
    assert "not-counted" not in text


def test_almost_all_is_not_all() -> None:
    rows = (row("GPU-a", "active", "active", "", 999_999), row("GPU-a", "active", "unknown", "lost", 1))
    assert "(99.99 %)" in render_older_text(collect_older_rules(store(*rows), REQUEST), Style())


@pytest.mark.parametrize("width", [20, 40, 60, 80, 140])
def test_no_line_is_wider_than_the_requested_width(width: int) -> None:
    rows = [row(f"GPU-{number:032d}", "idle-held", "truly-idle", why, 123_456) for number, why in enumerate(WHY)]
    text = render_older_text(collect_older_rules(store(*rows), REQUEST), Style(width=width))
    assert max(map(cells, text.splitlines())) <= width


def test_names_that_mean_harm_do_none() -> None:
    evil = row("GPU-\x1b[2J\u202e", "active", "active", "", 1, host="node-1")
    text = render_older_text(collect_older_rules(store(evil), REQUEST), Style())
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_json_has_numbers_as_numbers() -> None:
    document = json.loads(render_older_json(collect_older_rules(store(*MIXED), REQUEST)))
    assert document["schema"] == "gua.older-rules/1"
    assert document["window"] == {"since": "2026-03-25T00:00:00Z", "until": "2026-03-27T00:00:00Z"}
    assert document["cross"][:2] == [
        {
            "gpu-usage-audit": "idle-held",
            "gua": "truly-idle",
            "reason": "ignored",
            "card_ticks": 12_000,
            "gpu_hours": 100.0,
        },
        {"gpu-usage-audit": "active", "gua": "active", "reason": None, "card_ticks": 100, "gpu_hours": 0.833333},
    ]


def test_a_window_without_ticks_is_reported() -> None:
    with pytest.raises(UnavailableError, match="no data from"):
        collect_older_rules(store(), REQUEST)
