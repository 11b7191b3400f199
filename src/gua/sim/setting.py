"""What a habit is told about its card, and the lab's working days."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from gua.sim.calendar import FRI, MON, THU, TUE, WED, Stretch
from gua.sim.programs import Host, person

WEEKDAYS: Final = (MON, TUE, WED, THU, FRI)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What a habit is told: its host, its random numbers, which round of the roles it is, and its card's name."""

    host: Host
    rng: Random
    name: str
    round: int

    @property
    def shift(self) -> int:
        """Minutes by which this round's week is late."""
        return 37 * self.round

    def person(self, number: int) -> tuple[str, int]:
        """Return the name and user id of who plays a part in this round."""
        return person(number + 5 * self.round)

    def late(self, *stretches: Stretch) -> tuple[Stretch, ...]:
        """Return stretches of the week as this round has them."""
        return tuple(stretch.later(self.shift) for stretch in stretches)
