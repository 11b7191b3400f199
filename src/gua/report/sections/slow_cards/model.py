"""What may have slowed cards down, as their driver tells it."""

from __future__ import annotations

from dataclasses import dataclass

from gua.report.kit.fields import Hours


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowCard:
    """A card's time in the window, and what of it the driver tells why clocks were held down (``told_ms``).

    ``heat_ms``, ``power_cap_ms`` and ``hardware_ms`` are of ticks in which it was so when the card was read, and may
    overlap; ``slowed_ms`` is heat or hardware. Errors are at least so many; ``None`` where nothing was told. ``xid`` is
    the number of the newest XID event, ``row_remap`` the newest state: 0 nothing to do, 1 pending, 2 failed, 3 both.
    """

    host: str
    gpu: str
    index: int | None
    model: str | None
    observed_ms: Hours[int]
    told_ms: Hours[int]
    heat_ms: Hours[int]
    power_cap_ms: Hours[int]
    hardware_ms: Hours[int]
    slowed_ms: Hours[int]
    xid_errors: int | None
    xid: int | None
    ecc_errors: int | None
    row_remap: int | None

    @property
    def is_noteworthy(self) -> bool:
        """Return whether anything was told but nothing."""
        told = (self.slowed_ms, self.power_cap_ms, self.xid_errors, self.ecc_errors, self.row_remap)
        return any(told)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowCards:
    """Every card, those that heat or hardware slowed the longest first."""

    cards: tuple[SlowCard, ...]
