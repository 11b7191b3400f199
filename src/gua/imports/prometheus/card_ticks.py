"""Ticks of one card in columns, and the choice of one source for each card and time."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from gua.core.tick import ProcessReading
from gua.imports.prometheus.cards import ScrapedCard
from gua.imports.prometheus.exporters import EXPORTERS, Exporter
from gua.imports.prometheus.series import Numbers, Scrapes

Processes = Mapping[int, tuple[ProcessReading, ...]]


@dataclass(kw_only=True, slots=True)
class CardTicks:
    """Ticks of one card from one target, in columns: all lists have one value per tick, in the order of time.

    ``ts_ms`` are the ends of the ticks [Unix ms], ``duration_ms`` what they cover. ``columns`` are stored values by
    column of ``gua.card_ticks``. ``scrapes`` are the scrapes with each pod or job, of at most ``full`` in a tick.
    ``is_mapped``: without a pod or job the card was unallocated. ``processes`` is ``None`` if they are unknown.
    ``step_ms`` is the resolution, 0 for raw samples.
    """

    card: ScrapedCard
    exporter: Exporter
    interval_ms: int
    step_ms: int
    full: int
    is_mapped: bool
    ts_ms: list[int]
    duration_ms: list[int]
    columns: dict[str, Numbers]
    scrapes: list[Scrapes]
    processes: Processes | None = None

    def keep(self, places: Sequence[int]) -> Self:
        """Return the ticks at these places only."""
        if len(places) == len(self.ts_ms):
            return self

        def pick(values: list) -> list:  # type: ignore[type-arg] # any column
            if isinstance(places, range):
                return values[places.start : places.stop]
            return [values[place] for place in places]

        return replace(
            self,
            ts_ms=pick(self.ts_ms),
            duration_ms=pick(self.duration_ms),
            columns={name: pick(values) for name, values in self.columns.items()},
            scrapes=pick(self.scrapes),
        )


def one_source(made: Sequence[CardTicks]) -> list[CardTicks]:
    """Return at most one tick of a card at a time: of the preferred exporter, then of the target that comes first.

    A tick of another source that overlaps is left out whole: a change of source may leave up to an interval unobserved.
    """
    by_card: defaultdict[str, list[CardTicks]] = defaultdict(list)
    for ticks in made:
        by_card[ticks.card.uuid].append(ticks)
    chosen: list[CardTicks] = []
    for every in by_card.values():
        ordered = sorted(every, key=lambda one: EXPORTERS.index(one.exporter))
        covered: list[tuple[int, int]] = []
        for ticks in ordered:
            kept = outside(ticks, covered)
            if kept.ts_ms:
                chosen.append(kept)
                spans = ((at - duration, at) for at, duration in zip(kept.ts_ms, kept.duration_ms, strict=True))
                covered = sorted([*covered, *joined(spans)])
    return chosen


def within(ticks: CardTicks, since_ms: int, until_ms: int, end_ms: int) -> CardTicks:
    """Return the ticks of a span; those at the import's end ``end_ms`` may be longer than it."""
    begin, end = bisect_right(ticks.ts_ms, since_ms), bisect_right(ticks.ts_ms, until_ms)
    while until_ms == end_ms and end < len(ticks.ts_ms) and ticks.ts_ms[end] - ticks.duration_ms[end] < until_ms:
        end += 1
    return ticks.keep(range(begin, end))


def outside(ticks: CardTicks, covered: Sequence[tuple[int, int]], *, but: Collection[int] = frozenset()) -> CardTicks:
    """Return the ticks that overlap none of the covered spans [Unix ms], and those that end at the times ``but``.

    The spans are sorted and do not overlap.
    """
    if not covered:
        return ticks
    starts = [start for start, _ in covered]
    kept = []
    for place, (at, duration) in enumerate(zip(ticks.ts_ms, ticks.duration_ms, strict=True)):
        before = bisect_right(starts, at - 1) - 1
        if at in but or before < 0 or covered[before][1] <= at - duration:
            kept.append(place)
    return ticks.keep(kept)


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans [Unix ms] in the order of time, with those that touch as one."""
    every: list[tuple[int, int]] = []
    for start, end in spans:
        if every and start <= every[-1][1]:
            every[-1] = every[-1][0], end
        else:
            every.append((start, end))
    return every
