"""Slurm's own view of this node, asked in the background by its commands."""

from __future__ import annotations

import platform
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gua.allocation.commands import CommandError, ask
from gua.allocation.slurm_answers import (
    SQUEUE_FORMAT,
    Gres,
    ListedJob,
    parse_job_gres,
    parse_job_name,
    parse_job_workload,
    parse_jobs,
    parse_node_gres,
    parse_node_name,
    parse_slurmd,
)
from gua.core.workloads import NO_WORK, Work

PERIOD_SECONDS: Final = 60.0
_JITTER: Final = 0.1
_MOST_ASKS: Final = 64
_MOST_SECONDS: Final = 15.0
_CLOSE_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class PolledJob:
    """A job of this node, with its GPUs by Slurm's numbers, and what it is declared to be for. Times are Unix ms."""

    id: str
    uid: int
    user: str | None
    name: str | None
    gres: Gres
    since_ms: int
    until_ms: int | None
    workload: Work = NO_WORK


@dataclass(frozen=True, kw_only=True, slots=True)
class PollAnswer:
    """What Slurm said at ``at_ms`` (Unix ms, when it was asked), or the ``reason`` why it did not.

    ``jobs`` are all jobs of the node, also those without a GPU and those that ended lately. ``unexplained`` are GPUs in
    use of which no job was shown; ``unplaced`` is how many more of them there are, nobody says which. ``unclear`` are
    jobs whose GPUs cannot be told.
    """

    at_ms: int
    node: str | None = None
    jobs: dict[str, PolledJob] = field(default_factory=dict)
    unexplained: frozenset[int] = frozenset()
    unplaced: int = 0
    unclear: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    gres: Gres
    name: str | None
    workload: Work = NO_WORK


class SlurmPoll:
    """Asks ``squeue`` and ``scontrol`` every ``period_seconds``, a tenth more or less, from a thread of its own.

    The newest answer holds until the next; one that failed holds as a failure. ``node`` is this node's name in Slurm
    where it is known; else slurmd is asked for it, then the controller.
    """

    def __init__(
        self,
        *,
        node: str | None = None,
        period_seconds: float = PERIOD_SECONDS,
        ask: Callable[[Sequence[str]], str] = ask,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._given = node
        self._node = node
        self.period_seconds = period_seconds
        self._ask = ask
        self._wall_ms = wall_ms
        self._known: dict[tuple[str, int | None], _Known] = {}
        self._answer: PollAnswer | None = None
        self._answered_at = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def answer(self) -> PollAnswer:
        """Return the newest answer; never waits. The first call begins to ask."""
        if self._thread is None and not self._stop.is_set():
            thread = threading.Thread(target=self._work, name="gua-slurm", daemon=True)
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # no process is left for anybody: the next tick tries again
                pass
        answer = self._answer
        if answer is None:
            return PollAnswer(at_ms=0, node=self._node, reason="no answer yet")
        age = time.monotonic() - self._answered_at
        if answer.reason is None and age > 2 * self.period_seconds + _MOST_SECONDS:
            return PollAnswer(at_ms=0, node=self._node, reason=f"the last answer is {age:.0f} s old")
        return answer

    def close(self) -> None:
        """Ask no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    def poll(self) -> PollAnswer:
        """Ask once, and return the answer. Never raises."""
        at_ms = self._wall_ms()
        try:
            return self._poll(at_ms)
        except (CommandError, ValueError) as error:
            self._node = self._given
            return PollAnswer(at_ms=at_ms, reason=str(error))
        except Exception as error:  # noqa: BLE001 - whatever fails here, cards are measured on
            return PollAnswer(at_ms=at_ms, reason=f"unexpected {type(error).__name__}")

    def _work(self) -> None:
        random_part = random.SystemRandom()
        while not self._stop.is_set():
            self._answer = self.poll()
            self._answered_at = time.monotonic()
            self._stop.wait(self.period_seconds * (1 + random_part.uniform(-_JITTER, _JITTER)))

    def _poll(self, at_ms: int) -> PollAnswer:
        node = self._node = self._node or self._find_node()
        used = self._used(node)
        listed = parse_jobs(self._ask(["squeue", "-h", "-t", "all", "-w", node, "-o", SQUEUE_FORMAT]))
        keys = {(job.id, job.since_ms) for job in listed}
        self._known = {key: known for key, known in self._known.items() if key in keys}
        live = [job for job in listed if job.is_live]
        unclear = self._ask_for_gpus(live, used, node)
        unexplained = self._unexplained(live, used)
        if unexplained or self._unplaced(live, used):
            # A job may have ended between the two questions. Where the first answer had no places, the second counts.
            was_placed = not self._unplaced(live, used)
            used = self._used(node)
            now = self._unexplained(live, used)
            unexplained = unexplained & now if was_placed else now
        jobs = [self._with_gpus(job, at_ms) for job in listed]
        # A job that runs again stands beside its earlier run, under one id: what goes on counts.
        jobs.sort(key=lambda job: (job.until_ms is None, job.since_ms))
        return PollAnswer(
            at_ms=at_ms,
            node=node,
            jobs={job.id: job for job in jobs},
            unexplained=frozenset(unexplained),
            unplaced=self._unplaced(live, used),
            unclear=unclear,
        )

    def _used(self, node: str) -> Gres:
        return parse_node_gres(self._ask(["scontrol", "show", "node", "-d", "-o", node]), node)

    def _find_node(self) -> str:
        host = platform.node()
        try:
            node = parse_slurmd(self._ask(["scontrol", "show", "slurmd"]))
        except CommandError:
            node = None
        node = node or parse_node_name(self._ask(["scontrol", "show", "node", "-o"]), host)
        if node is None:
            msg = "this host is no node of Slurm's: say which one with its name"
            raise CommandError(msg)
        return node

    def _ask_for_gpus(self, live: Sequence[ListedJob], used: Gres, node: str) -> tuple[str, ...]:
        """Ask for the GPUs of jobs of which they are not known, as long as some may have any."""
        deadline = time.monotonic() + _MOST_SECONDS
        unclear: list[str] = []
        asked = 0
        for job in live:
            key = (job.id, job.since_ms)
            if key in self._known:
                if not self._known[key].gres.is_clear:
                    unclear.append(job.id)
                continue
            if used.is_clear and not used.shared and not self._unexplained(live, used):
                continue
            if asked == _MOST_ASKS or time.monotonic() > deadline:
                unclear.append(job.id)
                continue
            asked += 1
            try:
                answer = self._ask(["scontrol", "show", "job", "-d", "-o", job.shown_by])
            except CommandError:
                unclear.append(job.id)  # it may be gone already
                continue
            gres = parse_job_gres(answer, node)
            self._known[key] = _Known(gres, parse_job_name(answer), parse_job_workload(answer))
            if not gres.is_clear:
                unclear.append(job.id)
        return tuple(unclear)

    def _unexplained(self, live: Sequence[ListedJob], used: Gres) -> set[int]:
        return set(used.places).difference(*(each.places for each in self._known_gres(live)))

    def _unplaced(self, live: Sequence[ListedJob], used: Gres) -> int:
        """Return how many GPUs are in use that no job shown has, of those of which the node says only how many."""
        placed = frozenset[int]().union(*(each.places for each in self._known_gres(live)))
        return max(0, used.unplaced - len(placed - used.places))

    def _known_gres(self, live: Sequence[ListedJob]) -> list[Gres]:
        known = [self._known.get((job.id, job.since_ms)) for job in live]
        return [each.gres for each in known if each is not None]

    def _with_gpus(self, job: ListedJob, at_ms: int) -> PolledJob:
        known = self._known.get((job.id, job.since_ms), _Known(Gres(), None))
        until_ms = job.until_ms
        if not job.is_live:
            until_ms = at_ms if until_ms is None else min(until_ms, at_ms)
        return PolledJob(
            id=job.id,
            uid=job.uid,
            user=job.user,
            name=known.name,
            workload=known.workload,
            gres=known.gres,
            since_ms=at_ms if job.since_ms is None else job.since_ms,
            until_ms=until_ms,
        )
