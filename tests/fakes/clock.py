"""A clock that tests move."""

from __future__ import annotations


class FakeClock:
    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 50_000, boot: str | None = "boot") -> None:
        self.wall = wall_ms
        self.monotonic = monotonic_ms
        self.boot = boot

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def boot_id(self) -> str | None:
        return self.boot

    def advance(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.monotonic += milliseconds
