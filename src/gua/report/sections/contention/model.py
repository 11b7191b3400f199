"""Contention: time in which nobody could get a card while cards were held that did nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Contention:
    """What somebody in want of a card found, in ms of the effective window of a host (``None``: of all cards).

    ``free_ms``: some card was truly-idle. ``contended_ms``: every card was observed and known, none was truly-idle,
    at least one idle-held: waiting that could have been avoided. ``busy_ms``: all were active. ``unknown_ms``: no
    card was seen free, and of some it is not known (unknown or unobserved). ``contended_gpu_ms``: idle-held GPU time
    in ``contended_ms``.
    """

    host: str | None
    cards: int
    free_ms: int
    contended_ms: int
    busy_ms: int
    unknown_ms: int
    contended_gpu_ms: float

    @property
    def share(self) -> float | None:
        """Return the contended part of all this time, 0 to 1."""
        total = self.free_ms + self.contended_ms + self.busy_ms + self.unknown_ms
        return self.contended_ms / total if total else None
