"""Checks of the driver: device files, the library, and one reading of every card by the agent's own reader."""

import ctypes
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from gua.app.doctor.finding import Finding, error_finding, failed, ok, skipped, warning
from gua.core.errors import UnavailableError
from gua.core.ports import CardReader, RawCard
from gua.core.tick import ReadError
from gua.core.words import Mig, ProcessList, recovery_need, recovery_steps
from gua.report.kit.figures import plural
from gua.report.kit.words import gpus_in_words

LIBRARY: Final = "libnvidia-ml.so.1"
_DEVICE: Final = re.compile(r"nvidia(ctl|[0-9]+)")
_INSTALL: Final = "install the NVIDIA driver, or start the container with the NVIDIA runtime (--gpus all)"
_RESET: Final = "look at dmesg for its Xid, then nvidia-smi --gpu-reset, or restart the host; other cards go on"
_LOST: Final = frozenset({"GPU_IS_LOST", "RESET_REQUIRED"})
_GIB: Final = 2**30
# Between two GPM samples of a MIG instance; less than 0.1 s is too short.
_BETWEEN_SECONDS: Final = 0.25


def check_driver(dev: Path, reader: Callable[[], CardReader]) -> list[Finding]:
    """Return findings on the device files in ``dev``, the library, the driver, and each card."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        reason = (str(error).splitlines() or ["unknown"])[0].removeprefix(f"{LIBRARY}: ")
        return [
            _devices(dev, works=False),
            failed("library", f"{LIBRARY} cannot be loaded ({reason})", _INSTALL),
            skipped("driver", "not without its library"),
        ]
    findings = [ok("library", f"{LIBRARY} loads")]
    cards = reader()
    try:
        read, errors = cards.read()
        if any(card.reading.mig is Mig.INSTANCE for card in read):
            time.sleep(_BETWEEN_SECONDS)
            read, errors = cards.read()
    except UnavailableError as error:
        return [_devices(dev, works=False), *findings, error_finding("driver", error)]
    finally:
        cards.close()
    general = [error for error in errors if error.uuid is None]
    findings += [_driver(read, general), *(_card(card, errors) for card in read), _activity(read, errors)]
    return [_devices(dev, works=True), *findings]


def _devices(dev: Path, *, works: bool) -> Finding:
    try:
        names = sorted(name for name in os.listdir(dev) if _DEVICE.fullmatch(name))  # noqa: PTH208 - only names
    except OSError:
        names = []
    denied = [name for name in names if not os.access(dev / name, os.R_OK | os.W_OK)]
    if denied:
        return failed(
            "devices",
            f"{dev}/{denied[0]} may not be read and written by this user ({len(denied)} of {len(names)})",
            f"run the agent as a user who may, or add it to the group that owns {dev}/{denied[0]}",
        )
    if names:
        return ok("devices", f"{len(names)} in {dev}, all permitted")
    if works:
        return ok("devices", f"none in {dev}, and the driver works without")
    return failed("devices", f"no {dev}/nvidiactl and no {dev}/nvidia0", f"{_INSTALL}; modprobe nvidia loads it")


def _driver(cards: Sequence[RawCard], errors: Sequence[ReadError]) -> Finding:
    version = next((card.reading.driver_version for card in cards if card.reading.driver_version), None)
    gpus = gpus_in_words((card.reading.uuid, card.reading.mig, card.reading.parent) for card in cards)
    detail = f"version {version or 'unknown'}, {gpus}"
    if errors:
        lost = any(error.code in _LOST for error in errors)
        make = failed if lost else warning
        return make("driver", f"{detail}; {_codes(errors)}", _RESET if lost else "look at nvidia-smi and dmesg")
    return ok("driver", detail)


def _card(card: RawCard, errors: Sequence[ReadError]) -> Finding:
    reading = card.reading
    index = "" if reading.index is None else f" {reading.index}"
    name, title = f"card.{reading.uuid}", f"card{index} MIG" if reading.mig is Mig.INSTANCE else f"card{index}"
    own = [error for error in errors if error.uuid == reading.uuid and not _is_of_activity(card, error)]
    if reading.failed:
        return failed(name, f"{reading.uuid} is lost or needs a reset; {_codes(own)}", _RESET, title=title)
    gaps = _gaps(card)
    action = reading.recovery_action or 0
    needs = f"needs {recovery_need(action)}" if action else ""
    detail = "; ".join(filter(None, (*_facts(card), needs, *gaps, _codes(own))))
    if action or gaps or own:
        unread = "what cannot be read stays unknown; a newer driver, or root, may read it"
        return warning(name, detail, recovery_steps(action, reading.index) if action else unread, title=title)
    return ok(name, detail, title=title)


def _facts(card: RawCard) -> Iterator[str]:
    """Yield what the driver reports on a card."""
    from gua.nvml.quirks import WIDE_LISTS, has_wide_lists  # noqa: PLC0415 - only with a card

    reading = card.reading
    yield f"{reading.name or reading.model or 'unknown model'} ({reading.uuid})"
    mig = {Mig.PARENT: "MIG on", Mig.INSTANCE: f"instance of {reading.parent}", None: "MIG unknown"}
    yield mig.get(reading.mig, "MIG off")
    if reading.memory_shared:
        yield "memory shared with the host"
    elif reading.memory_used_bytes is not None and reading.memory_limit_bytes is not None:
        is_separate = reading.memory_reserved_bytes is not None
        reserve = "driver's reserve separate" if is_separate else "with the driver's reserve"
        yield f"{reading.memory_used_bytes / _GIB:.1f} of {reading.memory_limit_bytes / _GIB:.1f} GiB used, {reserve}"
    if card.samples:
        yield "utilization from samples"
    elif reading.utilization is not None:
        yield "utilization as an instant value, no samples yet"
    if reading.process_list is ProcessList.KNOWN:
        yield plural(len(card.processes), "process", "processes")
    if has_wide_lists(reading.driver_version):
        yield f"known fault of this driver, worked around: {WIDE_LISTS}"


def _is_of_activity(card: RawCard, error: ReadError) -> bool:
    """Return whether an error concerns activity alone; an instance's utilization uses the same counters."""
    return card.reading.mig is not Mig.INSTANCE and error.call.startswith("nvmlGpm")


def _activity(cards: Sequence[RawCard], errors: Sequence[ReadError]) -> Finding:
    """Return whether the cards have the counters that ``--activity gpm`` reads, and the errors if not."""
    countable = {card.reading.uuid: card for card in cards if card.reading.mig is not Mig.PARENT}
    counted = sum(card.has_activity for card in countable.values())
    failures = [error for error in errors if error.uuid in countable and _is_of_activity(countable[error.uuid], error)]
    detail = (
        f"{counted} of {plural(len(countable), 'card')} can report activity of SMs, tensor cores and memory bandwidth"
    )
    if failures:
        remedy = "gua works without; try it as root, or leave --activity off"
        return warning("activity", f"{detail}; {_codes(failures)}", remedy)
    if not counted:
        return ok("activity", "no card has performance counters (GPM, Hopper and newer)")
    return ok("activity", f"{detail}: gua daemon --activity gpm reads it")


def _gaps(card: RawCard) -> list[str]:
    reading, gaps = card.reading, []
    if reading.process_list is ProcessList.FAILED:
        gaps.append("its processes cannot be read: no owners")
    if reading.memory_used_bytes is None and not reading.memory_shared:
        gaps.append("its memory cannot be read")
    # A MIG parent stands for its unallocated slices, which no process can use.
    if reading.utilization is None and not card.samples and reading.mig is not Mig.PARENT:
        gaps.append("its utilization cannot be read: unknown wherever something may be held")
    return gaps


def _codes(errors: Sequence[ReadError]) -> str:
    counted = Counter((error.call, error.code) for error in errors)
    return ", ".join(f"{call}: {code}" for call, code in sorted(counted))
