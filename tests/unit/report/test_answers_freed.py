"""A report keeps no answer after the last section made of it: of a large fleet they are most of its memory."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from fakes.store import UNTIL_MS, FakeStore, lab
from gua.core.ports import ViewReader
from gua.report import section_list
from gua.report.collect import collect
from gua.report.context import Finish, ReportContext
from gua.report.model import Card, Headline
from gua.report.rows import OverviewRow, TimeOfDayRow
from gua.report.section import AnySection
from gua.report.window import ReportRequest

ROWS = (OverviewRow, TimeOfDayRow)


class Seen(Counter[str]):
    """How many rows of answers there are while a section is made."""


class Server(FakeStore):
    """A store that runs several queries at a time."""

    @property
    def is_concurrent(self) -> bool:
        return True


def rows_alive() -> Seen:
    gc.collect()
    return Seen(type(one).__name__ for one in gc.get_objects() if isinstance(one, ROWS))


def kept_until(section: str, monkeypatch: pytest.MonkeyPatch, reader: ViewReader) -> Mapping[str, int]:
    """Return how many rows a report of two days has kept when it makes ``section``."""
    declared = section_list.section_named

    def counting(_context: ReportContext) -> Finish:
        def finish(_headline: Headline, _cards: Sequence[Card]) -> object:
            return rows_alive()

        return finish

    def named(name: str) -> AnySection:
        return replace(declared(name), collect=counting) if name == section else declared(name)

    before = rows_alive()
    wanted = frozenset({"headline", "time-of-day", section})
    with monkeypatch.context() as patched:
        patched.setattr(section_list, "section_named", named)
        report = collect(reader, ReportRequest(now_ms=UNTIL_MS, since="2d", sections=wanted))
    return report[Seen] - before


@pytest.mark.parametrize("store", [FakeStore, Server])
def test_rows_are_freed_after_the_last_section_that_uses_them(
    store: type[FakeStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept_until("slow-cards", monkeypatch, store(lab().views)) == {}
