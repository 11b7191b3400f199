"""This host as the agent reads it: cards, processes, users, clock, origin, and the cards for reservations."""

from __future__ import annotations

import os
import platform
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gua.agent import signals
from gua.agent.sampler import Sampler
from gua.app.settings import AgentSettings, open_allocations
from gua.core.errors import UnavailableError
from gua.core.facts import card_facts
from gua.core.ports import AllocationSources, CardReader, Clock, ProcessFacts, RawCard
from gua.core.rules import SHIPPED, Reason, State, classify
from gua.core.tick import Origin, ProcessReading
from gua.core.words import Mig, ProcessType, Source
from gua.identity.process import DEFAULT_IGNORED, Owners, ProcessIdentity, owners_of
from gua.nvml.reader import NvmlReader
from gua.otlp.resource import origin
from gua.procfs.reader import ProcFs, SystemClock, machine_id, stored_boot_time_ms
from gua.reservations.model import Candidate

if TYPE_CHECKING:
    from gua.allocation.sources import Sources
    from gua.identity.pod_names import PodNames
    from gua.identity.served_models import ServedModels

_CALL_LIMIT_SECONDS: Final = 5.0
# A hung driver call longer than an interval would cost the other cards a tick.
_CALL_LIMIT_OF_INTERVAL: Final = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """The readers of one host. ``seen_by_host`` is whether it sees the host's processes as the driver does.

    ``pods`` resolves pod names and ``allocations`` reads allocation sources, each ``None`` if off. ``candidates`` reads
    cards for reservations; ``owners`` resolves user names.
    """

    cards: CardReader
    processes: ProcessFacts
    clock: Clock
    origin: Origin
    seen_by_host: bool
    candidates: Candidates
    owners: Owners
    pods: PodNames | None = None
    allocations: Sources | None = None

    def sampler(self, allocations: AllocationSources | None) -> Sampler:
        """Return a sampler of this host and of these allocation sources."""
        return Sampler(
            cards=self.cards,
            processes=self.processes,
            clock=self.clock,
            origin=self.origin,
            initial_pid_namespace=self.seen_by_host,
            besides=tuple if self.pods is None else self.pods.errors,
            allocations=allocations,
        )

    def close(self) -> None:
        """Close the driver and the allocation sources."""
        self.cards.close()
        self.candidates.close()
        if self.allocations is not None:
            self.allocations.close()


def open_host(settings: AgentSettings) -> Host:
    """Return this host; its first reading opens the driver. Raises GuaError for a faulty allocation source."""
    host = ProcFs(settings.procfs)
    clock = SystemClock(host)
    seen_by_host = host.in_initial_pid_namespace()
    pods = None
    if settings.kubelet is not None:
        from gua.identity.pod_names import PodNames  # noqa: PLC0415 - loads TLS and HTTP

        pods = PodNames(settings.kubelet)
        pods.begin()
    limit_seconds = min(_CALL_LIMIT_SECONDS, _CALL_LIMIT_OF_INTERVAL * settings.interval_ms / 1000)
    owners = owners_of(host)
    boot_time_ms = stored_boot_time_ms(host, settings.home.boot_file)

    def identity(models: ServedModels | None = None) -> ProcessIdentity:
        return ProcessIdentity(
            host if seen_by_host else None,
            owners,
            boot_time_ms=boot_time_ms,
            ignored=(*DEFAULT_IGNORED, *settings.ignored),
            pods=pods,
            models=models,
        )

    models = None
    if settings.detect_models and seen_by_host:
        from gua.identity.served_models import ServedModels  # noqa: PLC0415 - only with --detect-models

        models = ServedModels(host)
    stopping = signals.stop_requested
    return Host(
        cards=NvmlReader(clock, call_limit_seconds=limit_seconds, stopping=stopping, with_activity=settings.activity),
        processes=identity(models),
        # Separate readers, as reservations run in other threads than ticks; the first request opens the driver.
        candidates=Candidates(
            NvmlReader(clock, call_limit_seconds=limit_seconds, stopping=stopping),
            identity(),
            seen_by_host=seen_by_host,
        ),
        owners=owners,
        clock=clock,
        origin=agent_origin(interval_ms=settings.interval_ms, home=settings.home.path),
        seen_by_host=seen_by_host,
        pods=pods,
        allocations=open_allocations(settings.allocation, pods),
    )


def agent_origin(*, interval_ms: int, home: Path) -> Origin:
    """Return the origin of this host's ticks; its instance id identifies one state directory on one machine."""
    machine = machine_id()
    host = platform.node() or None
    return origin(
        source=Source.AGENT,
        interval_ms=interval_ms,
        environ=os.environ,
        host=host,
        host_id=machine,
        instance_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"gua:{machine or host}:{home.absolute()}")),
        service_version=version("gua-otel"),
    )


_GIB: Final = 2**30
_MOST_NAMED: Final = 3
_WHY_UNKNOWN: Final = {
    Reason.UTILIZATION: "is unknown: its utilization cannot be read",
    Reason.PID_NAMESPACE: "is unknown: the agent does not see the host's processes",
    Reason.PROCESSES: "is unknown: its processes cannot be read",
    Reason.MEMORY: "is unknown: the memory of one of its processes cannot be read",
}


class Candidates:
    """Thread-safe reader of the cards for reservations, separate from the agent's own reader.

    Set both callbacks before the first :meth:`read`. ``allocated`` maps UUIDs of cards or parent GPUs to the text of a
    scheduler's allocation. ``last_used_ms`` maps UUIDs to when a card was last in use or allocated (Unix ms).
    """

    def __init__(self, cards: CardReader, processes: ProcessFacts, *, seen_by_host: bool) -> None:
        self._cards = cards
        self._processes = processes
        self._seen_by_host = seen_by_host
        self.allocated: Callable[[], Mapping[str, str]] = dict
        self.last_used_ms: Callable[[], Mapping[str, int]] = dict
        self._lock = threading.Lock()

    def read(self) -> Sequence[Candidate]:
        """Return every card, with why it cannot be reserved, if so. Raises UnavailableError if none is readable."""
        with self._lock:
            raws, _ = self._cards.read()
            allocated = self.allocated()
            candidates = [
                self._candidate(raw, allocated.get(raw.reading.uuid) or allocated.get(raw.reading.parent or ""))
                for raw in raws
            ]
        if not candidates:
            raise UnavailableError("no card can be read now: see gua status")
        return candidates

    def close(self) -> None:
        """Release the driver."""
        with self._lock:
            self._cards.close()

    def _candidate(self, raw: RawCard, allocated: str | None) -> Candidate:
        card = raw.reading
        processes = tuple(self._processes.identify(process) for process in raw.processes)
        counted = [process for process in processes if process.type is not ProcessType.IGNORED]
        verdict = classify(card_facts(replace(card, processes=processes)), SHIPPED)
        refusal, may_be_accepted = None, False
        if card.mig is Mig.PARENT:
            refusal = "is partitioned: name one of its instances"
        elif verdict.reason is Reason.LOST:
            refusal = "is lost or needs a reset"
        elif allocated is not None:
            refusal = allocated
        elif counted:
            refusal = f"is held by {_named(counted)}"
        elif verdict.state is State.UNKNOWN:
            refusal = _WHY_UNKNOWN.get(verdict.reason or Reason.PROCESSES, _WHY_UNKNOWN[Reason.PROCESSES])
            may_be_accepted = True
        elif verdict.state is not State.TRULY_IDLE:
            refusal = "is held by a process that is not listed"
        elif not self._seen_by_host:
            refusal, may_be_accepted = _WHY_UNKNOWN[Reason.PID_NAMESPACE], True
        return Candidate(
            uuid=card.uuid,
            index=-1 if card.index is None else card.index,
            model=card.model,
            whole=card.mig in {None, Mig.NONE},
            refusal=refusal,
            may_be_accepted=may_be_accepted,
            free_since_ms=self.last_used_ms().get(card.uuid),
            uids=frozenset(process.uid for process in counted if process.uid is not None),
            containers=frozenset(process.container_id for process in counted if process.container_id is not None),
            parent=card.parent,
            held_by=_named(counted) if counted else None,
        )


def _named(processes: Sequence[ProcessReading]) -> str:
    """Return the processes on a card in words, the largest memory first, at most 3 by name."""
    ranked = sorted(processes, key=lambda process: -(process.memory_bytes or 0))
    names = []
    for one in ranked[:_MOST_NAMED]:
        user = one.owner or ("an unknown user" if one.uid is None else f"uid {one.uid}")
        size = "" if one.memory_bytes is None else f" {one.memory_bytes / _GIB:.1f} GiB"
        names.append(f"{user} ({one.comm or 'unknown'}{size})")
    more = len(ranked) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
