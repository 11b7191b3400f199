"""What identity asks of the host, as Protocols: a process table and the names of users."""

from __future__ import annotations

from typing import Protocol


class Life(Protocol):
    """What tells one process from the next with the same pid, and its name."""

    @property
    def comm(self) -> str:
        """Return its name, at most 15 bytes of it."""
        ...

    @property
    def start_ticks(self) -> int:
        """Return its start in clock ticks since boot."""
        ...

    @property
    def is_dead(self) -> bool:
        """Return whether it has ended and only waits to be reaped."""
        ...


class Facts(Protocol):
    """One process as the kernel tells it."""

    @property
    def comm(self) -> str:
        """Return its name, at most 15 bytes of it."""
        ...

    @property
    def start_ticks(self) -> int:
        """Return its start in clock ticks since boot."""
        ...

    @property
    def uid(self) -> int | None:
        """Return the user who started it."""
        ...

    @property
    def cgroup(self) -> str | None:
        """Return the text of its cgroup file."""
        ...


class ProcessTable(Protocol):
    """Where processes are looked up."""

    @property
    def ticks_per_second(self) -> int:
        """Return the kernel's clock ticks per second (USER_HZ)."""
        ...

    def stat(self, pid: int) -> Life | None:
        """Return the cheap part, asked for in every tick; ``None`` if nothing can be told about the process."""
        ...

    def process(self, pid: int) -> Facts | None:
        """Return a process, ``None`` if nothing can be told about it."""
        ...


class NoProcesses:
    """Knows nobody: for a PID namespace in which the driver's pids mean other processes, or none."""

    ticks_per_second = 100

    def stat(self, pid: int) -> None:  # noqa: ARG002 - whoever is asked for is not known
        """Return ``None``."""
        return

    def process(self, pid: int) -> None:  # noqa: ARG002 - as above
        """Return ``None``."""
        return
