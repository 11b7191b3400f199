"""Amounts of ticks, summed up: Prometheus knows no deltas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Sums = dict[tuple[str, str], float]
"""By a metric's name and the labels of the card or process."""


@dataclass(kw_only=True, slots=True)
class Counters:
    """The sums of one card and of the processes on it before a tick, and those after it."""

    before: Sums
    after: Sums = field(default_factory=dict)

    def added(self, name: str, labels: str, amount: float) -> float:
        """Return the sum with what a tick adds to it, in thousandths, which is how amounts are counted."""
        total = self.after[name, labels] = round(amount + self.before.get((name, labels), 0), 3)
        return total

    def carry(self, is_there: Callable[[str], bool]) -> None:
        """Keep the sums of what is there still, and whose amount the tick could not tell."""
        for key, total in self.before.items():
            if key not in self.after and is_there(key[1]):
                self.after[key] = total
