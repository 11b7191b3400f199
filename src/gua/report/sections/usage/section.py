"""Usage: GPU time of owners and their programs, and of whatever else was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from gua.report.asking import Asking, Finish
from gua.report.costs import with_currencies
from gua.report.hours import parts
from gua.report.kit.fields import Cells, cells
from gua.report.model import Card, Headline, Report
from gua.report.prices import CostsRow, Prices, of_cards
from gua.report.section import Csv, Section
from gua.report.sections.usage import text
from gua.report.sections.usage.by_parts import ask_by_parts, owners_of_parts
from gua.report.sections.usage.model import Usage
from gua.report.sections.usage.query import OWNER_AND_PROGRAM, Whole, ask_usage, owners_of, usage_of
from gua.report.window import BY_HOST, BY_MODEL


def _collect(asking: Asking) -> Finish:
    prices = asking.prices
    if not asking.tells_processes:
        answers = ask_by_parts(asking.reader, asking.read, parts(asking.hours), prices)
        return lambda _headline, _cards: Usage(owners=owners_of_parts(answers, prices))
    processes = asking.once(ask_usage, OWNER_AND_PROGRAM, prices)
    by = {key: asking.once(ask_usage, key, prices) for key in asking.request.usage_by}
    costs = asking.costs()

    def finish(headline: Headline, cards: Sequence[Card]) -> Usage:
        whole = Whole.of([headline.states], prices, costs())
        return Usage(
            owners=owners_of(list(processes()), whole),
            usage_by=tuple(
                usage_of(key, list(answer()), whole, _groups(key, cards, prices, costs())) for key, answer in by.items()
            ),
        )

    return finish


def _groups(
    by: str, cards: Iterable[Card], prices: Prices, costs: Iterable[CostsRow]
) -> Mapping[str | None, Whole] | None:
    """Return what the rows of each host, or model, must come to; ``None`` for a key that is none of cards."""
    if by not in {BY_HOST, BY_MODEL}:
        return None
    named: dict[str | None, list[Card]] = {}
    for card in cards:
        named.setdefault(card.host if by == BY_HOST else card.model or card.name, []).append(card)
    rows = of_cards(costs)
    return {
        name: Whole.of(
            (card.states for card in of_name),
            prices,
            chain.from_iterable(rows.get((card.host, card.gpu), ()) for card in of_name),
        )
        for name, of_name in named.items()
    }


def _rows(usage: Usage, _report: Report) -> Iterator[Cells]:
    for owner in usage.owners:
        yield from with_currencies({"by": "owner and program", **cells(owner)}, owner.costs, _OWNER)
    for by in usage.usage_by:
        for row in by.rows:
            yield from with_currencies({"by": by.by, **cells(row)}, row.costs, _NAMED)


_OWNER = ("by", "kind", "owner", "program")
_NAMED = ("by", "kind", "name")
_WHOSE = ("by", "kind", "name", "owner", "program")
_STATES = ("active_gpu_hours", "idle_held_gpu_hours", "unknown_gpu_hours")
_PROCESSES = ("process_hours", "longest_idle_hours", "sessions", "first_seen", "last_seen")
_COSTS = ("currency", "active_cost", "idle_held_cost", "unknown_cost", "unpriced_gpu_hours")
USAGE = Section(
    name="usage",
    title="Top owners",
    model=Usage,
    collect=_collect,
    text=text.usage,
    drawn=text.drawn,
    spread=True,
    csv=Csv((*_WHOSE, "gpu_hours", "share", *_STATES, *_PROCESSES, *_COSTS), _rows),
)
