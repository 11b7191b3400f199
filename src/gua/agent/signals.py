"""The signals that ask the agent to stop, taken where the loop waits, so that no tick is cut in two.

They are blocked in every thread and fetched with sigwait(3) by a thread that does nothing else: a signal in the
middle of a tick is found at its end, and no handler runs at a moment when a lock is held. A child inherits the
blocked mask: it calls :func:`release` before anything else.

Not with sigtimedwait(2): after SIGCONT, CPython 3.11 returns a siginfo as if a signal had come.
"""

from __future__ import annotations

import signal
import threading
from typing import Final

STOP: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

_came: Final = threading.Event()


def hold() -> None:
    """Block the signals in this thread and those that it starts. Call it before any thread is started."""
    # Under nohup a terminal that closes is no reason to stop. Ignored and not blocked, it never becomes pending.
    held = STOP - {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else STOP
    for each in held:
        signal.signal(each, signal.SIG_DFL)  # a signal that is ignored could not be waited for
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    threading.Thread(target=_listen, args=(held,), name="signals", daemon=True).start()


def release() -> None:
    """Take back what a process inherited from one that called :func:`hold`."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)


def wait(seconds: float) -> bool:
    """Wait so long; return True at once when the process was asked to stop."""
    return _came.wait(max(0.0, seconds))


def asked() -> bool:
    """Return whether the process was asked to stop."""
    return _came.is_set()


def _listen(held: frozenset[signal.Signals]) -> None:
    signal.sigwait(held)
    _came.set()
