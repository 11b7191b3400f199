"""The hosts to ask for together where ticks are read."""

from __future__ import annotations

from collections.abc import Iterator

from gua.report.asking import Asking
from gua.report.hours import PART_CARD_TICKS


def some_hosts(asking: Asking) -> Iterator[list[str]]:
    """Yield the hosts to ask for together, so that the ticks of one question are bounded; of no names, all."""
    hosts = sorted({extent.host for extent in asking.extents})
    card_ticks = sum(hour.card_ticks for hour in asking.hours)
    most = max(1, PART_CARD_TICKS * len(hosts) // max(card_ticks, 1))
    if most >= len(hosts):
        yield list(asking.request.hosts and hosts)
        return
    for first in range(0, len(hosts), most):
        yield hosts[first : first + most]
