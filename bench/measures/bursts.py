"""Interval coverage: loads of 10 % in bursts of different lengths, as ticks of 30 s measure them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from measures.figures import show, title
from measures.host import child, simulated

from driver.scenario import GIB, Burst, Card, Instance, Process, Scenario, replace_text, uuid

# No multiple of the interval: else the instant reading would always meet the same moment of a burst.
PERIODS_MS = (470, 3_100, 19_300)
PART = 0.1
LIMIT_POINTS = 1.0


@dataclass(frozen=True)
class Measured:
    name: str
    uuid: str
    burst: Burst


def bursts(ticks: int) -> None:
    """Show what is measured of each load, and what instant readings would have reported."""
    title(
        f"A load of 10 % in bursts, {ticks} ticks of 30 s, in points: mean over all, and one tick against its own span"
    )
    cards = [
        Measured(f"bursts every {period_ms / 1000:g} s", uuid(number), _burst(period_ms))
        for number, period_ms in enumerate(PERIODS_MS)
    ]
    instance = Measured("MIG instance, every 3.1 s (GPM)", "MIG-1", _burst(3_100))
    scenario = Scenario(
        [
            *(Card(one.uuid, processes=[Process(1000, load=one.burst)]) for one in cards),
            Card(uuid(9), mig="on", gpm=True, instances=[Instance(instance.uuid, 1, 3, 40 * GIB, load=instance.burst)]),
        ]
    )
    with simulated(scenario) as driver:
        clock = driver.scenario.with_name("clock")
        clock.write_text("1774413000000000", encoding="ascii")
        replace_text(driver.scenario, f"clock {clock}\n{scenario.text()}")
        rows = json.loads(child("coverage", clock, ticks, environ=driver.environment))
    for one in [*cards, instance]:
        _show(one, rows)


def _burst(period_ms: float) -> Burst:
    return Burst(period_ms=period_ms, on_ms=PART * period_ms, phase_ms=137)


def _show(one: Measured, rows: list[dict[str, Any]]) -> None:
    true = [_busy(one.burst, row["ts_ms"], row["seconds"][one.uuid]) for row in rows]
    for kind, limit in (("mean", LIMIT_POINTS), ("instant", None)):
        told = [row[kind][one.uuid] for row in rows]
        if None in told:
            show(f"{one.name}, {kind}", "unknown", note=f"{told.count(None)} of {len(told)} ticks")
            continue
        errors = [abs(value - real) * 100 for value, real in zip(told, true, strict=True)]
        overall = sum(told) / len(told) * 100
        note = f"overall {overall:.2f} %; worst tick {max(errors):.2f} off, on average {sum(errors) / len(errors):.2f}"
        show(f"{one.name}, {kind}: off by", abs(overall - sum(true) / len(true) * 100), "pts", limit, note)


def _busy(burst: Burst, end_ms: float, seconds: float) -> float:
    """Return the part of a span in which the load was on."""

    def until(time_ms: float) -> float:
        periods, rest = divmod(time_ms - burst.phase_ms, burst.period_ms)
        return periods * burst.on_ms + min(rest, burst.on_ms)

    return (until(end_ms) - until(end_ms - seconds * 1000)) / (seconds * 1000)
