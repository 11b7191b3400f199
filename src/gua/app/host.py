"""This host as the agent reads it: cards, processes, clock, and who the host is."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gua.agent import signals
from gua.app.allocations import AllocationSettings, open_allocations
from gua.app.candidates import Candidates
from gua.app.owners import owners_of
from gua.core.ports import CardReader, Clock, ProcessFacts
from gua.core.tick import Origin
from gua.core.words import Source
from gua.identity.kubelet import Kubelet
from gua.identity.owner import Owners
from gua.identity.process import DEFAULT_IGNORED, NoProcesses, ProcessIdentity
from gua.nvml.reader import NvmlReader
from gua.otlp.resource import origin
from gua.procfs.clock import SystemClock, machine_id, stored_boot_time_ms
from gua.procfs.reader import ProcFs
from gua.state.directory import Home

if TYPE_CHECKING:
    from gua.allocation.sources import Sources
    from gua.identity.pod_names import PodNames
    from gua.identity.served_models import ServedModels

_CALL_LIMIT_SECONDS: Final = 5.0
# A reading that waits for a hung call longer than an interval would cost the other cards a tick.
_CALL_LIMIT_OF_INTERVAL: Final = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """What the agent reads. ``seen_by_host`` is whether it sees the host's processes as the driver does.

    ``pods`` is where names of pods come from, if from anywhere; ``allocations`` says to whom cards are promised, if
    that is looked at. ``candidates`` are the cards as grants need them, and ``owners`` the names of users.
    ``detects_models``: arguments of processes are looked at for the model that they serve. ``reads_activity``:
    performance counters of cards are read.
    """

    cards: CardReader
    processes: ProcessFacts
    clock: Clock
    origin: Origin
    seen_by_host: bool
    pods: PodNames | None = None
    allocations: Sources | None = None
    candidates: Candidates | None = None
    owners: Owners | None = None
    detects_models: bool = False
    reads_activity: bool = False

    def close(self) -> None:
        """Let go of the driver, and ask nobody any more."""
        self.cards.close()
        if self.candidates is not None:
            self.candidates.close()
        if self.allocations is not None:
            self.allocations.close()


_NOT_LOOKED_AT: Final = AllocationSettings(sources=())


def open_host(
    procfs: Path,
    *,
    interval_ms: int,
    home: Home,
    ignored: Sequence[str],
    kubelet: Kubelet | None = None,
    allocation: AllocationSettings = _NOT_LOOKED_AT,
    detect_models: bool = False,
    activity: bool = False,
) -> Host:
    """Return this host; the driver is opened with the first reading. ``ignored`` come besides the usual names.

    With ``detect_models`` arguments of counted processes are looked at for the model that they serve, with ``activity``
    performance counters of cards (GPM) are read.

    Raises GuaError where a source of allocations cannot be opened.
    """
    host = ProcFs(procfs)
    clock = SystemClock(host)
    seen_by_host = host.in_initial_pid_namespace()
    pods = None if kubelet is None else _pod_names(kubelet)
    limit_seconds = min(_CALL_LIMIT_SECONDS, _CALL_LIMIT_OF_INTERVAL * interval_ms / 1000)
    owners = owners_of(host)
    boot_time_ms = stored_boot_time_ms(host, home.boot_file)

    def identity(models: ServedModels | None = None) -> ProcessIdentity:
        return ProcessIdentity(
            host if seen_by_host else NoProcesses(),
            owners,
            boot_time_ms=boot_time_ms,
            ignored=(*DEFAULT_IGNORED, *ignored),
            pods=pods,
            models=models,
        )

    return Host(
        cards=NvmlReader(clock, call_limit_seconds=limit_seconds, stopping=signals.asked, with_activity=activity),
        processes=identity(_served_models(host) if detect_models and seen_by_host else None),
        # Of their own, as grants are asked for by other threads than ticks; the driver is opened with the first one.
        candidates=Candidates(
            NvmlReader(clock, call_limit_seconds=limit_seconds, stopping=signals.asked),
            identity(),
            seen_by_host=seen_by_host,
        ),
        owners=owners,
        clock=clock,
        origin=agent_origin(interval_ms=interval_ms, home=home.path),
        seen_by_host=seen_by_host,
        detects_models=detect_models,
        reads_activity=activity,
        pods=pods,
        allocations=open_allocations(allocation, pods),
    )


def _served_models(host: ProcFs) -> ServedModels:
    from gua.identity.served_models import ServedModels  # noqa: PLC0415 - only where the admin of the host wants it
    from gua.procfs.command_line import CommandLines  # noqa: PLC0415 - as above

    def uid(pid: int) -> int | None:
        found = host.process(pid)
        return None if found is None else found.uid

    return ServedModels(CommandLines(host.root), uid)


def _pod_names(kubelet: Kubelet) -> PodNames:
    from gua.identity.pod_names import PodNames  # noqa: PLC0415 - TLS and HTTP, only for those who ask

    pods = PodNames(kubelet)
    pods.begin()
    return pods


def agent_origin(*, interval_ms: int, home: Path) -> Origin:
    """Return where this host's ticks come from; an installation is one state directory on one machine."""
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
