"""Series of one card from one target, and the merging of what several pods' or jobs' series have at the same time."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gua.imports.prometheus.cards import Attribution, ScrapedCard, Target
from gua.imports.prometheus.exporters import Exporter, Measure
from gua.imports.prometheus.samples import Samples

_MOST_COUNT: Final = 86_400
_MOST_REMEMBERED: Final = 100_000
Numbers = list[int | None]
Scrapes = dict[Attribution | None, int]
"""Number of scrapes with each attribution, or without one, in one tick."""


class Parser:
    """Converts samples to stored values by their measure, and remembers them; ``out_of_range`` counts refused ones."""

    def __init__(self) -> None:
        self.out_of_range = 0
        self._known: defaultdict[Measure, dict[str, int | None]] = defaultdict(dict)

    def values(self, measure: Measure, texts: Sequence[str]) -> Numbers:
        """Return the stored values; ``None`` for NaN, infinities and values outside the measure's limits."""
        known = self._known[measure]
        if len(known) > _MOST_REMEMBERED:
            known.clear()
        for text in set(texts).difference(known):
            known[text] = self._value(measure, text)
        return [known[text] for text in texts]

    def _value(self, measure: Measure, text: str) -> int | None:
        number = float(text)
        if number != number:  # noqa: PLR0124 - NaN: the exporter could not read it
            return None
        scaled = number * measure.scale
        if not measure.least <= scaled <= measure.most:
            self.out_of_range += 1
            return None
        return round(scaled)


@dataclass(slots=True)
class Piece:
    """Samples of one series of a measure, with who had the card."""

    attribution: Attribution | None
    times: list[int]
    values: Numbers


@dataclass(slots=True)
class Stream:
    """All series of one card from one target in a span of time.

    ``pieces`` are the samples by measure. ``presence`` are, by metric of a reading, the times of each
    attribution's samples with the number of scrapes in each: 1 for raw samples. ``limit_bytes`` is the card's memory
    where it is not among the pieces.
    """

    exporter: Exporter
    target: Target
    card: ScrapedCard
    job: tuple[str, str]
    pieces: defaultdict[Measure, list[Piece]] = field(default_factory=lambda: defaultdict(list))
    presence: defaultdict[str, list[tuple[Attribution | None, list[int], list[int] | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    jobs: dict[int, Attribution] = field(default_factory=dict)
    limit_bytes: int | None = None

    def add_presence(self, metric: str, attribution: Attribution | None, samples: Samples, *, counts: bool) -> None:
        """Add the times of a series at which the card was read; ``counts``: values are numbers of scrapes."""
        texts = set(samples.values) if counts else ()
        known = {text: round(min(max(0, float(text)), _MOST_COUNT)) for text in texts}
        numbers = [known[text] for text in samples.values] if counts else None
        self.presence[metric].append((attribution, samples.times, numbers))

    def readings(self) -> tuple[list[int], list[Scrapes]]:
        """Return the times [Unix ms] at which the card was read, and each one's scrapes by attribution.

        A reading has a sample of any metric of a reading. Equal scrapes are one object.
        """
        every: list[tuple[Attribution | None, list[int], list[int] | None]] = []
        for metric in self.exporter.first:
            every += [one for one in self.presence.get(metric, ()) if one not in every]
        made: dict[tuple[tuple[Attribution | None, int], ...], Scrapes] = {}

        def shared(*scrapes: tuple[Attribution | None, int]) -> Scrapes:
            return made.setdefault(scrapes, dict(scrapes))

        known: dict[int, Scrapes] = {}
        for attribution, times, counts in every:
            if counts is None:
                here = dict.fromkeys(times, shared((attribution, 1)))
            else:
                of_count = {count: shared((attribution, count)) for count in set(counts)}
                here = {at: of_count[count] for at, count in zip(times, counts, strict=True)}
            for at in known.keys() & here.keys():
                both = known[at] | {one: max(count, known[at].get(one, 0)) for one, count in here[at].items()}
                here[at] = shared(*both.items())
            known |= here
        for at in known.keys() & self.jobs.keys():
            known[at] = shared((self.jobs[at], max(known[at].values())))
        times = sorted(known)
        return times, [known[at] for at in times]


def is_shared(scrapes: Scrapes, full: int) -> bool:
    """Return whether several pods or jobs had the card at once: more series than the ``full`` number of scrapes."""
    return sum(scrapes.values()) > full


def has_own_series(scrapes: Scrapes, full: int) -> bool:
    """Return whether a series without a pod or job is of the card itself: at the same scrapes as one with a pod."""
    of_pods = max((count for one, count in scrapes.items() if one is not None), default=0)
    return of_pods > 0 and scrapes.get(None, 0) + of_pods > full


def column(
    pieces: Sequence[Piece], times: list[int], scrapes: Sequence[Scrapes], full: int, *, largest: bool = False
) -> Numbers:
    """Return a measure's value at each of the times, ``None`` where no series has one.

    Of several series at one time that of the card itself, without an attribution, counts; else the one of most
    scrapes, then the largest: the others repeat the card's value or have a pod's part of it. Series of different
    scrapes in a step of ``full`` scrapes are weighted by their numbers; ``largest`` takes their largest value.
    """
    if len(pieces) == 1 and (pieces[0].times is times or pieces[0].times == times):
        return pieces[0].values
    known: dict[int, int | None] = {}
    several: defaultdict[int, list[tuple[Attribution | None, int]]] = defaultdict(list)
    for piece in pieces:
        here = dict(zip(piece.times, piece.values, strict=True))
        for at in known.keys() & here.keys():
            several[at] = []
        known |= here
    for piece in pieces if several else ():
        for at, value in zip(piece.times, piece.values, strict=True):
            if value is not None and at in several:
                several[at].append((piece.attribution, value))
    if several:
        full = 0 if largest else full
        known |= {at: _together(several[at], of, full) for at, of in zip(times, scrapes, strict=True) if at in several}
    return [known.get(at) for at in times]


def _together(values: Sequence[tuple[Attribution | None, int]], scrapes: Scrapes, full: int) -> int | None:
    """Return the value of the card for those of its series; ``scrapes`` are the scrapes of each attribution.

    Without ``full`` it is the largest.
    """
    if not values:
        return None
    if not full:
        return max(value for _, value in values)
    own = [value for attribution, value in values if attribution is None]
    if own and has_own_series(scrapes, full):
        return max(own)
    weighted = [(scrapes.get(attribution, 0), value) for attribution, value in values]
    if is_shared(scrapes, full):
        of_pods = [(scrapes.get(attribution, 0), value) for attribution, value in values if attribution is not None]
        weighted = [max(of_pods, default=(0, 0)), *((scrapes.get(None, 0), value) for value in own[:1])]
    total = sum(weight for weight, _ in weighted)
    return round(sum(weight * value for weight, value in weighted) / total) if total else max(own or [0])
