"""Who: GPU time of owners, programs, containers, pods, jobs, hosts or models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BY_OWNER: Final = "owner"
BY_PROGRAM: Final = "program"
BY_CONTAINER: Final = "container"
BY_POD: Final = "pod"
BY_JOB: Final = "job"
BY_HOST: Final = "host"
BY_MODEL: Final = "model"
PARTIES_BY: Final = (BY_OWNER, BY_PROGRAM, BY_CONTAINER, BY_POD, BY_JOB, BY_HOST, BY_MODEL)


@dataclass(frozen=True, kw_only=True, slots=True)
class Party:
    """One owner (program, container, …) of processes; times in ms, Unix ms for moments.

    ``kind`` is ``listed``, or ``unlisted`` for the one row of time in which no listed process was on a card that was
    not truly-idle. ``name`` is ``None`` where it is not known, or where a process has none (is in no container). The
    split GPU times are attributed (docs/rules.md) and add up, over all rows, to those of cards that were active,
    idle-held or unknown; ``share`` is the part of that sum, 0 to 1. ``unsplit_ms``: how long its processes were on
    those cards, each for itself. ``longest_idle_ms``: longest idle episode of any process that had the name when it was
    last seen, ``None`` where no such process was ever known to be active or idle. A session is one process, however
    many cards it was on; ``first_ms`` and ``last_ms`` are when any was first and last seen on a card in the window. Of
    hours whose processes were not kept apart there are no sessions (``None``).
    """

    kind: str
    name: str | None
    gpu_ms: float
    active_gpu_ms: float
    idle_held_gpu_ms: float
    unknown_gpu_ms: float
    share: float | None
    unsplit_ms: float
    longest_idle_ms: int | None
    sessions: int | None
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Parties:
    """All rows by one key of :data:`PARTIES_BY`, the largest first."""

    by: str
    rows: tuple[Party, ...]
