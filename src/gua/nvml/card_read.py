"""What a card's own thread does: find the card that is at an index, read it, or empty its rings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gua.core.ports import RawCard
from gua.nvml.calls import Calls, CardLostError, DriverGoneError
from gua.nvml.card import read_card, read_identity
from gua.nvml.card_cache import KnownCard
from gua.nvml.driver import GPU_NOT_FOUND, INVALID_ARGUMENT, NOT_FOUND, Driver, Handle

# A handle that was good and is no longer: the cards were counted anew.
_INVALID = dict.fromkeys((INVALID_ARGUMENT, GPU_NOT_FOUND, NOT_FOUND))


class Visit:
    """One look at the card at an index.

    After it: ``cards`` (the card, then its instances) if it could be read, the ``handle`` and the card ``known``
    for the next visit, and ``moved`` if the handle that it came with stands for another card now or for none,
    ``lost`` or ``gone`` if the card or the whole driver is.
    """

    def __init__(self, index: int, handle: Handle | None, known: KnownCard | None, version: str | None) -> None:
        self.index = index
        self.handle = handle
        self.known = known
        self.version = version
        self.cards: list[RawCard] = []
        self.moved = False
        self.lost = False
        self.gone = False

    def run(self, driver: Driver, calls: Calls, know: Callable[[str], KnownCard]) -> None:
        """Ask the driver; ``know`` gives what is remembered of a UUID."""
        try:
            if self._find(driver, calls, know):
                self._read(driver, calls)
        except CardLostError:
            self.lost = True
        except DriverGoneError:
            self.gone = True

    def _find(self, driver: Driver, calls: Calls, know: Callable[[str], KnownCard]) -> bool:
        """Set the handle and who it stands for; return whether there is a card to be read."""
        if self.handle is None:
            self.handle = calls.ask(driver.nvmlDeviceGetHandleByIndex, self.index)
            uuid = None if self.handle is None else calls.ask(driver.nvmlDeviceGetUUID, self.handle)
            if uuid is None:
                self.handle = None
                return False
            self.known = know(uuid)
            calls.uuid = uuid
            return True
        before = len(calls.errors)
        uuid = calls.ask_with(_INVALID, driver.nvmlDeviceGetUUID, self.handle)
        if uuid is None:
            # With any other error the handle may still be good, and the other calls may answer.
            self.moved = len(calls.errors) == before
        else:
            self.moved = self.known is None or uuid != self.known.uuid
        return not self.moved

    def _read(self, driver: Driver, calls: Calls) -> None:
        known = self.known
        if known is None:
            return
        if (known.identity.index, known.identity.driver_version) != (self.index, self.version):
            known.identity = replace(known.identity, index=self.index, driver_version=self.version)
        known.identity = read_identity(driver, calls, self.handle, known.identity)
        self.cards = read_card(driver, calls, self.handle, known)
        known.remember(self.cards)


def drain(driver: Driver, calls: Calls, handle: Handle, known: KnownCard) -> None:
    """Empty a card's rings; what failed is told with the next visit."""
    try:
        known.samples.drain(driver, calls, handle)
        if known.uses.due:
            known.uses.drain(driver, calls, handle)
    except (CardLostError, DriverGoneError):
        # The next visit meets the same, and tells it.
        return
    finally:
        known.drained |= dict.fromkeys(calls.errors)
