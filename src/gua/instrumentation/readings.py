"""Readings of the driver: the agent's reader and sampler without a spool, in a thread with a deadline.

A collection of metrics makes one reading, which all instruments and providers share.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from gua.agent.sampler import Sampler
from gua.core.ports import Mark
from gua.core.tick import Origin, Tick
from gua.core.words import Source
from gua.identity.process import ProcessIdentity, owners_of
from gua.instrumentation.options import Scope, guarded, warn_once
from gua.instrumentation.visible import visible_cards
from gua.nvml.reader import NvmlReader
from gua.procfs.reader import ProcFs, SystemClock

if TYPE_CHECKING:
    from gua.instrumentation.instruments import Instruments

DEADLINE_SECONDS: Final = 2.0
# For how long a reading serves other collections, such as those of other providers.
_FRESH_SECONDS: Final = 0.25
# Shorter than the deadline, so that cards that answer are reported beside one that hangs, also at the first reading.
_CALL_SECONDS: Final = 1.5
Reading = tuple[Tick, frozenset[int] | None]
"""A tick of the cards in scope with all processes on them, and the pids in scope, ``None`` for all."""


class Readings:
    """Reader of the cards in scope. Use it from one thread at a time. ``inherited`` is that of NvmlReader."""

    def __init__(self, scope: Scope, *, inherited: bool = False) -> None:
        self._scope = scope
        self._procfs = ProcFs()
        self._clock = SystemClock(self._procfs)
        self._started_ms = self._clock.monotonic_ms()
        self._seen_by_host = self._procfs.in_initial_pid_namespace()
        table, boot_time_ms = self._procfs if self._seen_by_host else None, self._procfs.boot_time_ms()
        interval = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "").strip()
        interval_ms = int(interval) if interval.isdecimal() and 0 < len(interval) < 10 else 60_000
        self.cards = NvmlReader(
            self._clock, call_limit_seconds=_CALL_SECONDS, start_limit_seconds=_CALL_SECONDS, inherited=inherited
        )
        self._sampler = Sampler(
            cards=self.cards,
            processes=ProcessIdentity(table, owners_of(self._procfs), boot_time_ms=boot_time_ms),
            clock=self._clock,
            origin=Origin(host=platform.node(), source=Source.PROGRAM, interval_ms=interval_ms),
            initial_pid_namespace=self._seen_by_host,
        )
        self._mark: Mark | None = None
        self._own: set[tuple[int, int]] = set()

    def read(self) -> Reading | None:
        """Return a reading, ``None`` if no time has passed since the last one. Raises UnavailableError.

        It covers the time since the last one, but only one interval after a break of more than two (as a tick does).
        The interval is the SDK's, or the time until the first reading if that is longer.
        """
        if self._mark is None:
            origin, waited_ms = self._sampler.origin, self._clock.monotonic_ms() - self._started_ms
            self._sampler.origin = replace(origin, interval_ms=max(origin.interval_ms, waited_ms))
        sample = self._sampler.sample(self._mark)
        if sample.tick is None:
            return None
        self._mark = sample.mark
        for failure in sample.tick.errors:
            failed = f"{failure.call} failed: {failure.code}"
            warn_once(failed, f"{failed} (card {failure.uuid}); what it reads is not reported")
        # Without the agent's own metrics, so that nothing takes this program for an agent.
        tick = replace(sample.tick, agent=None)
        if self._scope is Scope.HOST:
            return tick, None
        tick = replace(tick, cards=tuple(visible_cards(tick.cards)))
        return tick, self._own_pids({process.pid for card in tick.cards for process in card.processes})

    def _own_pids(self, pids: set[int]) -> frozenset[int]:
        """Return those of this process and its descendants, also of descendants whose parent has ended."""
        if pids and not self._seen_by_host:
            reason = "this program has its own PID namespace, so its processes on the cards are unknown"
            warn_once(reason, f"no process metrics: {reason}. Use the host's: docker --pid host, hostPID")
            return frozenset()
        starts = {(pid, stat.start_ticks) for pid in pids if (stat := self._procfs.stat(pid)) is not None}
        self._own = {process for process in starts if process in self._own or self._is_descendant(process[0])}
        return frozenset(pid for pid, _ in self._own)

    def _is_descendant(self, pid: int) -> bool:
        while pid != os.getpid():
            stat = self._procfs.stat(pid)
            if stat is None:  # of 0, the parent of the first process, at the latest
                return False
            pid = stat.parent
        return True


class SharedReadings:
    """Reader of the driver for the instruments of all providers. A forked child opens the driver anew."""

    def __init__(self) -> None:
        self.scope = Scope.PROCESS
        self.listeners: WeakSet[Instruments] = WeakSet()
        self._readings: Readings | None = None
        self._thread: threading.Thread | None = None
        self._last: Reading | None = None
        self._read_at = 0.0
        self._begin()
        os.register_at_fork(after_in_child=self._after_fork)

    def start(self, listener: Instruments) -> None:
        """Add the instruments of a provider. The first reading opens the driver."""
        self._readings = self._readings or Readings(self.scope)
        with self._lock:
            self.listeners.add(listener)

    def stop(self) -> None:
        """Remove all listeners and release the driver; afterwards nothing is read."""
        with self._lock:  # a collection has it for no longer than the deadline
            readings, self._readings = self._readings, None
            self._forget()
            self.listeners.clear()
            if readings is not None:
                self._run(readings.cards.close)

    def refresh(self, listener: Instruments) -> Reading | None:
        """Return the last reading if it is fresh, else a new one; if that fails, ``None``, and all listeners forget."""
        with self._lock:
            readings = self._readings
            if readings is None or listener not in self.listeners:
                return None
            if time.monotonic() - self._read_at < _FRESH_SECONDS:
                return self._last
            answers: list[Reading | None] = []

            @guarded()
            def work() -> None:
                answers.append(readings.read())

            with guarded():
                if not self._run(work):
                    late = f"the NVIDIA driver has not answered for {DEADLINE_SECONDS:g} s"
                    warn_once(late, f"no GPU metrics until the driver answers: {late}")
            self._last = answers[0] if answers else None
            if self._last is None:
                self._forget()
            self._read_at = time.monotonic()
            return self._last

    def _run(self, work: Callable[[], object]) -> bool:
        """Run ``work`` in a thread; return whether it ended in time. Return at once while the last one still runs."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = threading.Thread(target=work, name="gua-instrumentation", daemon=True)
        self._thread.start()
        self._thread.join(DEADLINE_SECONDS)
        return not self._thread.is_alive()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread = None
        self._forget()

    def _forget(self) -> None:
        self._last, self._read_at = None, float("-inf")
        for listener in self.listeners:
            listener.forget()

    @guarded()
    def _after_fork(self) -> None:
        """Begin anew in a child: the parent's threads, and what they were reading, are not there."""
        self._begin()
        for listener in self.listeners:
            listener.collecting.clear()  # the SDK starts its readers' threads anew
        if self._readings is not None:
            self._readings = Readings(self.scope, inherited=self._readings.cards.is_open)
