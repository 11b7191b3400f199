"""What became of what was allocated, case by case (tests/cases/allocation, which the SQL runs too)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.core.allocation import parts, use
from gua.core.facts import card_facts
from gua.core.rules import Rules, State, classify
from gua.core.tick import AllocationReading, CardReading
from gua.core.words import AllocationStatus, ProcessList, Relation, Use

CASES = sorted((Path(__file__).parents[2] / "cases" / "allocation").glob("*.json"))
RATIOS = {"utilization"}


def reading(case: dict[str, Any]) -> CardReading:
    """Return the card of a case as it was read."""
    stored = {name: value / 10_000 if name in RATIOS else value for name, value in case["card"].items()}
    kinds = {"process_list": ProcessList, "allocation": AllocationStatus, "failed": bool}
    read = {name: kinds[name](value) if name in kinds else value for name, value in stored.items()}
    allocations = (
        AllocationReading(**{**each, "relation": Relation(each["relation"])}) for each in case["allocations"]
    )
    return CardReading(uuid="GPU-1", **read, allocations=tuple(allocations))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = json.loads(path.read_text())
    card = reading(case)
    state = classify(card_facts(card), Rules(**case.get("rules", {}))).state
    found: list[dict[str, Any]] = [
        {
            "source": part.allocation.source if part.allocation else "",
            "id": part.allocation.id if part.allocation else "",
            "use": part.use,
            "is_shared": part.allocation is not None and part.allocation.relation is Relation.BOTH,
            "gpu_time_ms": part.gpu_time_ms,
        }
        for part in parts(card, state)
    ]
    assert (state, found) == (case["expect"]["state"], case["expect"]["parts"]), case["about"]
    if card.allocation is not None:
        assert sum(part["gpu_time_ms"] for part in found) == card.gpu_time_ms


def test_the_cases_reach_every_use_of_every_state_and_relation() -> None:
    reached = Counter(part["use"] for path in CASES for part in json.loads(path.read_text("utf-8"))["expect"]["parts"])
    assert len(CASES) >= 40
    assert set(reached) == set(Use)
    assert min(reached.values()) >= 3


@given(st.sampled_from(State), st.none() | st.sampled_from(Relation))
def test_only_known_states_and_relations_have_a_known_use(state: State, relation: Relation | None) -> None:
    known = use(state, relation) is not Use.UNKNOWN
    unlisted = relation is Relation.NOBODY and state is not State.TRULY_IDLE
    assert known == (state is not State.UNKNOWN and relation is not Relation.UNKNOWN and not unlisted)


MOST_MS = 100_000


@given(
    whole=st.integers(0, MOST_MS),
    nobodys=st.none() | st.integers(0, MOST_MS),
    times=st.lists(st.integers(0, MOST_MS), max_size=4),
    state=st.sampled_from(State),
    relation=st.sampled_from(Relation),
)
def test_the_parts_add_up_to_the_tick_for_any_allocations(
    whole: int, nobodys: int | None, times: list[int], state: State, relation: Relation
) -> None:
    card = CardReading(
        uuid="GPU-1",
        duration_ms=MOST_MS,
        gpu_time_ms=whole,
        allocation=AllocationStatus.ALLOCATED,
        unallocated_gpu_time_ms=nobodys,
        allocations=tuple(
            AllocationReading(source="slurm", id=str(number), relation=relation, duration_ms=1, gpu_time_ms=ms)
            for number, ms in enumerate(times)
        ),
    )
    made = parts(card, state)
    assert sum(part.gpu_time_ms for part in made) == whole
    assert len([part for part in made if part.allocation]) == len(times)
