"""Asks for the sections that a report has only where somebody wants them, all at once where the store takes that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from gua.core.ports import ViewReader
from gua.report import section_names
from gua.report.hours import Hour
from gua.report.model import Card, Extent, Headline, Identity, Window
from gua.report.questions import Answer, ask
from gua.report.sections.calendar.model import Before
from gua.report.sections.calendar.query import Calendar, before, calendar
from gua.report.sections.contention.model import Contention
from gua.report.sections.energy.model import Energy
from gua.report.sections.energy.query import energy
from gua.report.sections.headline.model import IdleSplit
from gua.report.sections.money.model import Money
from gua.report.sections.money.query import money
from gua.report.sections.now.model import Now
from gua.report.sections.now.query import ask_card_streaks, idle_split, now
from gua.report.sections.streaks.model import Streaks
from gua.report.sections.streaks.query import (
    CONTENTION,
    MADE_OF_STREAKS,
    ask_streaks,
    ask_timeline,
    contention,
    skipped,
    streaks,
    timeline,
)
from gua.report.sections.timeline.model import Timeline
from gua.report.sections.usage.model import Parties
from gua.report.sections.usage.query import IDENTITY, ask_who, identities, parties
from gua.report.window import ReportRequest

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What was told; ``None`` or empty what nobody asked for. ``identities`` is ``None`` where streaks were skipped."""

    streaks_skipped: int | None
    identities: tuple[Identity, ...] | None
    idle_split: IdleSplit | None
    now: Now | None
    parties: tuple[Parties, ...]
    streaks: Streaks | None
    contention: tuple[Contention, ...]
    money: Money | None
    energy: Energy | None
    calendar: Calendar
    before: Before | None
    timeline: Timeline | None


class Asked:
    """The questions of one report's optional sections. ``read`` and ``bounds`` are the views' parameters."""

    def __init__(  # noqa: PLR0913, PLR0917 - what is asked for depends on all of them
        self,
        reader: ViewReader,
        request: ReportRequest,
        window: Window,
        extents: Sequence[Extent],
        hours: Sequence[Hour],
        bounds: Mapping[str, object],
        read: Mapping[str, object],
    ) -> None:
        wanted = request.sections
        self._request = request
        self._window = window
        self._extents = extents
        # Hosts and models are told by their cards, too: nobody is refused for them.
        people_by = [by for by in request.parties_by if by not in request.groups_by]
        self.skipped = skipped(hours, extents, wanted - request.if_cheap, people_by)
        if self.skipped is not None:
            wanted -= request.if_cheap & MADE_OF_STREAKS
        made = self.skipped is None
        split = bool(wanted & {section_names.HEADLINE, section_names.NOW, section_names.STREAKS, section_names.WHAT_IF})
        self._cards = _once(ask_card_streaks(reader, read, window)) if made and split else None
        people = bool(wanted & {section_names.NOW, section_names.WHO})
        self._people = _once(ask_who(reader, read, IDENTITY)) if made and people else None
        self._parties = [
            (by, _once(ask_who(reader, read, by))) for by in request.parties_by if section_names.WHO in wanted and made
        ]
        episodes = bool(wanted & {section_names.STREAKS, section_names.WHAT_IF})
        self._streaks = ask_streaks(reader, read, request.what_if_limits_ms) if episodes else None
        self._contention = ask(reader, CONTENTION, read) if section_names.CONTENTION in wanted else None
        self._timeline = ask_timeline(reader, read, window) if section_names.TIMELINE in wanted else None
        self._money = money(reader, read) if section_names.MONEY in wanted else None
        self._energy = energy(reader, read) if section_names.ENERGY in wanted else None
        self._calendar = calendar(reader, read, window) if wanted & {section_names.WEEK, section_names.DAYS} else None
        earlier = section_names.BEFORE in wanted
        self._before = before(reader, bounds, from_ticks=request.from_ticks) if earlier else None

    def told(self, headline: Headline, cards: Sequence[Card]) -> Parts:
        """Return the answers, as parts of the report with this headline and these cards."""
        rows = self._cards() if self._cards else []
        split = idle_split(rows) if self._cards else None
        wanted = self._request.sections
        return Parts(
            streaks_skipped=self.skipped,
            identities=identities(self._people(), headline) if self._people else None,
            idle_split=split,
            now=now(
                rows,
                self._people(),
                cards=cards,
                extents=self._extents,
                window=self._window,
                now_ms=self._request.now_ms,
            )
            if self._people and self._cards and section_names.NOW in wanted
            else None,
            parties=tuple(parties(by, answer(), headline) for by, answer in self._parties),
            streaks=streaks(self._streaks(), self._request.what_if_limits_ms, split.unknown_gpu_ms if split else 0)
            if self._streaks
            else None,
            contention=contention(self._contention()) if self._contention else (),
            money=self._money() if self._money else None,
            energy=self._energy() if self._energy else None,
            calendar=self._calendar() if self._calendar else ((), ()),
            before=self._before() if self._before else None,
            timeline=timeline(self._timeline, self._window, cards) if self._timeline else None,
        )


def _once(answer: Answer[R]) -> Answer[R]:
    """Return the answer's rows as often as they are wanted; a store that is asked when they are is asked once."""
    return cache(answer)
