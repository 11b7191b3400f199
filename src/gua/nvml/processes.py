"""Processes on a card: merged process lists, and each process's utilization over an interval.

Three lists of the driver are merged, with the memory of each process. Utilization is the maximum of SM, encoder and
decoder: a process that only encodes or decodes video is not idle, but does not use the multiprocessors.

Each result of nvmlDeviceGetProcessUtilization is the mean since the requested time. The interval's mean is the sum of
value x window over the sum of windows, over successful calls only. A failed call needs no window of its own, because
the next result covers it too.
https://docs.nvidia.com/deploy/nvml-api/ (nvmlDeviceGetProcessUtilization)
"""

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.ports import RawProcess
from gua.core.words import ProcessList
from gua.nvml.calls import Calls
from gua.nvml.driver import Code, Handle, Row, Struct
from gua.nvml.quirks import MOST_GPU_INSTANCE, DriverClock, has_wide_lists, ratio

_ALL_ONES_32: Final = 2**32 - 1
_ALL_ONES_64: Final = 2**64 - 1
_LARGEST_PID: Final = 2**22  # PID_MAX_LIMIT: https://man7.org/linux/man-pages/man5/proc_sys_kernel.5.html

List = Callable[[Handle], Sequence[Struct]]

_ABSENT: Final[Sequence[Struct]] = []
_ON_ONE_LIST: Final = {name: frozenset({name}) for name in ("compute", "graphics", "mps")}
# A driver without MPS has no such list, so no process is on it.
_WITHOUT_MPS: Final[Mapping[int, Sequence[Struct]]] = {Code.NOT_SUPPORTED: (), Code.FUNCTION_NOT_FOUND: ()}
# The first call covers this much, like the instant card utilization. Samples are at most this far apart.
_FIRST_LOOK_US: Final = 1_000_000
# The driver's buffer has 100 samples of 1/6 s; a result covers no more than that of a longer window.
_LONGEST_WINDOW_MS: Final = 17_000
# With drains every 5 s this selects every other one, and leaves room for a late one.
_LEISURE_MS: Final = 7_000
# Most processes per interval; further ones are unknown, not idle.
MOST_PROCESSES: Final = 10_000
# The driver may read its clock slightly after us, and ours has whole milliseconds only. This is less than the 1/6 s
# between samples, so that a clock that was set back by less hides one sample at most.
_AHEAD_US: Final = 100_000
# https://docs.nvidia.com/deploy/nvml-api/structnvmlProcessUtilizationSample__t.html: pid, time stamp, percent of
# multiprocessors, memory interface (skipped: it is busy only with one of the others), encoder and decoder.
_LAYOUT: Final = struct.Struct("@IQI4xII")
_NO_ROWS: Final[Mapping[int, Sequence[Row]]] = {
    Code.NOT_FOUND: (),
    0: (),  # nvidia-ml-py raises code 0 (success) if the driver has no sample
}

Use = tuple[int, int, int]
"""Process id, time stamp [us], and the largest percent of multiprocessors, encoder and decoder.

If one of the three is not a percentage, this is not one either, and the row is rejected, as in nvtop
(https://github.com/Syllo/nvtop/issues/110).
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The merged process lists of one card; ``process_list`` is known only if all were read and are valid.

    ``instances`` are the MIG GPU instances by process id, for processes on an instance.
    """

    processes: tuple[RawProcess, ...]
    instances: Mapping[int, int]
    process_list: ProcessList


def list_processes(calls: Calls, handle: Handle, version: str | None, *, limit_bytes: int | None) -> Listing:
    """Return the processes on the card; a process on two lists occurs once.

    ``limit_bytes`` is the card's memory. A process that seems to hold more has unknown memory, because the layout of
    the driver's structs differs between versions. An invalid pid or GPU instance makes the list unknown.
    """
    driver, is_wide = calls.driver, has_wide_lists(version)
    lists = [
        ("compute", driver.nvmlDeviceGetComputeRunningProcesses_v2, driver.nvmlDeviceGetComputeRunningProcesses_v3),
        ("graphics", driver.nvmlDeviceGetGraphicsRunningProcesses_v2, driver.nvmlDeviceGetGraphicsRunningProcesses_v3),
        ("mps", driver.nvmlDeviceGetMPSComputeRunningProcesses_v2, driver.nvmlDeviceGetMPSComputeRunningProcesses_v3),
    ]
    answers: dict[str, Iterable[Struct] | None] = {}
    for name, second, third in lists:
        versions = (second,) if is_wide else (third, second)
        answers[name] = _call_newest(calls, handle, versions, _WITHOUT_MPS if name == "mps" else {})
    known = all(answer is not None for answer in answers.values())
    by_pid: dict[int, RawProcess] = {}
    instances: dict[int, int] = {}
    for name, answer in answers.items():
        for info in answer or ():
            if not 0 < info.pid <= _LARGEST_PID:
                calls.note(f"{name} process list", "no pid")
                known = False
                continue
            if MOST_GPU_INSTANCE < info.gpuInstanceId < _ALL_ONES_32:
                calls.note(f"{name} process list", "unknown layout")
                known = False
                continue
            by_pid[info.pid] = _merged(by_pid.get(info.pid), name, info, limit_bytes)
            if info.gpuInstanceId != _ALL_ONES_32:
                instances[info.pid] = info.gpuInstanceId
    process_list = ProcessList.KNOWN if known else ProcessList.FAILED
    return Listing(processes=tuple(by_pid.values()), instances=instances, process_list=process_list)


def _merged(before: RawProcess | None, name: str, info: Struct, limit_bytes: int | None) -> RawProcess:
    memory = info.usedGpuMemory
    if memory == _ALL_ONES_64 or (memory is not None and limit_bytes is not None and memory > limit_bytes):
        memory = None
    lists = _ON_ONE_LIST[name]
    if before is not None:
        # Each list has the whole process's memory on this card, so the values are not added.
        memory = max([value for value in (before.memory_bytes, memory) if value is not None], default=None)
        lists |= before.lists
    return RawProcess(pid=info.pid, lists=lists, memory_bytes=memory, utilization=None)


def _call_newest(
    calls: Calls, handle: Handle, versions: Sequence[List], meanings: Mapping[int, Sequence[Struct]]
) -> Sequence[Struct] | None:
    """Return the list from the newest version of the call that the driver has (510 introduced version 3)."""
    for version in versions[:-1]:
        answer = calls.call_with({**meanings, Code.FUNCTION_NOT_FOUND: _ABSENT}, version, handle)
        if answer is not _ABSENT:
            return answer
    return calls.call_with(meanings, versions[-1], handle)


class ProcessUtilization:
    """Process utilization of one whole card between two readings."""

    def __init__(self, clock: DriverClock) -> None:
        self._clock = clock
        self._since_us: int | None = None
        self._answered_ms: int | None = None
        self._windows_ms = 0
        self._weighted: dict[int, float | None] = {}
        self._unseen_ms: dict[int, int] = {}
        self._listed: frozenset[int] = frozenset()
        self._full = False

    @property
    def due(self) -> bool:
        """Whether the driver's buffer may overflow before the drain after this one, 5 s from now."""
        return self._answered_ms is None or self._clock.monotonic_ms() - self._answered_ms >= _LEISURE_MS

    def drain(self, calls: Calls, handle: Handle) -> None:
        """Read the processes' utilization since the last result; a process without a row used nothing."""
        before_ms = self._clock.monotonic_ms()
        rows = self._read(calls, handle)
        if rows is None:
            return
        window_ms = _FIRST_LOOK_US // 1000 if self._answered_ms is None else before_ms - self._answered_ms
        self._answered_ms = before_ms
        # A result right after another has no weight, unless it is the interval's only one.
        window_ms = max(0 if self._windows_ms else 1, min(window_ms, _LONGEST_WINDOW_MS))
        valid: dict[int, tuple[float, int]] = {}
        invalid: set[int] = set()
        for pid, _, percent in rows:
            value = percent / 100 if percent <= 100 else ratio(percent)
            if value is None:
                invalid.add(pid)
            elif pid in valid:
                total, times = valid[pid]
                valid[pid] = total + value, times + 1
            else:
                valid[pid] = value, 1
        for pid, (total, times) in valid.items():
            self._add(pid, total / times * window_ms)
        self._doubt(calls, invalid, "not a percentage")
        self._windows_ms += window_ms

    def unlisted(self, listed: Collection[int]) -> frozenset[int]:
        """Return the processes with samples in this interval that are not listed; call it before :meth:`take`."""
        return frozenset(self._weighted).difference(listed)

    def take(self, listed: Collection[int]) -> Mapping[int, float | None]:
        """Return the mean of each listed process as a ratio, and start the next interval.

        A process that is new on the list counts from its first use on. ``None`` is unknown: no call succeeded, or a
        value of this process was invalid.
        """
        means = {pid: self._mean(pid) for pid in listed}
        self._windows_ms = 0
        self._weighted.clear()
        self._unseen_ms.clear()
        self._listed = frozenset(listed)
        self._full = False
        return means

    def _mean(self, pid: int) -> float | None:
        if self._windows_ms == 0 or (self._full and pid not in self._weighted):
            return None
        windows_ms = self._windows_ms
        if pid not in self._listed:
            windows_ms -= self._unseen_ms.get(pid, 0)
        weighted = self._weighted.get(pid, 0.0)
        return None if weighted is None else min(1.0, weighted / windows_ms)

    def _doubt(self, calls: Calls, pids: Collection[int], why: str) -> None:
        """Mark the processes as unknown for the whole interval, and record the reason."""
        if pids:
            calls.note("nvmlDeviceGetProcessUtilization", why)
        for pid in pids:
            self._add(pid, None)

    def _add(self, pid: int, weighted: float | None) -> None:
        """Add a weighted utilization [ratio x ms] of a process, ``None`` if it is unknown."""
        if pid not in self._weighted:
            if len(self._weighted) >= MOST_PROCESSES:
                self._full = True
                return
            self._unseen_ms[pid] = self._windows_ms
        before = self._weighted.get(pid, 0.0)
        self._weighted[pid] = None if before is None or weighted is None else before + weighted

    def _read(self, calls: Calls, handle: Handle) -> Sequence[Use] | None:
        """Return the rows since the last result, ``None`` if the call failed."""
        rows = self._read_since(calls, handle, self._from_us())
        if rows == [] and not self._clock.known:
            # If the driver's clock is not Unix time, all rows precede the requested time: read all of them.
            everything = calls.call_with(_NO_ROWS, calls.driver.nvmlDeviceGetProcessUtilization, handle, 0)
            self._clock.learn(_newest(_unpacked(everything or ())))
            if self._clock.known:
                self._since_us = None
                rows = self._read_since(calls, handle, self._from_us())
        if rows is None:
            return None
        newest_us = _newest(rows) or self._clock.now_us() - _FIRST_LOOK_US
        self._since_us = max(newest_us, self._since_us or 0)
        return rows

    def _from_us(self) -> int:
        """Return the time to read from [us]: the last result, or a second ago at first and after a clock set-back."""
        now_us = self._clock.now_us()
        if self._since_us is None or self._since_us > now_us + _AHEAD_US:
            self._since_us = max(0, now_us - _FIRST_LOOK_US)
        return self._since_us

    def _read_since(self, calls: Calls, handle: Handle, since_us: int) -> Sequence[Use] | None:
        answer = calls.call_with(_NO_ROWS, calls.driver.nvmlDeviceGetProcessUtilization, handle, since_us)
        if answer is None:
            return None
        rows = _unpacked(answer)
        newest_us = _newest(rows)
        self._clock.learn(newest_us)
        until_us = self._clock.now_us() + _AHEAD_US
        # The driver pads the result with zero rows, and repeats rows of earlier results.
        valid = [
            (pid, stamp_us, sm if sm >= encoder and sm >= decoder else max(encoder, decoder))
            for pid, stamp_us, sm, encoder, decoder in rows
            if pid > 0 and since_us < stamp_us <= until_us
        ]
        if newest_us > until_us:
            # The rows come again with later calls, once their time has come. Until then the size of this use is
            # unknown: the clock was set back, or the driver's clock is ahead.
            ahead = {row[0] for row in rows if row[0] > 0 and row[1] > until_us}
            self._doubt(calls, ahead.difference([pid for pid, _, _ in valid]), "stamped later than now")
        return valid


def _unpacked(rows: Sequence[Row]) -> list[tuple[int, int, int, int, int]]:
    """Return each row's integers, unpacked at once because access through ctypes fields is much slower."""
    return list(_LAYOUT.iter_unpack(b"".join(rows)))


def _newest(rows: Sequence[tuple[int, ...]]) -> int:
    """Return the latest time stamp, 0 without rows."""
    return max([row[1] for row in rows], default=0)
