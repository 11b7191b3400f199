"""``gua idle``: what a status of the agent says of cards, processes, users, jobs, pods and containers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fakes.cards import GIB, INTERVAL_MS, START_MS, allocated, allocation, card, process, tick
from gua.agent.card_status import MOST_HOLDERS, Standing, card_status, follow, in_order
from gua.cli import idle, main
from gua.core.errors import UnavailableError
from gua.core.rules import Rules
from gua.core.tick import CardReading
from gua.core.words import ProcessList, ProcessType, Relation
from gua.report.status.idle import Idleness, IdleVerdict, idleness

TICK_MS = INTERVAL_MS
IDLE_MS = 10 * TICK_MS


def status(*ticks: Sequence[CardReading], stalled: bool = False) -> dict[str, Any]:
    """Return the status after ticks in a row, as JSON has it."""
    known: dict[str, Standing] = {}
    for place, cards in enumerate(ticks, start=1):
        known = follow(known, tick(START_MS + place * TICK_MS, *cards), Rules())
    cards_now = [card_status(one, Rules(), age_seconds=1.0) for one in in_order(known)]
    made: dict[str, Any] = json.loads(json.dumps({"running": True, "stalled": stalled, "cards": cards_now}))
    return made


def held(idle_ms: int | None = IDLE_MS, busy: float | None = 0.0, **values: object) -> CardReading:
    """Return a card with one process, idle for so long."""
    one = process(4711, GIB, utilization=busy, idle_ms=idle_ms, **values)
    return card(busy=busy, held=GIB, processes=(one,))


def judged(found: dict[str, Any], kind: str, value: str, *, ticks: int = 4) -> IdleVerdict:
    return idleness(found, kind, value, for_ms=ticks * TICK_MS).verdict


def test_a_card_is_idle_from_the_first_idle_tick_on_whatever_holds_it() -> None:
    found = status([card(busy=0.9)], [card(held=GIB)], [card(held=GIB)], [card()], [card()])
    assert found["cards"][0]["idle_seconds"] == 4 * TICK_MS / 1000
    assert judged(found, "card", "0") is IdleVerdict.IDLE
    assert judged(found, "card", "GPU-1") is IdleVerdict.IDLE
    assert judged(found, "card", "0", ticks=5) is IdleVerdict.IN_USE


def test_a_time_that_was_not_observed_is_unknown_and_not_too_short() -> None:
    found = status([card()], [card()])
    assert judged(found, "card", "0", ticks=2) is IdleVerdict.IDLE
    answer = idleness(found, "card", "0", for_ms=3 * TICK_MS)
    assert (answer.verdict, answer.reason) == (IdleVerdict.UNKNOWN, "GPU 0: truly-idle, observed for 1m only")


def test_unknown_time_ends_what_is_known() -> None:
    found = status([card(busy=0.9)], [card()], [card()], [card(failed=True)], [card()])
    assert judged(found, "card", "0", ticks=2) is IdleVerdict.IN_USE
    assert judged(status([card()], [card(failed=True)]), "card", "0", ticks=1) is IdleVerdict.UNKNOWN


def test_all_cards_are_judged_without_a_selection() -> None:
    busy = card("GPU-2", busy=0.9, index=1)
    assert judged(status([card()]), "", "", ticks=1) is IdleVerdict.IDLE
    answer = idleness(status([card(), busy]), "", "", for_ms=TICK_MS)
    assert (answer.verdict, answer.reason) == (IdleVerdict.IN_USE, "GPU 1: it is active")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("pid", "4711"),
        ("user", "ana"),
        ("user", "1000"),
        ("job", "77"),
        ("pod", "team/train-0"),
        ("pod", "uid-1"),
        ("container", "c0ffee"),
    ],
)
def test_a_process_is_selected_by_what_it_belongs_to(kind: str, value: str) -> None:
    of: dict[str, object] = {"slurm_job_id": "77", "pod_uid": "uid-1", "pod_name": "train-0", "pod_namespace": "team"}
    of["container_id"] = "c0ffee"
    assert judged(status([held(**of)]), kind, value) is IdleVerdict.IDLE
    assert judged(status([held(IDLE_MS // 5, **of)]), kind, value) is IdleVerdict.IN_USE
    assert judged(status([held(0, busy=0.5, **of)]), kind, value) is IdleVerdict.IN_USE
    assert judged(status([held(None, busy=None, **of)]), kind, value) is IdleVerdict.UNKNOWN
    assert judged(status([held(**of)]), kind, "another") is IdleVerdict.UNKNOWN


def test_one_process_in_use_or_unknown_decides_for_all_of_a_user() -> None:
    idle_one = process(1, GIB, utilization=0.0, idle_ms=IDLE_MS)
    for other, expected in (
        (process(2, GIB, utilization=0.5, idle_ms=0), IdleVerdict.IN_USE),
        (process(2, GIB, utilization=None, idle_ms=None), IdleVerdict.UNKNOWN),
        (process(2, GIB, utilization=0.5, idle_ms=0, owner="bob", uid=1001), IdleVerdict.IDLE),
        (process(2, GIB, utilization=None, idle_ms=None, type=ProcessType.IGNORED), IdleVerdict.IDLE),
    ):
        found = status([card(held=2 * GIB, processes=(idle_one, other))])
        assert judged(found, "user", "ana") is expected


def test_an_allocation_without_a_process_is_idle_for_the_time_without_one() -> None:
    empty = card(**allocated(allocation("77", Relation.NOBODY)))
    one = process(4711, GIB, utilization=0.9, idle_ms=0)
    used = card(busy=0.9, held=GIB, **allocated(allocation("77")), processes=(one,))
    found = status([used], *([empty] for _ in range(4)))
    assert judged(found, "job", "77") is IdleVerdict.IDLE
    assert judged(found, "job", "77", ticks=5) is IdleVerdict.IN_USE
    assert judged(found, "user", "ana") is IdleVerdict.IDLE
    unknown = card(**allocated(allocation("77", Relation.UNKNOWN)), process_list=ProcessList.FAILED)
    assert judged(status([unknown]), "job", "77") is IdleVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("busy", "relation", "expected"),
    [
        (0.9, Relation.OWNER, IdleVerdict.IN_USE),
        (0.9, Relation.BOTH, IdleVerdict.IN_USE),
        (0.9, Relation.OTHERS, IdleVerdict.UNKNOWN),
        (0.0, Relation.OWNER, IdleVerdict.IDLE),
    ],
)
def test_a_card_in_use_decides_beside_an_empty_one_though_no_process_names_the_job(
    busy: float, relation: Relation, expected: IdleVerdict
) -> None:
    one = process(4711, GIB, utilization=busy, idle_ms=0 if busy else IDLE_MS)
    first = card(busy=busy, held=GIB, **allocated(allocation("77", relation)), processes=(one,))
    second = card("GPU-2", index=1, **allocated(allocation("77", Relation.NOBODY)))
    assert judged(status(*([first, second] for _ in range(4))), "job", "77", ticks=3) is expected


def test_a_used_card_is_in_use_though_the_only_process_that_names_the_job_is_idle() -> None:
    named, other = process(1, GIB, utilization=0.0, idle_ms=IDLE_MS, slurm_job_id="77"), process(2, GIB, idle_ms=0)
    own = card(busy=0.9, held=2 * GIB, **allocated(allocation("77")), processes=(named, other))
    assert judged(status([own]), "job", "77") is IdleVerdict.IN_USE
    shared = card(busy=0.9, held=2 * GIB, **allocated(allocation("77", Relation.BOTH)), processes=(named, other))
    assert judged(status([shared]), "job", "77") is IdleVerdict.IDLE


def test_a_card_with_incomplete_processes_makes_the_answer_unknown() -> None:
    other = card("GPU-2", index=1, process_list=ProcessList.PID_NAMESPACE)
    assert judged(status([held()]), "user", "ana") is IdleVerdict.IDLE
    assert judged(status([held(), other]), "user", "ana") is IdleVerdict.UNKNOWN
    many = tuple(process(pid, GIB, utilization=0.0, idle_ms=IDLE_MS) for pid in range(1, MOST_HOLDERS + 2))
    assert judged(status([card(held=GIB, processes=many)]), "user", "ana") is IdleVerdict.UNKNOWN


def test_a_stalled_agent_and_a_missing_card_are_unknown() -> None:
    assert judged(status([held()], stalled=True), "user", "ana") is IdleVerdict.UNKNOWN
    assert judged(status([card()]), "card", "7") is IdleVerdict.UNKNOWN


def test_the_command_answers_by_exit_code_line_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("GUA_HOME", str(tmp_path))
    for found, code, line in (
        (status([held()]), 0, "idle: process 4711 on GPU 0: idle for 5m\n"),
        (status([held(0, busy=0.5)]), 1, "in use: process 4711 on GPU 0: it is active\n"),
        (status([card()]), 3, "unknown: user ana: it has no process and no allocation on any card\n"),
    ):
        monkeypatch.setattr(idle, "query_status", lambda _, found=found: found)
        assert main.main(["idle", "--for", "2m", "--user", "ana"]) == code
        assert capsys.readouterr().out == line
        assert main.main(["idle", "--for", "2m", "--user", "ana", "--json"]) == code
        made = json.loads(capsys.readouterr().out)
        assert (made["schema"], made["idle"], made["for_seconds"]) == ("gua.idle/1", {0: True, 1: False}.get(code), 120)


def test_no_agent_a_strange_answer_and_two_selections(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("GUA_HOME", str(tmp_path))

    def no_agent(_: Path) -> dict[str, Any]:
        raise UnavailableError("no agent runs here")

    monkeypatch.setattr(idle, "first_response", lambda _, query: query(tmp_path))
    monkeypatch.setattr(idle, "query_status", no_agent)
    assert main.main(["idle", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["reason"] == "no agent runs here"
    for strange in ({}, {"cards": 1}, {"cards": [{"state": []}]}, {"cards": [{"holders": 5}]}):
        monkeypatch.setattr(idle, "query_status", lambda _, strange=strange: strange)
        assert main.main(["idle", "--user", "ana"]) in {3, 4}
        assert "fault in gua" not in capsys.readouterr().err
    assert main.main(["idle", "--user", "ana", "--card", "0"]) == 2
    assert main.main(["idle", "--for", "soon"]) == 2


def test_names_from_outside_do_not_reach_a_terminal_raw() -> None:
    answer: Idleness = idleness(status([held(slurm_job_id="7\x1b[31m")]), "job", "7\x1b[31m", for_ms=TICK_MS)
    assert answer.verdict is IdleVerdict.IDLE
