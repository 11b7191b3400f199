"""A day of four hosts in a Prometheus, written by hand: what each card did, and who scraped it when.

:func:`readings` are the samples by card and target. :func:`series` are the same samples as Prometheus has them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

START_MS: Final = 1_774_396_800_000  # 2026-03-25T00:00:00Z
DAY_MS: Final = 86_400_000
INTERVAL_MS: Final = 30_000
# Scrapes go on before and after the day.
AROUND_MS: Final = 600_000
MODEL: Final = "NVIDIA H100 80GB HBM3"
SIZE_MIB: Final = 81_000
NAN: Final = math.nan


def at(clock: str) -> int:
    """Return a time of the day, as in 09:30 or 09:30:10, as Unix ms."""
    hours, minutes, *seconds = map(int, clock.split(":"))
    return START_MS + (hours * 3600 + minutes * 60 + sum(seconds)) * 1000


class Stretch(NamedTuple):
    """What a card does from a time on: utilization [%], used memory [MiB], and the pods that have it."""

    since: str
    busy: float
    used: float
    pods: tuple[str, ...] = ()


@dataclass(frozen=True)
class Card:
    """A card of a host; ``instance`` is a MIG instance's number, profile and slices of 7.

    ``has_parts``: dcgm-exporter from 4.5.3 on reports the card's own values, and beside them each pod's part.
    """

    gpu: str
    index: int
    plan: tuple[Stretch, ...]
    instance: tuple[int, str, int] | None = None
    has_parts: bool = False

    @property
    def id(self) -> str:
        """Return the name in the report."""
        return self.gpu if self.instance is None else f"MIG-{self.gpu}/{self.instance[0]}/0"

    def does(self, moment_ms: int) -> Stretch:
        """Return the newest stretch that began before or at a time."""
        return [one for one in self.plan if at(one.since) <= moment_ms or one is self.plan[0]][-1]


@dataclass(frozen=True)
class Target:
    """An exporter of a host as one Prometheus scrapes it: every 30 s from ``offset_ms`` on, but in holes.

    In a ``down`` hole `up` is 0, in a ``gone`` one there is no sample at all. ``jitter_ms``: the most that a scrape
    comes late. Without ``honors``, what a card and the target both have is `exported_` of the card.
    """

    host: str
    instance: str
    cards: tuple[Card, ...]
    offset_ms: int
    exporter: str = "dcgm"
    job: str = "dcgm"
    honors: bool = False
    replica: str = ""
    down: tuple[tuple[str, str], ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    jitter_ms: int = 0
    counts_energy: bool = False

    def scrapes(self) -> Iterator[tuple[int, bool]]:
        """Yield the time of each scrape, and whether the exporter answered."""
        for number in range((DAY_MS + 2 * AROUND_MS) // INTERVAL_MS):
            moment = START_MS - AROUND_MS + self.offset_ms + number * INTERVAL_MS
            moment += number * 7 % (self.jitter_ms + 1)
            if not _within(moment, self.gone):
                yield moment, not _within(moment, self.down)


def _within(moment: int, holes: Sequence[tuple[str, str]]) -> bool:
    return any(at(since) <= moment < at(until) for since, until in holes)


def _plan(*rows: tuple[str, float, float] | tuple[str, float, float, str]) -> tuple[Stretch, ...]:
    return tuple(Stretch(row[0], row[1], row[2], tuple(row[3].split()) if len(row) > 3 else ()) for row in rows)


# Its pod ends between two scrapes, which are at 4.217 and 34.217 s.
BUSY: Final = Card(
    "GPU-a0",
    0,
    _plan(
        ("00:00", 85, 30_000, "train/ml-0"),
        ("05:02", 10, 30_000, "train/ml-0"),
        ("06:00", 9, 30_000, "train/ml-0"),
        ("06:31:10", 99, 30_000, "train/ml-0"),
        ("17:31:50", 0, 3),
    ),
)
HELD: Final = Card(
    "GPU-a1",
    1,
    _plan(
        ("00:00", 0, 20_000, "notebooks/ann-0"),
        ("09:01:30", NAN, 20_000, "notebooks/ann-0"),
        ("09:40", 0, 20_000, "notebooks/ann-0"),
        ("12:03", 3, 20_000, "notebooks/ann-0"),
    ),
)
EMPTY: Final = Card(
    "GPU-a2",
    2,
    _plan(
        ("00:00", 0, 0, "notebooks/bob-0"),
        ("06:00", 0, 100, "notebooks/bob-0"),
        ("07:00", 0, 101, "notebooks/bob-0"),
        ("08:00", 0, 0, "notebooks/bob-0"),
    ),
)
# From 22:00 on values out of range: of utilization, and of memory.
FREE: Final = Card(
    "GPU-a3",
    3,
    _plan(
        ("00:00", 0, 0),
        ("20:00", 50, 1_000),
        ("21:00", NAN, 1_000),
        ("21:30", NAN, 0),
        ("22:00", 250, 5_000),
        ("22:10", 0, -1),
        ("22:20", 0, 0),
    ),
)
RELAYED: Final = Card(
    "GPU-b0", 0, _plan(("00:00", 70, 9_000, "train/p-1"), ("08:20:11", 0, 9_000, "infer/p-2"), ("19:00", 0, 0))
)
LATE: Final = Card("GPU-b1", 1, _plan(("00:00", 0, 0), ("15:00:20", 42, 700, "infer/p-3")))
NEVER: Final = Card("GPU-b2", 2, _plan(("00:00", 0, 0)))
DOUBLE: Final = Card(
    "GPU-c0", 0, _plan(("00:00", 33, 4_000, "train/ml-7"), ("10:15", 0, 4_000, "train/ml-7"), ("16:21:20", 0, 0))
)
# Of its 7 slices 2 are in no instance.
WIDE: Final = Card(
    "GPU-c1",
    1,
    _plan(
        ("00:00", 50, 10_000, "infer/m-1"),
        ("07:10", 5, 10_000, "infer/m-1"),
        ("13:00", NAN, 10_000, "infer/m-1"),
        ("14:00", 0, 20, "infer/m-1"),
    ),
    (1, "3g.40gb", 3),
)
NARROW: Final = Card("GPU-c1", 1, _plan(("00:00", 0, 20), ("12:31", 100, 6_000, "notebooks/cho-0")), (2, "2g.20gb", 2))
SLICED: Final = Card(
    "GPU-d0",
    0,
    _plan(
        ("00:00", 20, 2_000, "notebooks/dee-0"),
        ("08:02:11", 60, 8_000, "notebooks/dee-0 infer/eva-0"),
        ("17:00", 0, 0, "notebooks/dee-0 infer/eva-0"),
        ("18:01:01", 0, 500),
        ("18:10", 0, 0),
    ),
)
PARTS: Final = Card(
    "GPU-d2",
    2,
    _plan(
        ("00:00", 40, 6_000, "infer/gil-0"),
        ("04:44", 0, 6_000, "infer/gil-0"),
        ("15:00", 66, 6_000, "infer/gil-0 train/hal-0"),
        ("21:00", 12, 6_000, "train/hal-0"),
        ("22:22:22", 0, 0),
    ),
    has_parts=True,
)
TWICE: Final = Card(
    "GPU-d1",
    1,
    _plan(
        ("00:00", 95, 40_000, "train/fay-0"),
        ("11:50", 0, 40_000, "train/fay-0"),
        ("12:25", 77, 40_000, "train/fay-0"),
    ),
)
TARGETS: Final = (
    Target(
        host="node-a",
        instance="10.0.0.1:9400",
        cards=(BUSY, HELD, EMPTY, FREE),
        offset_ms=4_217,
        down=(("10:45", "10:45:30"), ("13:00", "14:00")),
        gone=(("10:15", "10:15:30"),),
    ),
    # Its scrapes are on the edges of all windows, hours and steps.
    Target(
        host="node-b",
        instance="10.0.0.2:9400",
        cards=(RELAYED, LATE, NEVER),
        offset_ms=0,
        job="dcgm-honored",
        honors=True,
        counts_energy=True,
        gone=(("02:00", "03:00"),),
    ),
    Target(
        host="node-c",
        instance="10.0.0.3:9400",
        cards=(DOUBLE, WIDE, NARROW),
        offset_ms=20_000,
        replica="a",
        gone=(("16:10", "16:30"), ("18:45", "18:45:30")),
    ),
    Target(
        host="node-c",
        instance="10.0.0.3:9400",
        cards=(DOUBLE, WIDE, NARROW),
        offset_ms=27_000,
        replica="b",
        down=(("18:40", "18:50"), ("23:00", "23:10")),
    ),
    Target(
        host="node-d",
        instance="10.0.0.4:9400",
        cards=(SLICED, TWICE, PARTS),
        offset_ms=11_500,
        down=(("11:00", "13:00"),),
        jitter_ms=4,
        counts_energy=True,
    ),
    Target(
        host="node-d",
        instance="10.0.0.4:8000",
        cards=(TWICE,),
        offset_ms=25_000,
        exporter="nvitop",
        job="nvitop",
        gone=(("12:10", "12:20"),),
    ),
)


class Reading(NamedTuple):
    """An exporter's values of a card at a time: utilization [%], used memory [MiB], pods, power [W], energy [J]."""

    at_ms: int
    busy: float
    used: float
    pods: tuple[str, ...]
    watts: float
    joules: float | None


@cache
def readings(target: Target, card: Card) -> tuple[Reading, ...]:
    """Return all samples of a card from a target."""
    found = []
    joules, before = 5_000_000.0, START_MS - 2 * AROUND_MS
    for moment, answered in target.scrapes():
        _, busy, used, pods = card.does(moment)
        watts = 70.0 if math.isnan(busy) else 70 + 4 * min(busy, 100)
        # In a hole the card goes on.
        joules, before = joules + watts * (moment - before) / 1000, moment
        if answered:
            found.append(Reading(moment, busy, used, pods, watts, joules if target.counts_energy else None))
    return tuple(found)


Lines = dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[int, float]]]


def series() -> list[tuple[str, dict[str, str], list[tuple[int, float]]]]:
    """Return the day as the series of a Prometheus."""
    found: Lines = defaultdict(list)
    for target in TARGETS:
        own = _target_labels(target)
        for moment, answered in target.scrapes():
            found["up", _key(own)].append((moment, float(answered)))
        for card in target.cards:
            for reading in readings(target, card):
                _add(found, target, card, reading)
    return [(name, dict(labels), samples) for (name, labels), samples in found.items()]


def _key(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def _target_labels(target: Target) -> dict[str, str]:
    labels = {"job": target.job, "instance": target.instance}
    if target.exporter == "dcgm":
        labels |= {"pod": f"dcgm-exporter-{target.host}", "namespace": "gpu-operator", "container": "exporter"}
    return labels | ({"prometheus_replica": target.replica} if target.replica else {})


def _add(found: Lines, target: Target, card: Card, reading: Reading) -> None:
    own = _target_labels(target)
    moment, busy, used, pods, watts, joules = reading
    if target.exporter == "nvitop":
        labels = {"uuid": card.gpu, "index": str(card.index), "devicename": MODEL, "hostname": "10.0.0.4", **own}
        for name, value in (
            ("gpu_utilization_Percentage", busy),
            ("gpu_memory_used_MiB", used),
            ("gpu_memory_total_MiB", SIZE_MIB),
            ("gpu_power_usage_W", watts),
        ):
            found[name, _key(labels)].append((moment, value))
        return
    labels = {"UUID": card.gpu, "gpu": str(card.index), "device": f"nvidia{card.index}", "modelName": MODEL}
    labels["Hostname"] = target.host
    busy_metric = "DCGM_FI_DEV_GPU_UTIL", busy
    if card.instance is not None:
        labels |= {"GPU_I_ID": str(card.instance[0]), "GPU_I_PROFILE": card.instance[1]}
        busy_metric = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", busy / 100
    shared = [busy_metric, ("DCGM_FI_DEV_FB_USED", used)]
    every = [("DCGM_FI_DEV_FB_FREE", SIZE_MIB - used), ("DCGM_FI_DEV_POWER_USAGE", watts)]
    if joules is not None:
        every.append(("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", joules * 1000))
    whole = {**own, **labels}
    for whose in _pod_labels(target, card, pods):
        part = len(pods) if pods and card.has_parts else 1
        for name, value in [*((name, value / part) for name, value in shared), *every]:
            found[name, _key(whole | whose)].append((moment, value))
    for name, value in shared if pods and card.has_parts else ():
        found[name, _key(whole)].append((moment, value))


def _pod_labels(target: Target, card: Card, pods: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield for each series of a card what its labels say of pods; an empty label is none."""
    if not pods and target.honors and card is not NEVER:
        # An older exporter exports empty labels, which remove the target's; for the last card it exports none.
        yield {"pod": "", "namespace": "", "container": ""}
    elif not pods:
        yield {}
    for number, pod in enumerate(pods):
        prefix = "" if target.honors else "exported_"
        namespace, name = pod.split("/")
        labels = {f"{prefix}pod": name, f"{prefix}namespace": namespace, f"{prefix}container": "main"}
        yield labels | ({"vgpu": str(number)} if card is SLICED else {})
