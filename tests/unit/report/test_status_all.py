"""``gua status --all``: a line a host, harmless and no wider than the terminal, the silent ones first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gua.cli.main import main
from gua.core.plaintext import cells
from gua.report.kit.style import Style
from gua.report.status.fleet import hosts_now, to_json, to_text

NOW_MS = 1_774_396_800_000
HOSTILE = "\x1b]0;owned\x07\u202e" + "x" * 10_000


class Views:
    """Answers with the rows it was given."""

    def __init__(self, **views: list[dict[str, Any]]) -> None:
        self.views = views
        self.asked: list[tuple[str, Mapping[str, object]]] = []

    @property
    def is_concurrent(self) -> bool:
        return False

    def rows(self, view: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
        self.asked.append((view, parameters))
        return self.views[view]


def host(name: str, **values: object) -> dict[str, Any]:
    return {
        "host": name,
        "host_id": "m",
        "instance": "i",
        "agents": 1,
        "version": "2.0.0",
        "source": "agent",
        "interval_ms": 30_000,
        "cards": 8,
        "first_ms": NOW_MS - 86_400_000,
        "last_ms": NOW_MS - 12_000,
        "received_ms": NOW_MS - 11_000,
        "newest_delay_ms": 1_000,
        "least_delay_ms": 400,
        "silent_after_ms": 300_000,
        "is_silent": 0,
        "labels": {},
        "now_ms": NOW_MS,
        **values,
    }


def states(
    name: str,
    active: int = 0,
    idle_held: int = 0,
    truly_idle: int = 0,
    unknown: int = 0,
    *,
    allocated: tuple[int, int, int] = (0, 0, 0),
) -> dict[str, Any]:
    return {
        "host": name,
        "active_cards": active,
        "idle_held_cards": idle_held,
        "truly_idle_cards": truly_idle,
        "unknown_cards": unknown,
        **dict(zip(("allocated_cards", "empty_cards", "source_cards"), allocated, strict=True)),
    }


def source(name: str, reason: str | None = None) -> dict[str, Any]:
    """Return a source that failed a minute ago, or never."""
    return {
        "host": name,
        "source": "slurm",
        "ok_ms": 800_000,
        "failed_ms": 0 if reason is None else 60_000,
        "reason": reason,
        "last_ms": NOW_MS,
        "last_failed_ms": None if reason is None else NOW_MS,
    }


def fleet() -> Views:
    return Views(
        host_status=[
            host("gpu-1"),
            host("gpu-2", last_ms=NOW_MS - 90_000_000, is_silent=1),
            host("gpu-3", newest_delay_ms=-7_500, least_delay_ms=-7_900, last_ms=NOW_MS + 3_000),
            host(
                "gpu-4", newest_delay_ms=600_000, least_delay_ms=590_000, interval_ms=600_000, silent_after_ms=1_800_000
            ),
            host(
                HOSTILE, version="", interval_ms=0, newest_delay_ms=None, least_delay_ms=None, labels={HOSTILE: HOSTILE}
            ),
        ],
        current_cards=[states("gpu-1", 5, 2, 1), states("gpu-2", 8), states("gpu-3", 0, 0, 8), states("gpu-4", 0, 8)],
        allocation_sources=[],
    )


def allocated() -> Views:
    """Return the same fleet, with allocation sources on two of its hosts."""
    views = fleet()
    views.views["current_cards"][:3] = [
        states("gpu-1", 5, 2, 1, allocated=(7, 1, 8)),
        states("gpu-2", 8, allocated=(8, 8, 8)),
        states("gpu-3", 0, 0, 8, allocated=(0, 0, 8)),
    ]
    views.views["allocation_sources"] = [source("gpu-1"), source("gpu-3", "squeue\x1b[31m: no answer within 3 s")]
    return views


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", range(60, 141, 5))
def test_no_line_is_wider_than_requested_and_names_are_sanitized(width: int, *, unicode: bool) -> None:
    text = "".join(to_text(hosts_now(one), Style(width=width, unicode=unicode)) for one in (fleet(), allocated()))
    assert [line for line in text.splitlines() if cells(line) > width] == []
    assert not {character for character in text if ord(character) < 32} - {"\n"}
    assert "\u202e" not in text
    assert len(text.splitlines()) < 40


@pytest.mark.parametrize("width", [60, 100])
def test_text_is_the_golden_one(golden: Callable[[str, str], None], width: int) -> None:
    golden(f"status-all-{width}.txt", to_text(hosts_now(fleet()), Style(width=width)))


def test_allocated_and_empty_cards_are_shown_beside_states_if_a_source_is_read(
    golden: Callable[[str, str], None],
) -> None:
    golden("status-all-allocated.txt", to_text(hosts_now(allocated()), Style(width=100)))
    assert "allocated" not in to_text(hosts_now(fleet()), Style(width=100))
    named = {one["host"]: one["allocation"] for one in json.loads(to_json(hosts_now(allocated())))["hosts"]}
    assert named["gpu-1"] == {
        "allocated_cards": 7,
        "empty_cards": 1,
        "sources": [{"source": "slurm", "ok": True, "reason": None}],
    }
    assert named["gpu-2"] is None  # silent
    assert named["gpu-3"]["sources"][0]["ok"] is False
    assert named["gpu-4"] is None


def test_a_source_that_cannot_be_read_is_named_with_its_reason() -> None:
    text = to_text(hosts_now(allocated()), Style(width=140))
    expected = "! Allocations cannot be read from slurm on gpu-3: squeue[31m: no answer within 3 s."
    assert expected in text
    assert "from slurm on gpu-1" not in text


def test_the_states_of_a_silent_host_are_not_known() -> None:
    named = {one["host"]: one for one in json.loads(to_json(hosts_now(fleet())))["hosts"]}
    assert next(iter(named)) == "gpu-2"
    assert named["gpu-2"]["states"] is None
    assert named["gpu-1"]["states"] == {"active": 5, "idle-held": 2, "truly-idle": 1, "unknown": 0}
    assert named[HOSTILE]["states"] is None
    assert (named[HOSTILE]["version"], named[HOSTILE]["interval_seconds"], named[HOSTILE]["delay_seconds"]) == (
        None,
    ) * 3


def test_cards_are_queried_as_far_back_as_the_slowest_host_needs() -> None:
    views = fleet()
    hosts_now(views)
    assert views.asked[1] == ("current_cards", {"since_ms": NOW_MS - 1_800_000, "hosts": []})


def test_an_empty_store_has_no_hosts() -> None:
    assert hosts_now(Views(host_status=[])) == []
    assert "no host yet" in to_text([], Style(width=60))


def test_an_unreachable_store_cannot_be_queried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--all", "--store", "clickhouse://nobody@127.0.0.1:9"]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_a_threshold_is_for_this_hosts_cards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GUA_MEMORY_THRESHOLD", raising=False)
    assert main(["status", "--all", "--memory-threshold", "1GiB"]) == 2
    assert "by the store's rules" in capsys.readouterr().err
