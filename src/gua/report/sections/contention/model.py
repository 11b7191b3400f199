"""Contention: time in which nobody could get a card while cards were held that did nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from gua.report.costs import OneCost
from gua.report.kit.fields import RATIO, Hours


@dataclass(frozen=True, kw_only=True, slots=True)
class Contention:
    """What somebody in want of a card found, in ms of the effective window of a host (``None``: of all cards).

    ``free_ms``: some card was truly-idle, and promised to nobody as far as allocation is looked at. ``contended_ms``:
    every card was observed and known, none was free, at least one idle-held, or truly-idle and promised: waiting that
    could have been avoided. ``busy_ms``: all were active. ``unknown_ms``: no card was seen free, and of some it is not
    known (unknown or unobserved, or whether they were promised). ``contended_gpu_ms``: idle-held GPU time in
    ``contended_ms``, ``cost`` what that cost; ``contended_promised_gpu_ms``: GPU time in it of cards that were
    truly-idle and promised. ``share``: the contended part of all this time, 0 to 1. A GPU counts while it is whole.

    Where a source tells who waits for cards: the ``most_waiting`` requests at once, ``wait_ms`` of all of them
    together, ``waited_ms`` in which any waited; of that time the GPU time that was promised and ``empty``, ``held`` or
    used by ``others`` alone, and of cards that were ``free``. ``None`` where none tells. ``waits_unknown_ms``: how long
    cards were given out while no tick that is kept tells who waited; ``None`` where nobody gave any out.
    """

    host: str | None
    cards: int
    share: Annotated[float | None, replace(RATIO, column="contended_share")] = field(init=False)
    contended_ms: Hours[int]
    free_ms: Hours[int]
    busy_ms: Hours[int]
    unknown_ms: Hours[int]
    contended_gpu_ms: Hours[float]
    contended_promised_gpu_ms: Hours[float] = 0
    cost: OneCost = None
    most_waiting: int | None = None
    wait_ms: Hours[int | None] = None
    waited_ms: Hours[int | None] = None
    waited_empty_gpu_ms: Hours[float | None] = None
    waited_held_gpu_ms: Hours[float | None] = None
    waited_others_gpu_ms: Hours[float | None] = None
    waited_free_gpu_ms: Hours[float | None] = None
    waits_unknown_ms: Hours[int | None] = None

    def __post_init__(self) -> None:
        total = self.free_ms + self.contended_ms + self.busy_ms + self.unknown_ms
        object.__setattr__(self, "share", self.contended_ms / total if total else None)


class Contentions(tuple[Contention, ...]):
    """All cards together first, then each host where there are several."""

    __slots__ = ()
