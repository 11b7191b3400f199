"""docs/report-json.md names every key of the JSON of a report, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.reports import having, render_json, week_report
from gua.report.model import WithoutProcess
from gua.report.sections.allocation import AllocatedHours, AllocatedWork, AllocatedWorkBy
from gua.report.sections.card_streaks import IdleSplit, StuckCard
from gua.report.states import STATES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "report-json.md"
COSTS = ("cost", "wasted_cost")
BY_STATE = ("states", "costs")
BY_USE = "uses"
# Of these the states have keys of their own; all others have those of `states.<state>`.
OWN_STATES = ("money.costs[]", "energy.cards[]", "usefulness", "usefulness.cards[]")
# Objects that have the keys of another one.
LIKE = {
    r"headline\.idle_held\.(low|unknown)": "headline.idle_held.never_used",
    r"now\.maybe_allocated": "now.free",
    r"allocation\.allocated": "allocation.owners",
    r"previous\.coverage": "coverage",
    r"right_size\.(half|slice|smaller|any|none|not_known)": "right_size.every",
    r"usefulness\.loaded": "usefulness.states.<state>",
    r"usefulness\.cards\[\]\.(states|activity)": r"usefulness.\1",
}


def keys(value: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Yield the path of every key: ``now.holders[].pid``, states and reasons by their common name."""
    if isinstance(value, list):
        for one in value:
            yield from keys(one, f"{path}[]")
    elif isinstance(value, dict):
        for key, below in value.items():
            if path == "unknown":
                continue
            name = "<state>" if key in STATES and path not in {"", "headline.idle_held"} else key
            here = f"{path}.{name}".lstrip(".")
            if not here.endswith(".<state>") or path == "now.cards":
                yield here
            yield from _common(key, below) if _is_common(key, below, path) else keys(below, _like(here))


def _like(path: str) -> str:
    """Return the path of the object that documents the keys of this one."""
    for pattern, other in LIKE.items():
        if match := re.fullmatch(pattern, path):
            return match.expand(other)
    return path


def _is_common(key: str, below: object, path: str) -> bool:
    """Return whether an object has the same keys wherever it stands."""
    return isinstance(below, dict) and (key in COSTS or key == BY_USE or (key in BY_STATE and path not in OWN_STATES))


def _common(key: str, below: dict[str, Any]) -> set[str]:
    if key in COSTS:
        return {f"cost.{one}" for one in below}
    name = {"costs": "cost", BY_USE: "uses.<use>"}.get(key, f"{key}.<state>")
    return {f"{name}.{one}" for each in below.values() for one in each}


def documented() -> set[str]:
    """Return the path of every key that has a row, below the heading that names what it is of."""
    found: set[str] = set()
    for block in re.split(r"^##+ ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading = block.splitlines()[0]
        prefix = heading.strip("`") + "." if heading.startswith("`") else ""
        for row in re.findall(r"^\| (`.*?) \|", block, flags=re.MULTILINE):
            found |= {f"{prefix}{key}" for key in re.findall(r"`([^`]+)`", row)}
        if prefix and "." not in heading:
            found.add(heading.strip("`").removesuffix("[]"))
    return found - {"states", "cost", "uses"}


@pytest.fixture(scope="module")
def written() -> set[str]:
    week = week_report()
    work = AllocatedWork(name=None, allocated_gpu_ms=0, uses={})
    by_kind = replace(week[AllocatedHours], work_by=(AllocatedWorkBy(by="kind", rows=(work,)),))
    stuck = StuckCard(
        host="gpu-1", gpu="GPU-a", index=0, gpu_ms=1.0, longest_ms=1, since_ms=0, until_ms=1, is_current=True
    )
    split = replace(week[IdleSplit], stuck=(stuck,))
    without = WithoutProcess(gpu_ms=1.0, known_gpu_ms=1.0, share=1.0)
    known = replace(week, headline=replace(week.headline, active_without_process=without))
    return set(keys(json.loads(render_json(having(known, by_kind, split)))))


def test_every_key_is_documented(written: set[str]) -> None:
    assert written - documented() == set()


def test_every_documented_key_is_there(written: set[str]) -> None:
    assert documented() - written == set()


def test_an_undocumented_key_is_found() -> None:
    whole = json.loads(render_json(week_report()))
    whole["now"]["holders"][0]["colour"] = "red"  # type: ignore[index, call-overload] # a JSON object
    assert set(keys(whole)) - documented() == {"now.holders[].colour"}
