"""The idle clocks of all processes of one tick, carried on from the mark of the tick before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from gua.core.idleness import GAP_MS, RESTART_GAP_MS, IdleCounter, IdleCounters, Key, advance, idle_ms, kept
from gua.core.ports import Mark
from gua.core.rules import Rules
from gua.core.tick import ProcessReading
from gua.core.words import ProcessType

_SHIPPED: Final = Rules()
_DRIFT_MS: Final = 1_000


@dataclass(kw_only=True, slots=True)
class Idling:
    """Clocks ``before`` a tick at ``ts_ms``; those after it are made process by process."""

    before: IdleCounters
    ts_ms: int
    gap_ms: int
    longest_covered_ms: int
    now: dict[Key, IdleCounter] = field(default_factory=dict)

    @classmethod
    def after(cls, mark: Mark | None, now: Mark, *, interval_ms: int, is_restart: bool) -> Self:
        """Return the clocks that a mark holds; those of another boot are of other processes.

        Where the system does not tell the boot, an agent that starts cannot know, and begins anew; so it does with a
        mark of a time that its boot has not reached.
        """
        known = (
            mark is not None
            and mark.boot_id == now.boot_id
            and mark.monotonic_ms <= now.monotonic_ms
            and (now.boot_id is not None or not is_restart)
        )
        return cls(
            before=_on_the_clock_of(now, mark, is_restart=is_restart) if mark is not None and known else {},
            ts_ms=now.ts_ms,
            gap_ms=RESTART_GAP_MS if is_restart else GAP_MS,
            longest_covered_ms=2 * interval_ms,
        )

    def idle_ms(self, uuid: str, processes: Iterable[ProcessReading], covered_ms: int) -> list[int | None]:
        """Return for how long each process of that card has idled, and let their clocks run."""
        # Once for all of a card: a host has hundreds of processes in each tick.
        now = IdleCounter(self.ts_ms, covered_ms)
        idle: list[int | None] = []
        for process in processes:
            if process.type is ProcessType.IGNORED:
                idle.append(None)
                continue
            key = (uuid, process.pid, process.created_ms)
            self.now[key] = clock = advance(self.before.get(key), process, now, _SHIPPED, gap_ms=self.gap_ms)
            idle.append(idle_ms(clock, process))
        return idle

    def clocks(self) -> IdleCounters:
        """Return the clocks after the tick."""
        return kept(
            self.before, self.now, self.ts_ms, max(self.gap_ms, self.longest_covered_ms) + self.longest_covered_ms
        )


def _on_the_clock_of(now: Mark, mark: Mark, *, is_restart: bool) -> IdleCounters:
    """Return a mark's clocks as if the wall clock had not been set since: the other one tells how long nobody looked.

    One that was set back while the agent ran is left as it is: there was no tick, but nobody was away.
    """
    set_ms = now.ts_ms - mark.ts_ms - (now.monotonic_ms - mark.monotonic_ms)
    if -_DRIFT_MS < set_ms < _DRIFT_MS or (set_ms < 0 and not is_restart):
        return mark.clocks
    return {key: clock._replace(seen_ms=clock.seen_ms + set_ms) for key, clock in mark.clocks.items()}
