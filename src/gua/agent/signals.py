"""Stop signals, handled only where the loop waits, so that no tick is interrupted.

They are blocked in every thread; a dedicated thread waits for them with sigwait(3). A signal during a tick takes effect
at its end, and no handler runs while a lock is held. A child process inherits the blocked mask, so it must call
:func:`release` first.

sigtimedwait(2) does not work: after SIGCONT, CPython 3.11 returns a siginfo as if a signal had arrived.
"""

import signal
import threading
from typing import Final

STOP: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

_came: Final = threading.Event()


def hold() -> None:
    """Block the signals in this thread and those that it starts. Call it before any thread is started."""
    # Under nohup, SIGHUP must not stop the agent. Ignored and not blocked, it never becomes pending.
    held = STOP - {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else STOP
    for each in held:
        signal.signal(each, signal.SIG_DFL)  # sigwait does not return for an ignored signal
    signal.pthread_sigmask(signal.SIG_BLOCK, held)
    threading.Thread(target=_listen, args=(held,), name="signals", daemon=True).start()


def release() -> None:
    """Unblock the signals in a child of a process that called :func:`hold`."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)


def wait(seconds: float) -> bool:
    """Wait up to ``seconds``; return True as soon as a stop signal has arrived."""
    return _came.wait(max(0.0, seconds))


def stop_requested() -> bool:
    """Return whether a stop signal has arrived."""
    return _came.is_set()


def _listen(held: frozenset[signal.Signals]) -> None:
    signal.sigwait(held)
    _came.set()
