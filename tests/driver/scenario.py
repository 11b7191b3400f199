"""What a scenario file says, as Python: build a :class:`Scenario`, and ``write`` it or take its ``text()``.

The format and the meaning of every key are in README.md. Times are Unix seconds, memory is bytes.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from driver.build import calls

GIB = 2**30
MIB = 2**20
FOR_EVER = None

DRIVER_NOT_LOADED = 9
GPU_IS_LOST = 15


@dataclass(frozen=True, kw_only=True)
class Window:
    """From when to when something holds; open where there is ``None``."""

    start: float | None = None
    end: float | None = None

    def text(self) -> str:
        start = "" if self.start is None else f" from {self.start:.6f}"
        return start + ("" if self.end is None else f" to {self.end:.6f}")


ALWAYS = Window()


@dataclass(frozen=True)
class Constant:
    """A load that stays the same."""

    percent: float

    def text(self) -> str:
        return f"constant {self.percent:g}"


@dataclass(frozen=True, kw_only=True)
class Burst:
    """A load that is on for ``on_ms`` of every ``period_ms``, from ``phase_ms`` after the Unix epoch on."""

    period_ms: float
    on_ms: float
    percent: float = 100
    phase_ms: float = 0

    def text(self) -> str:
        return f"burst {self.period_ms:.3f} {self.on_ms:.3f} {self.percent:g} {self.phase_ms:.3f}"


Load = Constant | Burst
IDLE = Constant(0)


def _known(call: str) -> str:
    if not any(fnmatch(name, call) for name in calls()):
        msg = f"the simulated driver answers no call {call}; names are symbols, such as nvmlDeviceGetCount_v2"
        raise ValueError(msg)
    return call


@dataclass(frozen=True)
class Fault:
    """A call that answers a code. ``call`` is a symbol or a pattern (``*``, ``nvmlDeviceGetMemoryInfo*``)."""

    call: str
    code: int
    window: Window = ALWAYS

    def text(self) -> str:
        return f"fault {_known(self.call)} {self.code}{self.window.text()}"


@dataclass(frozen=True)
class Hang:
    """A call that answers only after ``ms``, by default never: until a scenario without the hang is written."""

    call: str
    ms: int | None = FOR_EVER
    window: Window = ALWAYS

    def text(self) -> str:
        return f"hang {_known(self.call)}{'' if self.ms is None else f' {self.ms}'}{self.window.text()}"


@dataclass(frozen=True)
class Latency:
    """A call that takes some time."""

    call: str
    us: int

    def text(self) -> str:
        return f"latency {_known(self.call)} {self.us}"


@dataclass(frozen=True)
class Lost:
    """A card (or instance) whose every call answers GPU_IS_LOST, or another code."""

    code: int = GPU_IS_LOST
    window: Window = ALWAYS

    def text(self) -> str:
        return f"lost {self.code}{self.window.text()}"


Wrong = Fault | Hang | Latency | Lost


@dataclass(frozen=True)
class Unload:
    """A driver that is not there: every call, nvmlInit too, answers the code."""

    code: int = DRIVER_NOT_LOADED
    window: Window = ALWAYS

    def text(self) -> str:
        return f"unload {self.code}{self.window.text()}"


List = Literal["compute", "graphics", "mps"]


@dataclass(frozen=True)
class Process:
    """A process on a card; ``memory=None`` is memory that the driver does not report.

    ``pid`` may also be a placeholder of a ready scenario, such as ``${pid:python}``.
    """

    pid: int | str
    memory: int | None = 512 * MIB
    load: Load = IDLE
    lists: Sequence[List] = ("compute",)
    start: float | None = None
    end: float | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    encoder: Load = IDLE
    decoder: Load = IDLE

    def lines(self) -> Iterator[str]:
        yield f"process {self.pid}"
        yield f"memory {'na' if self.memory is None else self.memory}"
        yield f"lists {' '.join(self.lists)}"
        yield f"load {self.load.text()}"
        if self.encoder is not IDLE:
            yield f"encoder {self.encoder.text()}"
        if self.decoder is not IDLE:
            yield f"decoder {self.decoder.text()}"
        if self.start is not None:
            yield f"from {self.start:.6f}"
        if self.end is not None:
            yield f"to {self.end:.6f}"
        if self.gpu_instance is not None:
            yield f"gpu_instance {self.gpu_instance}"
        if self.compute_instance is not None:
            yield f"compute_instance {self.compute_instance}"


@dataclass(frozen=True)
class Instance:
    """A MIG device. Without ``load`` its load is the sum of its processes'."""

    uuid: str
    gpu_instance: int
    slices: int
    memory_total: int = 10 * GIB
    memory_reserved: int = 0
    memory_base: int = 0
    compute_instance: int = 0
    compute_slices: int | None = None
    index: int | None = None
    name: str | None = None
    load: Load | None = None
    processes: Sequence[Process] = ()
    wrong: Sequence[Wrong] = ()

    def lines(self) -> Iterator[str]:
        yield f"instance {self.uuid}"
        yield f"gpu_instance {self.gpu_instance}"
        yield f"compute_instance {self.compute_instance}"
        yield f"slices {self.slices} {self.slices if self.compute_slices is None else self.compute_slices}"
        yield f"memory {self.memory_total} {self.memory_reserved} {self.memory_base}"
        if self.index is not None:
            yield f"index {self.index}"
        if self.name is not None:
            yield f"name {self.name}"
        if self.load is not None:
            yield f"load {self.load.text()}"
        yield from (wrong.text() for wrong in self.wrong)
        for process in self.processes:
            yield from process.lines()


@dataclass(frozen=True, kw_only=True)
class Energy:
    """An energy counter: so many millijoules at a time, and growing with so many watts."""

    millijoules: int
    at: float
    watts: float


@dataclass(frozen=True)
class Card:
    """A card. Without ``load`` its load is the sum of its processes'; ``memory_total=None`` reports no memory."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    pci: str | None = None
    minor: int | None = None
    memory_total: int | None = 80 * GIB
    memory_reserved: int = 0
    memory_base: int = 0
    load: Load | None = None
    memory_load: Load = IDLE
    encoder: int = 0
    decoder: int = 0
    idle_watts: float = 70
    full_watts: float | None = None
    energy: Energy | None = None
    temperature: float = 35
    sample_period_ms: float = 200
    ring: int = 71
    padding: int = 0
    gpm: bool = False
    activity: tuple[float, float, float, float] = (100, 50, 0, 30)
    clocks: int = 0
    ecc: tuple[int, int, int] | None = None
    recovery: int | str = 0
    xid: tuple[int, int, float] | None = None
    architecture: int = 9
    addressing: Literal["none", "hmm", "ats"] = "none"
    mig: Literal["unsupported", "off", "on"] = "unsupported"
    slices: int = 7
    instances: Sequence[Instance] = ()
    processes: Sequence[Process] = ()
    wrong: Sequence[Wrong] = ()

    def _counters(self) -> Iterator[str]:
        yield f"gpm {'on' if self.gpm else 'off'}"
        if self.gpm:
            yield f"activity {' '.join(f'{part:g}' for part in self.activity)}"

    def _health(self) -> Iterator[str]:
        if self.clocks:
            yield f"clocks {self.clocks}"
        if self.ecc is not None:
            yield f"ecc {self.ecc[0]} {self.ecc[1]} {self.ecc[2]}"
        if self.recovery:
            yield f"recovery {self.recovery}"
        if self.xid is not None:
            yield f"xid {self.xid[0]} {self.xid[1]} {self.xid[2]:.6f}"

    def lines(self) -> Iterator[str]:
        yield f"card {self.uuid}"
        yield f"name {self.name}"
        if self.pci is not None:
            yield f"pci {self.pci}"
        if self.minor is not None:
            yield f"minor {self.minor}"
        if self.memory_total is None:
            yield "memory not_supported"
        else:
            yield f"memory {self.memory_total} {self.memory_reserved} {self.memory_base}"
        if self.load is not None:
            yield f"load {self.load.text()}"
        yield f"memory_load {self.memory_load.text()}"
        yield f"encoder {self.encoder}"
        yield f"decoder {self.decoder}"
        yield f"power {self.idle_watts:g} {self.idle_watts if self.full_watts is None else self.full_watts:g}"
        if self.energy is not None:
            yield f"energy {self.energy.millijoules} {self.energy.at:.6f} {self.energy.watts:g}"
        yield f"temperature {self.temperature:g}"
        yield f"samples {self.sample_period_ms:.3f} {self.ring}"
        yield f"padding {self.padding}"
        yield from self._counters()
        yield from self._health()
        yield f"architecture {self.architecture}"
        yield f"addressing {self.addressing}"
        yield f"mig {self.mig}"
        yield f"slices {self.slices}"
        yield from (wrong.text() for wrong in self.wrong)
        # Before the instances: a process takes the instance above it.
        parts: list[Process | Instance] = [*self.processes, *self.instances]
        for part in parts:
            yield from part.lines()


@dataclass(frozen=True)
class Scenario:
    """The whole world of a simulated driver.

    ``loads`` counts the driver's loads: another number makes the library see a reload.
    ``clock`` and ``trace`` are files: the time to use (Unix microseconds), and where every call is noted.
    """

    cards: Sequence[Card] = ()
    driver: str = "575.57.08"
    nvml: str = "12.575.57.08"
    cuda: int = 12090
    loads: int = 1
    unload: Unload | None = None
    absent: Sequence[str] = ()
    process_layout: Literal["usual", "wide"] = "usual"
    clock: Path | None = None
    trace: Path | None = None
    wrong: Sequence[Fault | Hang | Latency] = field(default=())

    def lines(self) -> Iterator[str]:
        yield f"driver {self.driver}"
        yield f"nvml {self.nvml}"
        yield f"cuda {self.cuda}"
        yield f"loads {self.loads}"
        yield f"process_layout {self.process_layout}"
        if self.clock is not None:
            yield f"clock {self.clock}"
        if self.trace is not None:
            yield f"trace {self.trace}"
        if self.unload is not None:
            yield self.unload.text()
        yield from (f"absent {_known(call)}" for call in self.absent)
        yield from (wrong.text() for wrong in self.wrong)
        for card in self.cards:
            yield from card.lines()

    def text(self) -> str:
        """Return the scenario file's text. Raises ValueError for a call that the driver does not answer."""
        return "".join(f"{line}\n" for line in self.lines())


def replace_text(path: Path, text: str) -> None:
    """Write a whole file, so that a reader sees the old or the new one and nothing between.

    Every user may read it; characters that surrogates stand for become the bytes that no UTF-8 has.
    """
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        os.fchmod(handle, 0o644)
    Path(scratch).replace(path)


@dataclass(frozen=True)
class Placeholder:
    """A process that a ready scenario wants: ``${pid:NAME}`` or ``${pid:NAME@USER}``; one for each text."""

    text: str
    name: str
    user: str | None


def placeholders(text: str) -> list[Placeholder]:
    """Return the processes that a scenario's text wants, each once, in their order."""
    found = {match.group(): match for match in re.finditer(r"\$\{pid:([\w.-]+)(?:@([\w-]+))?\}", text)}
    return [Placeholder(whole, match.group(1), match.group(2)) for whole, match in found.items()]


def fill(text: str, pids: Mapping[str, int], *, now: float) -> str:
    """Return a scenario's text with pids for its placeholders and the time for ``${now}``.

    Raises KeyError for a placeholder without a pid.
    """
    for wanted in placeholders(text):
        text = text.replace(wanted.text, str(pids[wanted.text]))
    return text.replace("${now}", f"{now:.6f}")


def uuid(number: int) -> str:
    """Return a card's UUID that reads well in a failing test: its number, again and again."""
    return f"GPU-{number:08d}-{number % 10000:04d}-{number % 10000:04d}-{number % 10000:04d}-{number:012d}"


def crowd(pids: Iterable[int | str], *, cards: int = 8, step: int = GIB // 2) -> Scenario:
    """Return a host for measurements: the pids dealt out over the cards, every second card at work.

    The first process of a card has ``step`` bytes of memory, each further one that much more.
    """
    dealt: list[list[Process]] = [[] for _ in range(cards)]
    for position, pid in enumerate(pids):
        load = Burst(period_ms=1000, on_ms=70, phase_ms=10 * position) if position % cards % 2 == 0 else IDLE
        dealt[position % cards].append(Process(pid, memory=(1 + position // cards) * step, load=load))
    return Scenario(
        [
            Card(
                uuid(number),
                memory_reserved=600 * MIB,
                full_watts=700,
                energy=Energy(millijoules=10**9 * (number + 1), at=1_700_000_000, watts=120),
                processes=processes,
            )
            for number, processes in enumerate(dealt)
        ]
    )
