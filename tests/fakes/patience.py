"""An end for what would never come to one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail the test where the block takes longer, whatever errors it catches; for the main thread."""

    def end(*_: object) -> None:
        pytest.fail(f"it took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
