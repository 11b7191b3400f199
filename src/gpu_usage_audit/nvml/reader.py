"""The host's NVIDIA cards through NVML: :class:`gpu_usage_audit.core.ports.CardReader`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NoReturn

from gpu_usage_audit.core.errors import UnavailableError
from gpu_usage_audit.core.ports import Clock, RawCard
from gpu_usage_audit.core.tick import CardReading, ProcessList, ReadError
from gpu_usage_audit.nvml.calls import Calls, CardLostError
from gpu_usage_audit.nvml.card import Seen, read_card, read_identity
from gpu_usage_audit.nvml.driver import (
    DRIVER_NOT_LOADED,
    LIB_RM_VERSION_MISMATCH,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    Driver,
    code_name,
    code_of,
    load,
)

_REMEDIES: Final = {
    LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not installed here: install the NVIDIA driver, or start the container "
    "with the NVIDIA runtime (--gpus all)",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded: load it (modprobe nvidia) and check with nvidia-smi",
    NO_PERMISSION: "no permission to open the NVIDIA devices: run gua as a user who may open /dev/nvidiactl",
    LIB_RM_VERSION_MISMATCH: "the NVIDIA library and the loaded kernel module differ in version: reload the module or "
    "restart the host",
}

# A first look at process utilization goes this far back, like the instant card utilization beside it.
_FIRST_LOOK_US: Final = 1_000_000


class NvmlReader:
    """Reads every card; one that fails does not hide the others.

    Opens the driver at the first read, and anew after it failed as a whole.
    """

    def __init__(self, clock: Clock, driver: Driver | None = None) -> None:
        self._clock = clock
        self._driver = load() if driver is None else driver
        self._open = False
        self._identities: dict[int, CardReading] = {}
        self._seen: dict[str, Seen] = {}

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        """Return each card once, MIG instances after their parent, and what failed.

        Raises UnavailableError, with what to do, if there is no driver or no card could be read at all.
        """
        try:
            self._start()
            count = self._driver.nvmlDeviceGetCount()
        except self._driver.NVMLError as error:
            self.close()
            _refuse(error)
        if count == 0:
            self.close()
            msg = "the NVIDIA driver lists no card: check nvidia-smi -L, and that this process may open /dev/nvidia*"
            raise UnavailableError(msg)
        cards: list[RawCard] = []
        errors: list[ReadError] = []
        for index in range(count):
            calls = Calls(self._driver)
            cards += self._read_index(index, calls)
            errors += calls.errors
        if not cards:
            self.close()
            first = errors[0]
            msg = f"none of {count} cards can be read ({first.call}: {first.code}): check nvidia-smi"
            raise UnavailableError(msg)
        return cards, errors

    def close(self) -> None:
        """Release the driver; a later read opens it again."""
        if not self._open:
            return
        self._open = False
        self._identities.clear()
        try:
            self._driver.nvmlShutdown()
        except self._driver.NVMLError:
            # A driver that is gone cannot be released, and needs not.
            return

    def _start(self) -> None:
        if not self._open:
            self._driver.nvmlInit()
            self._open = True

    def _read_index(self, index: int, calls: Calls) -> list[RawCard]:
        """Return the card at an index with its instances; a lost one as it was last known, if it was."""
        known = self._identities.get(index)
        calls.uuid = None if known is None else known.uuid
        try:
            handle = calls.ask(self._driver.nvmlDeviceGetHandleByIndex, index)
            uuid = None if handle is None else calls.ask(self._driver.nvmlDeviceGetUUID, handle)
            if uuid is None:
                return []
            self._forget_other(index, uuid)
            calls.uuid = uuid
            identity = self._identities.get(index)
            if identity is None:
                # Remembered before anything else is asked, so that a card lost right now still has its name.
                self._identities[index] = CardReading(uuid=uuid, duration_ms=1, gpu_time_ms=0, index=index)
                identity = read_identity(self._driver, calls, handle, uuid, index)
                self._identities[index] = identity
            first = Seen(process_use_us=self._clock.wall_ms() * 1000 - _FIRST_LOOK_US)
            return list(read_card(self._driver, calls, handle, identity, self._seen.setdefault(uuid, first)))
        except CardLostError:
            lost = self._identities.get(index)
            if lost is None:
                return []
            reading = replace(lost, failed=True, process_list=ProcessList.FAILED)
            return [RawCard(reading=reading, share=(1, 1), processes=())]

    def _forget_other(self, index: int, uuid: str) -> None:
        """Drop what is known of an index that another card has taken (hot plug, driver reload)."""
        known = self._identities.get(index)
        if known is not None and known.uuid != uuid:
            del self._identities[index]


def _refuse(error: Exception) -> NoReturn:
    code = code_of(error)
    remedy = _REMEDIES.get(code, "check that nvidia-smi works here")
    msg = f"cannot read the GPUs (NVML {code_name(code)}): {remedy}"
    raise UnavailableError(msg) from error
