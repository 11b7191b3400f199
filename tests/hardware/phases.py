"""What must come out while a card is idle, held, at work, or at work in bursts. Pure: its tests need no card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from gua.core.facts import card_facts
from gua.core.rules import Rules, State, classify
from gua.core.tick import CardReading, ProcessReading
from gua.core.words import ProcessList
from hardware import smi

MIB = 2**20
# Between two readings a context may grow, and other programs look at the card.
MEMORY_TOLERANCE_MIB = 64
LEAST_SETTLED = 6
LEAST_COVERAGE = 0.8
IDLE = frozenset({State.TRULY_IDLE})
HELD = frozenset({State.IDLE_HELD})
ACTIVE = frozenset({State.ACTIVE})


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A load, as options of load.py, and what the agent must make of it. ``utilization`` is a range of ratios."""

    name: str
    load: tuple[str, ...] = ()
    memory_mib: int = 0
    states: frozenset[State] = IDLE
    utilization: tuple[float, float] = (0.0, 0.02)
    sampled: bool = False
    """Whether samples must cover the time: an idle card may have none for minutes."""


PHASES = (
    Phase(name="idle"),
    Phase(name="held", load=("hold", "--mib", "2048"), memory_mib=2048, states=HELD),
    Phase(
        name="computing",
        load=("compute", "--mib", "1024"),
        memory_mib=1024,
        states=ACTIVE,
        utilization=(0.95, 1.0),
        sampled=True,
    ),
    # 10 % is just the threshold of active, so both states are right; what counts is the mean.
    Phase(
        name="bursts",
        load=("burst", "--mib", "1024", "--busy-ms", "100", "--period-ms", "1000"),
        memory_mib=1024,
        states=ACTIVE | HELD,
        utilization=(0.08, 0.12),
        sampled=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process that loads the card."""

    pid: int
    owner: str
    comm: str


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One card while a phase went on.

    ``readings`` are those of the agent once all had settled, ``status`` its card in ``gua status --json``, ``shares``
    the states' shares in ``gua report --json`` (``None`` without the embedded engine). ``cards`` and ``apps`` are rows
    of nvidia-smi. ``sees_processes`` is whether the agent is in the host's PID namespace.
    """

    readings: Sequence[CardReading]
    status: Mapping[str, Any]
    shares: Mapping[str, float] | None
    cards: Sequence[smi.Row]
    apps: Sequence[smi.Row]
    holder: Holder | None
    sees_processes: bool


def faults(phase: Phase, seen: Seen) -> list[str]:
    """Return everything that did not come out right, a line each."""
    if len(seen.readings) < LEAST_SETTLED:
        return [f"only {len(seen.readings)} settled ticks, {LEAST_SETTLED} are needed"]
    return [
        *_states(phase, seen),
        *_utilization(phase, seen),
        *_memory(seen),
        *(_holder(phase, seen.holder, seen) if seen.sees_processes else _hidden(seen)),
    ]


def mean_utilization(readings: Sequence[CardReading]) -> float | None:
    """Return the mean over the ticks' spans, ``None`` where a tick does not know it."""
    if any(one.utilization is None for one in readings) or not readings:
        return None
    weighted = sum((one.utilization or 0.0) * one.duration_ms for one in readings)
    return weighted / sum(one.duration_ms for one in readings)


def coverage(readings: Sequence[CardReading]) -> float:
    """Return the share of the time that samples cover; the rest is instant values."""
    return sum(one.utilization_coverage_ms or 0 for one in readings) / sum(one.duration_ms for one in readings)


def table(phase: Phase, seen: Seen) -> str:
    """Return what was seen beside what nvidia-smi says, for people."""
    instant = [value for row in seen.cards if (value := smi.number(row["utilization.gpu"])) is not None]
    used = [one.memory_used_bytes for one in seen.readings if one.memory_used_bytes is not None]
    mean_of_agent = mean_utilization(seen.readings)
    return (
        f"{phase.name:<10} {len(seen.readings)} ticks, {sum(one.duration_ms for one in seen.readings) / 1000:.1f} s, "
        f"utilization {'-' if mean_of_agent is None else f'{mean_of_agent:.3f}'} "
        f"(samples cover {coverage(seen.readings):.0%}), "
        f"nvidia-smi's instants {' '.join(f'{value:.0f}' for value in instant) or '-'} %; "
        f"memory {median(used) / MIB if used else float('nan'):.0f} MiB, "
        f"nvidia-smi {' '.join(row['memory.used'] for row in seen.cards)} MiB; "
        f"status {seen.status.get('state')}; report {seen.shares}"
    )


def _states(phase: Phase, seen: Seen) -> Iterator[str]:
    wanted = "/".join(sorted(phase.states))
    found = [classify(card_facts(one), Rules()).state for one in seen.readings]
    wrong = sorted({state for state in found if state not in phase.states})
    if wrong:
        yield f"{sum(state in wrong for state in found)} of {len(found)} ticks are {', '.join(wrong)}, not {wanted}"
    if seen.status.get("state") not in phase.states:
        yield f"gua status says {seen.status.get('state')}, not {wanted}"
    if seen.shares is not None:
        share = sum(seen.shares.get(state, 0.0) for state in phase.states)
        if share < 0.99:
            yield f"gua report has {share:.1%} of the time as {wanted}: {dict(seen.shares)}"


def _utilization(phase: Phase, seen: Seen) -> Iterator[str]:
    lowest, highest = phase.utilization
    found = mean_utilization(seen.readings)
    if found is None:
        yield "some ticks do not know the utilization"
    elif not lowest <= found <= highest:
        yield f"the mean utilization is {found:.3f}, not within {lowest} and {highest}"
    if phase.sampled and coverage(seen.readings) < LEAST_COVERAGE:
        yield f"samples cover {coverage(seen.readings):.0%} of the time: the rest is instant values"
    # In bursts the instant values are the chance that one is hit: that is why they are not what counts.
    instant = [value / 100 for row in seen.cards if (value := smi.number(row["utilization.gpu"])) is not None]
    steady = phase.states != ACTIVE | HELD
    if steady and instant and not lowest - 0.05 <= mean(instant) <= highest + 0.05:
        yield f"nvidia-smi saw {mean(instant):.2f} on average: the load was not what it should be"


def _memory(seen: Seen) -> Iterator[str]:
    own = [one.memory_used_bytes / MIB for one in seen.readings if one.memory_used_bytes is not None]
    theirs = [value for row in seen.cards if (value := smi.number(row["memory.used"])) is not None]
    if theirs and not own:
        yield "nvidia-smi knows the used memory, the agent does not"
    elif theirs and abs(median(own) - median(theirs)) > MEMORY_TOLERANCE_MIB:
        yield f"{median(own):.0f} MiB are used, nvidia-smi says {median(theirs):.0f}"
    limits = {one.memory_limit_bytes for one in seen.readings}
    totals = {number for row in seen.cards if (number := smi.number(row["memory.total"])) is not None}
    if totals and {None if limit is None else limit // MIB for limit in limits} != totals:
        yield f"the card has {limits} bytes, nvidia-smi says {totals} MiB"


def _holder(phase: Phase, holder: Holder | None, seen: Seen) -> Iterator[str]:
    for one in seen.readings:
        if one.process_list is not ProcessList.KNOWN:
            yield f"the process list is {one.process_list.value}"
            return
    if holder is None:
        listed = sorted({process.pid for one in seen.readings for process in one.processes})
        if listed:
            yield f"processes {listed} are on a card that nobody should be on"
        return
    found = [next((process for process in one.processes if process.pid == holder.pid), None) for one in seen.readings]
    if None in found:
        yield f"process {holder.pid} is missing in {found.count(None)} of {len(found)} ticks"
        return
    yield from _identity(phase, holder, [process for process in found if process is not None], seen)
    if holder.pid not in {one.get("pid") for one in seen.status.get("holders", ())}:
        yield f"gua status does not list process {holder.pid}"


def _identity(phase: Phase, holder: Holder, found: Sequence[ProcessReading], seen: Seen) -> Iterator[str]:
    names = {(process.owner, process.comm) for process in found}
    if names != {(holder.owner, holder.comm)}:
        yield f"process {holder.pid} is said to be {sorted(map(str, names))}, not {holder.owner}'s {holder.comm}"
    own = [process.memory_bytes / MIB for process in found if process.memory_bytes is not None]
    theirs = [
        value
        for row in seen.apps
        if row["pid"] == str(holder.pid) and (value := smi.number(row["used_gpu_memory"])) is not None
    ]
    if theirs and not own:
        yield "nvidia-smi knows the process's memory, the agent does not"
    elif own and median(own) < phase.memory_mib:
        yield f"the process holds {median(own):.0f} MiB, it took {phase.memory_mib}"
    elif own and theirs and abs(median(own) - median(theirs)) > MEMORY_TOLERANCE_MIB:
        yield f"the process holds {median(own):.0f} MiB, nvidia-smi says {median(theirs):.0f}"
    used = [process.utilization for process in found if process.utilization is not None]
    if phase.states == ACTIVE and used and mean(used) < 0.9:
        yield f"the process's utilization is {mean(used):.2f}, and it computes all the time"
    if phase.states == HELD and used and max(used) > 0.02:
        yield f"the process's utilization is {max(used):.2f}, and it only holds memory"


def _hidden(seen: Seen) -> Iterator[str]:
    lists = {one.process_list.value for one in seen.readings}
    if lists != {ProcessList.PID_NAMESPACE.value}:
        yield f"outside of the host's PID namespace the process list is {sorted(lists)}"
    named = sorted({process.owner for one in seen.readings for process in one.processes if process.owner})
    if named:
        yield f"outside of the host's PID namespace processes have owners: {named}"
