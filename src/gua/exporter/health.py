"""Whether the agent does what it is for: told by the loop, asked by probes and by each scrape."""

from __future__ import annotations

from typing import Final, NamedTuple

from gua.core.ports import Clock
from gua.core.tick import CardReading, Tick
from gua.core.words import ProcessList

LATE_INTERVALS: Final = 2
STALE_MS: Final = 30_000
HUNG_MS: Final = 30_000
"""The loop goes round every 5 s, and a reading may wait as long for a call that hangs."""
START_MS: Final = 90_000
"""A driver without persistence mode takes long for its first answers; who kills the agent for it makes it longer."""
DRIVER: Final = "driver"
_UNREADABLE: Final = "the cards cannot be read"
_LONGEST_REASON: Final = 300
_TOLD_ERRORS: Final = 8


class _Moment(NamedTuple):
    wall_ms: int
    monotonic_ms: int


class ServingHealth:
    """Written by the loop's thread and read by others; each attribute is replaced as a whole."""

    def __init__(self, clock: Clock, interval_ms: int) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._born = self._alive = self._now()
        self._ticked: _Moment | None = None
        self._failing: str | None = None
        self._skipped: str | None = None

    def ticked(self, tick: Tick) -> None:
        """Take note of a tick; one in which no card could be read is no good one."""
        failing = _failing(tick)
        self._failing = None if failing is None else f"{_UNREADABLE}: {failing}"
        self._skipped = None
        self._ticked = self._now()

    def skipped(self, reason: str, message: str) -> None:
        """Take note of a tick that could not be made, and why."""
        self._skipped = message
        if reason == DRIVER:
            self._failing = f"{_UNREADABLE}: {message}"

    def broken(self, message: str) -> None:
        """Take note that a tick could not be served, and why."""
        self._failing = message

    def alive(self) -> None:
        """Take note that the loop goes round."""
        self._alive = self._now()

    @property
    def is_ready(self) -> bool:
        """Whether there was a tick."""
        return self._ticked is not None

    @property
    def is_stale(self) -> bool:
        """Whether the last tick is so old that nobody knows what is on the cards now."""
        ticked = self._ticked
        return ticked is None or self._age_ms(ticked) > max(STALE_MS, LATE_INTERVALS * self._interval_ms)

    def trouble(self) -> str | None:
        """Return in one line what is wrong, ``None`` if nothing is."""
        failing, skipped, ticked = self._failing, self._skipped, self._ticked
        why = f": {skipped}" if skipped else ""
        if failing is not None:
            message = failing
        elif ticked is None:
            age_ms = self._age_ms(self._born)
            if age_ms <= max(START_MS, LATE_INTERVALS * self._interval_ms):
                return None
            message = f"no tick for {age_ms / 1000:.0f} s since the start{why}"
        elif (age_ms := self._age_ms(ticked)) > LATE_INTERVALS * self._interval_ms:
            due = f"one is due every {self._interval_ms / 1000:g} s"
            message = f"the last tick is {age_ms / 1000:.0f} s old, {due}{why}"
        elif (hung_ms := self._age_ms(self._alive)) > HUNG_MS:
            message = f"the loop that samples has not moved for {hung_ms / 1000:.0f} s{why}"
        else:
            return None
        return " ".join(message.split())[:_LONGEST_REASON]

    def _now(self) -> _Moment:
        return _Moment(self._clock.wall_ms(), self._clock.monotonic_ms())

    def _age_ms(self, then: _Moment) -> int:
        """Return the time since then by the clock that passed more: the monotonic one stands in a suspend."""
        now = self._now()
        return max(now.monotonic_ms - then.monotonic_ms, now.wall_ms - then.wall_ms)


def _failing(tick: Tick) -> str | None:
    """Return why no card of a tick could be read; ``None`` if one was, or the driver has none.

    Without a driver the agent still tells of the cards that it has met, but of their state it knows nothing.
    """
    if any(_is_read(card) for card in tick.cards) or not (tick.cards or tick.errors):
        return None
    if tick.cards and all(card.failed for card in tick.cards):
        return "every card is lost or needs a reset"
    said = [f"{error.call} {error.code}" for error in tick.errors]
    return ", ".join(list(dict.fromkeys(said))[:_TOLD_ERRORS]) or "the driver told nothing of any card"


def _is_read(card: CardReading) -> bool:
    """Return whether a reading tells more than which card it is; that a card did not fail may just not be known."""
    measurements = (
        card.memory_used_bytes,
        card.memory_limit_bytes,
        card.utilization,
        card.utilization_encoder,
        card.utilization_decoder,
        card.power_watts,
        card.temperature_celsius,
        card.energy_total_mj,
    )
    return card.process_list is ProcessList.KNOWN or any(value is not None for value in measurements)
