"""Run a call for a limited time, where a server or a program may be slow or silent."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def bounded(call: Callable[[], T], seconds: float) -> T | None:
    """Return what ``call`` returns, ``None`` if it takes longer than ``seconds``.

    It runs in a daemon thread. A call that takes longer goes on in the background until its own timeouts or the end of
    the process, and its result is dropped. ``call`` must not raise.
    """
    results: SimpleQueue[T] = SimpleQueue()
    threading.Thread(target=lambda: results.put(call()), name="gua-notice", daemon=True).start()
    try:
        return results.get(timeout=seconds)
    except Empty:
        return None
