"""The questions that a report's sections ask of a store: what two sections ask for alike is asked for once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from gua.core.ports import ViewReader
from gua.report.allocation_sources import ask_sources
from gua.report.filters import Labels
from gua.report.hours import Hour
from gua.report.model import Card, Extent, Headline, Window
from gua.report.parts import Parts, in_parts, parts_of_ticks
from gua.report.prices import CostsRow, Prices, ask_costs
from gua.report.promises import PromiseRow, ask_promises
from gua.report.window import ReportRequest

T = TypeVar("T")
Finish = Callable[[Headline, Sequence[Card]], object]
"""Makes a section's model of what the store answers, for a report with this headline and these cards."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """One report's questions: ``bounds`` and ``read`` are parameters of the views.

    ``prices`` are those that count in the window. ``parts`` are the hosts of each query whose rows are made of
    intervals, where those of all hosts are too many for the memory of one.
    """

    reader: ViewReader
    request: ReportRequest
    window: Window
    extents: Sequence[Extent]
    labels: Labels
    hours: Sequence[Hour]
    bounds: Mapping[str, object]
    read: Mapping[str, object]
    prices: Prices
    parts: Parts
    asked: dict[tuple[object, ...], Callable[[], object]] = field(default_factory=dict)

    def once(self, question: Callable[..., Callable[[], T]], *parameters: object) -> Callable[[], T]:
        """Ask ``question(reader, read, *parameters)``; return what gives the answer, as often as it is wanted."""
        return self._once(self.reader, question, *parameters)

    def once_in_parts(self, question: Callable[..., Callable[[], T]], *parameters: object) -> Callable[[], T]:
        """Ask the same in the parts of a large fleet; the rows are those of one part after the other."""
        return self._once(in_parts(self.reader, self.parts), question, *parameters)

    def _once(
        self, reader: ViewReader, question: Callable[..., Callable[[], T]], *parameters: object
    ) -> Callable[[], T]:
        key = (question, *parameters)
        if key not in self.asked:
            self.asked[key] = _kept(question(reader, self.read, *parameters))
        return cast("Callable[[], T]", self.asked[key])

    def hosts_of_ticks(self, hours: Iterable[Hour]) -> list[list[str]]:
        """Return the hosts to ask for together where the ticks of ``hours`` are read; of no names, all."""
        parts = parts_of_ticks(self.extents, hours)
        return [list(part) for part in parts] or [cast("list[str]", self.bounds["hosts"])]

    def promises(self) -> Callable[[], Sequence[PromiseRow]]:
        """Ask to whom cards are promised, once and only where a source tells; return what gives the answer."""
        return self.once(ask_promises, self.prices, self.once(ask_sources))

    def costs(self) -> Callable[[], Sequence[CostsRow]]:
        """Ask for the GPU time of cards by price, once and only where there is any; return what gives the answer."""
        return self.once(ask_costs, self.prices) if self.prices else tuple


Collect = Callable[[Asking], Finish | None]
"""Asks what a section is made of; ``None`` where it cannot be made."""


def answer_of(question: Callable[..., Callable[[], object]]) -> Collect:
    """Return what asks one question of ``read``, whose answer is the model."""

    def collect(asking: Asking) -> Finish:
        answer = asking.once(question)
        return lambda _headline, _cards: answer()

    return collect


def _kept(answer: Callable[[], object]) -> Callable[[], object]:
    """Return an answer that is asked for when it is first wanted, and kept."""
    kept: list[object] = []

    def again() -> object:
        if not kept:
            value = answer()
            kept.append(list(value) if isinstance(value, Iterator) else value)
        return kept[0]

    return again
