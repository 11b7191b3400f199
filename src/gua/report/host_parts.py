"""The hosts to ask for together where ticks are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from gua.report.asking import Asking
from gua.report.hours import PART_CARD_TICKS, Hour


def some_hosts(asking: Asking, hours: Iterable[Hour]) -> Iterator[list[str]]:
    """Yield the hosts to ask for together, so that the ticks of these hours are bounded; of no names, all."""
    hosts = sorted({extent.host for extent in asking.extents})
    card_ticks = sum(hour.card_ticks for hour in hours)
    most = max(1, PART_CARD_TICKS * len(hosts) // max(card_ticks, 1))
    if most >= len(hosts):
        yield cast("list[str]", asking.bounds["hosts"])
        return
    for first in range(0, len(hosts), most):
        yield hosts[first : first + most]
