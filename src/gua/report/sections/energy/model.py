"""Measured energy by state, and what holding a card added over the same card's bare idle draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from gua.report.kit.fields import RATIO, Number, Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class StateEnergy:
    """One state's energy of a card.

    ``measured``: from the card's energy counter; ``estimated``: power at the tick times its seconds, of ticks of
    which the counter tells nothing (a reset, no counter); ``unknown_ms``: observed time with neither.
    """

    measured_joules: Number[float]
    measured_ms: Seconds[int]
    estimated_joules: Number[float]
    estimated_ms: Seconds[int]
    unknown_ms: Seconds[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class CardEnergy:
    """One card's energy by state.

    ``bare_watts`` and ``held_watts``: mean draw while truly-idle and while idle-held, of measured energy, ``None``
    where that state was not seen with a counter. ``added_joules``: (held - bare) times the measured idle-held time,
    where both were seen: what holding it cost in electricity; below 0 if it drew less.
    """

    host: str
    gpu: str
    index: int | None
    model: str | None
    states: Mapping[str, StateEnergy]
    bare_watts: Annotated[float | None, replace(RATIO, column="card_bare_watts")]
    held_watts: Annotated[float | None, replace(RATIO, column="card_held_watts")]
    added_joules: Annotated[float | None, replace(RATIO, column="card_added_joules")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Energy:
    """All cards. MIG instances have no energy of their own: it is their parent's."""

    cards: tuple[CardEnergy, ...]
