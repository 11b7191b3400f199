"""Trying again: exponential back-off with jitter, the server's Retry-After, and an end to patience."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from gua.core.errors import TransientError

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 30.0

T = TypeVar("T")


def send_with_retry(
    attempt: Callable[[], T],
    *,
    patience_seconds: float,
    sleep: Callable[[float], object] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> T:
    """Return what ``attempt`` returns, calling it again after each :class:`TransientError` while patience lasts.

    Waits are drawn evenly from 0 to a bound that doubles from 0.5 s to 30 s ("full jitter"), or are what the
    server asked for if that is longer. The last error is raised as soon as the next wait would outlast
    ``patience_seconds``, counted from the first failure.
    """
    bound = _FIRST_SECONDS
    deadline: float | None = None
    while True:
        try:
            return attempt()
        except TransientError as error:
            now = monotonic()
            deadline = now + patience_seconds if deadline is None else deadline
            wait = max(bound * jitter(), error.retry_after_seconds or 0.0)
            if now + wait > deadline:
                raise
            sleep(wait)
            bound = min(bound * 2, _LONGEST_SECONDS)
