"""Lands what the spool holds into a store every hour, by a short-lived child: the agent never loads the engine."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gua.agent.endpoint_delivery import Delivered, DeliveryThread
from gua.core.errors import GuaError

EVERY_SECONDS: Final = 3600.0
_FIRST_BACK_OFF_SECONDS: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Landed:
    """What the child says it did."""

    ticks: int
    refused: int


class PeriodicLanding(DeliveryThread):
    """Calls ``land`` every hour until :meth:`stop`; after a failure first after a minute, doubling to the hour.

    ``land(stopping)`` runs the child, ends it when ``stopping`` is set, and raises GuaError with what went wrong.
    The first landing comes at a random moment of the second half of the first hour: hosts that were started together
    do not land together, and what was just started has nothing to land.
    """

    def __init__(
        self,
        destination: str,
        *,
        land: Callable[[threading.Event], Landed],
        watcher: Delivered,
        every_seconds: float = EVERY_SECONDS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(f"land into {destination}")
        self._destination = destination
        self._land = land
        self._watcher = watcher
        self._every_seconds = every_seconds
        self._jitter = jitter

    def run(self) -> None:
        """Land until stopped."""
        wait = self._every_seconds * (1 + self._jitter()) / 2
        back_off = _FIRST_BACK_OFF_SECONDS
        while not self._stop.wait(wait):
            try:
                landed = self._land(self._stop)
            except Exception as error:  # noqa: BLE001 - no room for a child now, say: the next try must not be lost
                if self._stop.is_set():
                    return
                words = str(error) if isinstance(error, GuaError) else f"unexpected {type(error).__name__}: {error}"
                self._watcher.failed(self._destination, words)
                wait = min(back_off, self._every_seconds)
                back_off *= 2
            else:
                self._watcher.delivered(self._destination, ticks=landed.ticks, refused=landed.refused)
                wait = self._every_seconds
                back_off = _FIRST_BACK_OFF_SECONDS
