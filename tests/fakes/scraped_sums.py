"""The report of the scraped day, computed from its samples by docs/rules.md alone, without the import's code.

- A sample stands for the time before it: the interval, or the time since the sample before it if that is less. All
  other time is unobserved.
- In steps, a step's time is its end; its utilization and memory are the means of its samples, and it covers one
  interval for each sample, or all of itself if less than one sample is missing. A mean with NaN, or of values out of
  range, is unknown.
- VictoriaMetrics keeps no NaN: the same for raw samples, as memory shows that the card was read; the mean of a step is
  then that of its other samples.
- Of several targets one counts at a time: dcgm-exporter before nvitop-exporter, replica a before b. What the next one
  has in the holes of the one before counts, as far as its ticks overlap nothing.
- State: active from 10 % on (line 2). Else truly-idle up to 100 MiB, even if utilization is unknown (line 3a), and
  idle-held above (line 4c), both only if memory is known. Else unknown (line 5).
- A MIG instance counts as its slices of 7, in whole ms of each tick, and so do its holes. Slices without an instance
  are truly-idle.
- Energy is that between two values of the counter if no scrape is missing between, else power x time. Only whole GPUs
  have any.
- Use: a pod alone on a card has used it while it was active, held while idle-held, left it empty while truly-idle. Of
  several pods at once the use is unknown, in equal parts. nvitop-exporter knows nothing of pods: no source of
  allocations. A step is divided by the numbers of samples with each pod and without; if several had the card in any of
  them, it is not known in which, so all pods of the step are unknown.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import NamedTuple

from fakes.scraped_day import INTERVAL_MS, TARGETS, Card, Reading, Target, readings

HOUR_US = 3_600_000_000
QUARTER_MS = 900_000


@dataclass(frozen=True)
class Tick:
    """What is known of a card in (``since_ms``, ``until_ms``]; ``pods`` has the samples with each pod, or none ("")."""

    since_ms: int
    until_ms: int
    busy: float | None
    used: float | None
    watts: float
    joules: float | None
    pods: Counter[str]
    samples: int
    is_mapped: bool

    @property
    def state(self) -> str:
        """Return the state by the rules."""
        if self.busy is not None and self.busy >= 10:
            return "active"
        if self.used is None:
            return "unknown"
        if self.used <= 100:
            return "truly-idle"
        return "unknown" if self.busy is None else "idle-held"

    @property
    def reason(self) -> str:
        """Return why it is unknown: without a list of processes, memory alone would decide."""
        return "utilization" if self.busy is None else "processes"

    def uses(self, gpu_ms: int) -> Iterator[tuple[str, str, int, int]]:
        """Yield pod, use, and from where to where in the tick's GPU time [ms]; nothing without a source."""
        if not self.is_mapped:
            return
        without = self.pods[""]
        with_pods = sum(self.pods.values()) - without
        several = with_pods + without > self.samples
        # Time without a pod is the last part.
        left_ms = gpu_ms * (self.samples - without) // self.samples
        before = 0
        for pod in sorted(pod for pod in self.pods if pod):
            since, before = left_ms * before // with_pods, before + self.pods[pod]
            use = {"active": "used", "idle-held": "held", "truly-idle": "empty", "unknown": "unknown"}[self.state]
            yield pod, "unknown" if several else use, since, left_ms * before // with_pods
        if without:
            use = {"truly-idle": "free", "unknown": "unknown"}.get(self.state, "unallocated-use")
            yield "", use, left_ms, gpu_ms


class Shown(NamedTuple):
    """A card of the report: its name, host, part of a GPU in slices of 7, and ticks in the order of time."""

    gpu: str
    host: str
    slices: int
    ticks: Sequence[Tick]


def known(value: float, most: float) -> float | None:
    """Return a sample or a mean, ``None`` if it is none of this measure."""
    return value if 0 <= value <= most else None


def counted(before: Reading, after: Reading) -> float | None:
    """Return the energy between two readings [J], ``None`` without a counter."""
    return None if before.joules is None or after.joules is None else after.joules - before.joules


def raw_ticks(target: Target, card: Card) -> Iterator[Tick]:
    """Yield a tick for each sample."""
    before: Reading | None = None
    for reading in readings(target, card):
        yield Tick(
            since_ms=max(before.at_ms if before else 0, reading.at_ms - INTERVAL_MS),
            until_ms=reading.at_ms,
            busy=known(reading.busy, 100),
            used=known(reading.used, 2**30),
            watts=reading.watts,
            joules=counted(before, reading) if before and reading.at_ms - before.at_ms < 2 * INTERVAL_MS else None,
            pods=Counter(reading.pods or ("",)),
            samples=1,
            is_mapped=target.exporter == "dcgm",
        )
        before = reading


def mean(values: Iterable[float], most: float, *, keeps_nan: bool) -> float | None:
    """Return the mean of a step."""
    there = [one for one in values if keeps_nan or not math.isnan(one)]
    return known(fmean(there), most) if there else None


def step_ticks(target: Target, card: Card, step_ms: int, *, keeps_nan: bool) -> Iterator[Tick]:
    """Yield a tick for each step with samples."""
    steps: dict[int, list[Reading]] = {}
    for reading in readings(target, card):
        steps.setdefault(-(-reading.at_ms // step_ms) * step_ms, []).append(reading)
    last: Reading | None = None
    for end_ms, samples in steps.items():
        covered_ms = len(samples) * INTERVAL_MS
        if covered_ms > step_ms - INTERVAL_MS:
            covered_ms = step_ms
        if last is not None and end_ms - last.at_ms > step_ms + INTERVAL_MS:
            last = None
        yield Tick(
            since_ms=end_ms - covered_ms,
            until_ms=end_ms,
            busy=mean((one.busy for one in samples), 100, keeps_nan=keeps_nan),
            used=mean((one.used for one in samples), 2**30, keeps_nan=keeps_nan),
            watts=fmean(one.watts for one in samples),
            joules=counted(last, samples[-1]) if last and covered_ms == step_ms else None,
            pods=Counter(pod for one in samples for pod in one.pods or ("",)),
            samples=len(samples),
            is_mapped=target.exporter == "dcgm",
        )
        last = samples[-1]


def together(every: Sequence[Sequence[Tick]]) -> list[Tick]:
    """Return the ticks of the first target, and those of each next one that overlap none so far."""
    chosen: list[Tick] = []
    for ticks in every:
        taken = iter(chosen)
        near = next(taken, None)
        kept = []
        for tick in ticks:
            while near is not None and near.until_ms <= tick.since_ms:
                near = next(taken, None)
            if near is None or near.since_ms >= tick.until_ms:
                kept.append(tick)
        chosen = sorted([*chosen, *kept], key=lambda one: one.until_ms)
    return chosen


def shown(step_ms: int = 0, *, keeps_nan: bool = True) -> list[Shown]:
    """Return all cards with their ticks; ``step_ms`` is 0 for raw samples."""
    every: dict[str, list[tuple[Target, Card]]] = {}
    for target in TARGETS:
        for card in target.cards:
            every.setdefault(card.id, []).append((target, card))
    found: list[Shown] = []
    for gpu, of_card in every.items():
        made = [[*(step_ticks(*one, step_ms, keeps_nan=keeps_nan) if step_ms else raw_ticks(*one))] for one in of_card]
        target, card = of_card[0]
        slices = 7 if card.instance is None else card.instance[2]
        found.append(Shown(gpu, target.host, slices, together(made)))
    instances = [one for one in found if one.slices < 7]
    free = [
        Tick(one.since_ms, one.until_ms, 0, 0, 0, None, Counter({"": one.samples}), one.samples, is_mapped=True)
        for one in instances[0].ticks
    ]
    parent = instances[0].gpu.split("/")[0].removeprefix("MIG-")
    return [*found, Shown(parent, instances[0].host, 7 - sum(one.slices for one in instances), free)]


def within(cards: Sequence[Shown], since_ms: int, until_ms: int) -> list[Shown]:
    """Return the cards with the ticks of a window alone: a card is expected from its first tick in the store."""
    return [
        card._replace(ticks=[one for one in card.ticks if one.until_ms > since_ms and one.since_ms < until_ms])
        for card in cards
    ]


def report(cards: Sequence[Shown], since_ms: int, until_ms: int, offset_ms: int = 0) -> dict[str, float]:
    """Return each number of the report of a window by a name. ``offset_ms`` is that of the zone of its hours."""
    sums: defaultdict[str, float] = defaultdict(float)
    for card in cards:
        first_ms, last_ms = card.ticks[0].since_ms, card.ticks[-1].until_ms
        whole = Fraction(sum((one.until_ms - one.since_ms) * card.slices // 7 for one in card.ticks))
        share = whole / sum(one.until_ms - one.since_ms for one in card.ticks)
        expected = (min(last_ms, until_ms) - max(first_ms, since_ms)) * 1000 * share
        observed = 0
        for tick in card.ticks:
            begin_ms, end_ms = max(tick.since_ms, since_ms), min(tick.until_ms, until_ms)
            if begin_ms >= end_ms:
                continue
            whole_ms = (tick.until_ms - tick.since_ms) * card.slices // 7
            us = round(whole_ms * 1000 * (end_ms - begin_ms) / (tick.until_ms - tick.since_ms))
            observed += us
            hour = ((end_ms - 1) // QUARTER_MS * QUARTER_MS + offset_ms) // 3_600_000 % 24
            for where in ("all", f"card {card.gpu}", f"hour {hour}"):
                sums[f"{where}: {tick.state} hours"] += us
                sums[f"{where}: {tick.state} ticks"] += 1
            if tick.state == "unknown":
                sums[f"unknown by {tick.reason}"] += us
            _add_uses(sums, tick, whole_ms, us)
            _add_energy(sums, card, tick, end_ms - begin_ms)
        for where in ("all", f"card {card.gpu}"):
            sums[f"{where}: observed hours"] += observed
            sums[f"{where}: unobserved hours"] += round(expected - observed)
            sums[f"{where}: expected hours"] += round(expected)
    return {
        name: value if "ticks" in name or name.startswith("energy") else value / HOUR_US
        for name, value in sums.items()
        if value
    }


def _add_uses(sums: defaultdict[str, float], tick: Tick, whole_ms: int, us: int) -> None:
    if not tick.is_mapped:
        sums["without source"] += us
        return
    sums["with source"] += us
    for pod, use, since_ms, until_ms in tick.uses(whole_ms):
        part = us * until_ms // whole_ms - us * since_ms // whole_ms
        sums[f"use {use}"] += part
        if pod:
            sums[f"owner {pod.split('/')[0]}: {use}"] += part
            sums[f"owner {pod.split('/')[0]}: allocated"] += part


def _add_energy(sums: defaultdict[str, float], card: Shown, tick: Tick, ms: int) -> None:
    where = f"energy {card.gpu}: {tick.state}"
    if card.slices < 7 and "MIG" not in card.gpu:
        sums[f"energy {card.gpu}: unknown unknown seconds"] += ms / 1000
    elif card.slices == 7 and tick.joules is not None:
        sums[f"{where} measured joules"] += tick.joules * ms / (tick.until_ms - tick.since_ms)
        sums[f"{where} measured seconds"] += ms / 1000
    elif card.slices == 7:
        sums[f"{where} estimated joules"] += tick.watts * ms / 1000
        sums[f"{where} estimated seconds"] += ms / 1000


def timeline(cards: Sequence[Shown], since_ms: int, until_ms: int, cell_ms: int) -> dict[str, float]:
    """Return the seconds of each card and state in each cell of a window."""
    sums: defaultdict[str, float] = defaultdict(float)
    for card in cards:
        for tick in card.ticks:
            begin_ms, last_ms = max(tick.since_ms, since_ms), min(tick.until_ms, until_ms)
            while begin_ms < last_ms:
                cell = (begin_ms - since_ms) // cell_ms
                end_ms = min(last_ms, since_ms + (cell + 1) * cell_ms)
                sums[f"{card.gpu} cell {cell}: {tick.state}"] += end_ms - begin_ms
                begin_ms = end_ms
    return {name: value / 1000 for name, value in sums.items()}
