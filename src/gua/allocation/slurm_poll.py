"""Slurm's own view of this node, asked in the background by its commands."""

from __future__ import annotations

import platform
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from gua.allocation.commands import CommandError, ask
from gua.allocation.slurm_answers import (
    SQUEUE_FORMAT,
    Gres,
    Job,
    parse_job_gres,
    parse_job_name,
    parse_job_workload,
    parse_jobs,
    parse_node_gres,
    parse_node_name,
    parse_slurmd,
)

PERIOD_SECONDS: Final = 60.0
_JITTER: Final = 0.1
_MOST_ASKS: Final = 64
_MOST_SECONDS: Final = 15.0
_CLOSE_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class PollAnswer:
    """What Slurm said at ``at_ms`` (Unix ms, when it was asked), or the ``reason`` why it did not.

    ``jobs`` are all jobs of the node, also those without a GPU and those that ended lately. ``unexplained`` are GPUs in
    use of which no job was shown; ``unplaced`` is how many more of them there are, nobody says which. ``unclear`` are
    jobs whose GPUs cannot be told.
    """

    at_ms: int
    node: str | None = None
    jobs: dict[str, Job] = field(default_factory=dict)
    unexplained: frozenset[int] = frozenset()
    unplaced: int = 0
    unclear: tuple[str, ...] = ()
    reason: str | None = None


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
        self._known: dict[tuple[str, int], Job] = {}
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
        listed = parse_jobs(self._ask(["squeue", "-h", "-t", "all", "-w", node, "-o", SQUEUE_FORMAT]), at_ms)
        keys = {job.key for job in listed}
        self._known = {key: known for key, known in self._known.items() if key in keys}
        live = [job for job in listed if job.until_ms is None]
        unclear = self._ask_for_gpus(live, used, node)
        unexplained = self._unexplained(live, used)
        if unexplained or self._unplaced(live, used):
            # A job may have ended between the two questions. Where the first answer had no places, the second counts.
            was_placed = not self._unplaced(live, used)
            used = self._used(node)
            now = self._unexplained(live, used)
            unexplained = unexplained & now if was_placed else now
        jobs = [replace(self._known.get(job.key, job), until_ms=job.until_ms) for job in listed]
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

    def _ask_for_gpus(self, live: Sequence[Job], used: Gres, node: str) -> tuple[str, ...]:
        """Ask for the GPUs of jobs of which they are not known, as long as some may have any."""
        deadline = time.monotonic() + _MOST_SECONDS
        unclear: list[str] = []
        asked = 0
        for job in live:
            if job.key not in self._known:
                if used.is_clear and not used.shared and not self._unexplained(live, used):
                    continue
                if asked < _MOST_ASKS and time.monotonic() <= deadline:
                    asked += 1
                    with suppress(CommandError):  # it may be gone already
                        answer = self._ask(["scontrol", "show", "job", "-d", "-o", job.shown_by])
                        self._known[job.key] = replace(
                            job,
                            gres=parse_job_gres(answer, node),
                            name=parse_job_name(answer),
                            workload=parse_job_workload(answer),
                        )
            if job.key not in self._known or not self._known[job.key].gres.is_clear:
                unclear.append(job.id)
        return tuple(unclear)

    def _unexplained(self, live: Sequence[Job], used: Gres) -> set[int]:
        return set(used.places).difference(*(each.places for each in self._known_gres(live)))

    def _unplaced(self, live: Sequence[Job], used: Gres) -> int:
        """Return how many GPUs are in use that no job shown has, of those of which the node says only how many."""
        placed = frozenset[int]().union(*(each.places for each in self._known_gres(live)))
        return max(0, used.unplaced - len(placed - used.places))

    def _known_gres(self, live: Sequence[Job]) -> list[Gres]:
        return [self._known[job.key].gres for job in live if job.key in self._known]
