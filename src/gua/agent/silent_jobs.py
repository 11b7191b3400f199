"""Slurm jobs on cards that no source says are promised: hooks that are silent, or a Slurm that nobody asks."""

from __future__ import annotations

from typing import Final

from gua.core.tick import Tick
from gua.core.words import AllocationStatus, ProcessType

PATIENCE_MS: Final = 3 * 60 * 1000
"""How long a job may be there before it is told: Slurm is asked once a minute."""
_MOST_NAMES: Final = 3

_Place = tuple[str, str]


class SilentJobs:
    """Remembers since when each job has had a process on a card that is promised to nobody."""

    def __init__(self) -> None:
        self._since_ms: dict[_Place, int] = {}

    def after(self, tick: Tick) -> str | None:
        """Return a sentence on such jobs after this tick, ``None`` where there are none."""
        cards = {card.uuid: card for card in tick.cards if card.allocation is AllocationStatus.UNALLOCATED}
        now = [
            (card.uuid, process.slurm_job_id)
            for card in cards.values()
            for process in card.processes
            if process.slurm_job_id is not None and process.type is not ProcessType.IGNORED
        ]
        self._since_ms = {place: self._since_ms.get(place, tick.ts_ms) for place in now}
        silent = [place for place, since_ms in self._since_ms.items() if abs(tick.ts_ms - since_ms) >= PATIENCE_MS]
        if not silent:
            return None
        named = [f"job {job} on {_place(cards[uuid].index, uuid)}" for uuid, job in silent[:_MOST_NAMES]]
        more = f" and {len(silent) - _MOST_NAMES} more" if len(silent) > _MOST_NAMES else ""
        return (
            f"Slurm's {', '.join(named)}{more}: no source of allocations tells of it; are the hooks installed, and is "
            "Slurm looked at?"
        )


def _place(index: int | None, uuid: str) -> str:
    return uuid if index is None else f"card {index}"
