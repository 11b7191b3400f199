"""Cost for a tick and an agent of idle seconds and their energy, clock reasons, errors, and activity of cards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from measures.cost import resident
from measures.figures import middle, show, spread, title
from measures.host import CARDS, child, simulated, sleeping

from driver.fixture import SimulatedDriver
from driver.scenario import IDLE, Burst, Card, Constant, Fault, Load, Scenario, Wrong, crowd, replace_text

TURNS = 3
COST_LIMIT_MS, COST_LIMIT_MB = 0.3, 2.0
COST_LIMIT_RATIO = 0.1  # as of allocation: the same on a machine that others use, too
_NOT_SUPPORTED = 3
_HEALTH = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceRegisterEvents",
)
ACTIVITY = "activity of SMs and memory (GPM)"
_EVERY_OTHER_SECOND = Burst(period_ms=2000, on_ms=1000, percent=50)


def usefulness_cost(ticks: int) -> None:
    """Show a tick of cards that are busy every other second and report all values, beside some that report none."""
    title(f"Idle seconds, their power, clock reasons and errors of {CARDS} cards, beside none of it (CPU, memory)")
    refused: Sequence[Wrong] = [Fault(call, _NOT_SUPPORTED) for call in _HEALTH]
    with sleeping() as pids:
        host = crowd(pids, cards=CARDS)
        worlds = {
            "none of it": _host(host, Constant(50), refused),
            "clock reasons and errors": _host(host, Constant(50), ()),
            "idle seconds and their power": _host(host, IDLE, refused),
            "all of it": _host(host, IDLE, ()),
            ACTIVITY: _host(host, Constant(50), refused, has_counters=True),
        }
        found: dict[str, list[float]] = {name: [] for name in worlds}
        nvml: dict[str, list[float]] = {name: [] for name in worlds}
        sizes: dict[str, float] = {}
        for turn in range(TURNS):
            for name, world in worlds.items():
                with simulated(world) as driver:
                    if not turn:
                        sizes[name] = resident(driver, {})
                    blocks = _ticks(driver, world, ticks, *(["--activity"] if name == ACTIVITY else []))
                found[name].append(middle([block["ours_ms"] for block in blocks]))
                nvml[name].append(middle([block["nvml_ms"] for block in blocks]))
    before = middle(found["none of it"])
    for name, spent in found.items():
        note = f"{spread(spent)}; NVML and its simulation {middle(nvml[name]):.2f} besides"
        show(f"a tick with {name}", middle(spent), "ms", note=note)
    more = middle(found["all of it"]) - before
    show("more a tick", more, "ms", COST_LIMIT_MS)
    show("of a tick without", more / before, "", COST_LIMIT_RATIO)
    show("more a tick with activity", middle(found[ACTIVITY]) - before, "ms", COST_LIMIT_MS)
    show("more resident memory of an agent", sizes["all of it"] - sizes["none of it"], "MB", COST_LIMIT_MB)


def _host(scenario: Scenario, base: Load, wrong: Sequence[Wrong], *, has_counters: bool = False) -> Scenario:
    """Return cards with a load that changes each second, on top of one that stays."""

    def busy(card: Card) -> Card:
        first, second, *rest = card.processes
        processes = [replace(first, load=base), replace(second, load=_EVERY_OTHER_SECOND)]
        return replace(
            card, processes=[*processes, *(replace(one, load=IDLE) for one in rest)], wrong=wrong, gpm=has_counters
        )

    return replace(scenario, cards=[busy(card) for card in scenario.cards])


def _ticks(driver: SimulatedDriver, world: Scenario, ticks: int, *options: str) -> list[dict[str, float]]:
    """Return the blocks of ticks that an agent made in simulated time."""
    clock = driver.scenario.with_name("clock")
    clock.write_text("1", encoding="ascii")
    replace_text(driver.scenario, replace(world, clock=clock).text())
    blocks: list[dict[str, float]] = json.loads(
        child("tick", clock, "--ticks", ticks, *options, environ=driver.environment)
    )["blocks"]
    return blocks
