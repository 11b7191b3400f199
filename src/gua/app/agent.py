"""The agent's process: open its parts, start them in order, and release them in reverse order."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gua.agent import signals
from gua.agent.background import Ready
from gua.agent.delivery import DeliveryThread, PeriodicLanding, Sender
from gua.agent.logs import Changes, open_log
from gua.agent.loop import AgentEvents, Loop, Watcher, phase_ms
from gua.agent.notify import Notifier
from gua.agent.outbox import Outbox
from gua.agent.sampler import QueueHealth
from gua.agent.status import ALLOCATION_NOTES, Board
from gua.app import children
from gua.app.destinations import Destination, open_agent_endpoint
from gua.app.host import Host, open_host
from gua.app.requester import Requesters
from gua.app.reservations import IdleNotes, Reservations, WithReservations, refused
from gua.app.settings import AgentSettings
from gua.core.errors import UnavailableError
from gua.core.idleness import IdleCounters
from gua.core.ports import AllocationSources, Landing
from gua.exporter.address import Serving
from gua.local_socket.server import PUBLIC_MODE, Converse, Listen, LocalServer
from gua.otlp.encode import encode
from gua.procfs.reader import ProcFs
from gua.reservations.desk import Desk
from gua.reservations.model import Surroundings
from gua.spool.queue import Spool
from gua.spool.stats import SpoolStats
from gua.state.directory import Home
from gua.state.directory import held as home_held
from gua.state.host_lock import HostLock
from gua.state.pid_file import AgentRecord, PidFile

if TYPE_CHECKING:
    from gua.exporter.endpoint import PrometheusEndpoint

_JOIN_SECONDS: Final = 3.0
_VERSION: Final = version("gua-otel")
_SCHEDULERS: Final = frozenset(("slurm", "kubernetes"))


def run(settings: AgentSettings, *, ready: Ready, on_ready: Callable[[], None]) -> None:
    """Run the agent until a stop signal, then release the driver before everything else.

    Without destinations no tick is stored: ticks are only exported, and the spool holds only the mark of the newest
    one. Raises UnavailableError, also sent to ``ready``, if another agent runs, a path is unusable or no card is
    readable.
    """
    home, destinations, serving = settings.home, settings.destinations, settings.serving
    started = time.time_ns() // 1_000_000
    notifier = Notifier(os.environ)
    with ready, ExitStack() as held:
        signals.hold()
        lock = HostLock.of(os.environ)
        held.enter_context(lock.held())
        held.enter_context(home_held(home))
        log = open_log(settings.log_file)
        pid_file = settings.pid_file or home.pid_file
        _hold_pid_file(held, pid_file, started_ms=started, supervised=notifier.supervised)
        names = [destination.name for destination in destinations]
        spool = held.enter_context(Spool(home.spool, destinations=names or None))
        outbox = Outbox(spool, keeps_ticks=bool(names))
        # A second connection: status requests must not wait while a slow disk takes seconds to store a tick.
        viewed = held.enter_context(Spool(home.spool, destinations=None))
        before = spool.stats()
        host = open_host(settings)
        held.callback(host.close)
        board = Board(
            pid=os.getpid(),
            version=_VERSION,
            host=host.origin.host,
            started_ms=started,
            interval_ms=host.origin.interval_ms,
            destinations=[(destination.name, destination.where) for destination in destinations],
            clock=host.clock,
            spool=lambda: _since_start(viewed, outbox, before),
            in_memory=lambda: outbox.waiting,
            detects_models=settings.detect_models,
            reads_activity=settings.activity,
        )
        watcher = AgentEvents(board=board, changes=Changes(log), notifier=notifier, also_alive=lock.forget_callers)
        senders = [
            Sender(
                one.name,
                queue=lambda: Spool(home.spool, destinations=None),
                landing=partial(_landing, one, home),
                watcher=watcher,
            )
            for one in destinations
            if one.endpoint
        ]
        landings = [
            PeriodicLanding(one.name, land=partial(children.land, home, one), watcher=watcher)
            for one in destinations
            if one.store
        ]

        def wake() -> None:
            for sender in senders:
                sender.wake()

        reserving = _reservations(held, home, host, log.warning, settings.idle_release_ms)
        if serving is not None:
            watcher.also.append(held.enter_context(_endpoint(serving, host, outbox)))
        watcher.also += reserving.idle
        loop = _loop(host, reserving.allocations, outbox, spool, watcher, before=before, on_tick=wake)
        loop.first()
        _answer(held, settings, board, reserving)
        held.enter_context(_delivering([*senders, *landings]))
        ready.ready(f"gua agent started: pid {os.getpid()}, every {host.origin.interval_ms / 1000:g} s")
        notifier.ready(f"sampling every {host.origin.interval_ms / 1000:g} s")
        on_ready()
        _log_start(log, host, settings)
        loop.run()
        host.cards.close()  # first: an administrator may be waiting to unload the driver
        notifier.stopping()
        log.info("the agent stops on request and has released the driver")


def _log_start(log: logging.Logger, host: Host, settings: AgentSettings) -> None:
    """Log what is sampled, where ticks are delivered, and which optional sources are enabled."""
    served = [] if settings.serving is None else [f"Prometheus at http://{settings.serving.address}/metrics"]
    log.info(
        "gua %s samples %s every %g s; ticks go to %s",
        _VERSION,
        host.origin.host,
        host.origin.interval_ms / 1000,
        " and ".join([*(one.where for one in settings.destinations), *served]),
    )
    if host.pods is not None:
        log.info("names of pods come from %s", host.pods.kubelet)
        if host.pods.kubelet.insecure:
            log.warning("--kubelet-insecure: any server at that address gets the service account's token")
    if settings.detect_models:
        log.info("arguments of processes on cards are read for the model that they serve (--detect-models)")
    if settings.activity:
        log.info("performance counters of cards are read (--activity gpm)")
    if host.allocations is not None:
        log.info("allocations come from %s", " and ".join(host.allocations.names))


def _hold_pid_file(held: ExitStack, path: Path, *, started_ms: int, supervised: bool) -> None:
    own = ProcFs()  # the /proc of this PID namespace, whatever --procfs names
    process = own.process(os.getpid())
    if process is None:
        raise UnavailableError("cannot read /proc/self/stat: mount /proc here")
    record = AgentRecord(
        pid=process.pid,
        start_ticks=process.start_ticks,
        boot_id=own.boot_id(),
        started_ms=started_ms,
        version=_VERSION,
        supervised=supervised,
        host=platform.node(),
    )
    pid_file = PidFile(path)
    pid_file.acquire(record)
    held.callback(pid_file.release)


def _endpoint(serving: Serving, host: Host, outbox: Outbox) -> PrometheusEndpoint:
    from gua.exporter.endpoint import PrometheusEndpoint  # noqa: PLC0415 - only where metrics are exported

    def clocks() -> IdleCounters:
        return outbox.mark.clocks if outbox.mark is not None else {}

    return PrometheusEndpoint(serving, clock=host.clock, origin=host.origin, clocks=clocks)


def _loop(
    host: Host,
    allocations: AllocationSources | None,
    outbox: Outbox,
    spool: Spool,
    watcher: AgentEvents,
    *,
    before: SpoolStats,
    on_tick: Callable[[], None],
) -> Loop:
    def health() -> QueueHealth:
        if host.pods is not None:
            watcher.condition("kubelet", host.pods.trouble)
        if host.allocations is not None:
            watcher.condition(ALLOCATION_NOTES[0], "; ".join(host.allocations.notes) or None)
        with contextlib.suppress(UnavailableError):
            stats = spool.stats()
            if stats.repairs > before.repairs or spool.set_aside is not None:
                lost = "none" if stats.lost == 0 else "an unknown number"
                damage = f"the spool was damaged or removed, and begun anew, {stats.repairs} x so far"
                note = f"{damage}: {lost} of its ticks lost; a damaged file lies beside it"
                watcher.condition("spool repairs", note)
            return QueueHealth(
                spool_ticks=stats.ticks + outbox.waiting,
                spool_bytes=stats.bytes,
                dropped_ticks=max(0, stats.dropped - before.dropped) + outbox.dropped,
            )
        return QueueHealth()

    return Loop(
        sampler=host.sampler(allocations),
        cards=host.cards,
        outbox=outbox,
        clock=host.clock,
        interval_ms=host.origin.interval_ms,
        phase=phase_ms(host.origin.host, host.origin.interval_ms),
        encode=encode if outbox.keeps_ticks else lambda _: b"",
        wait=signals.wait,
        watcher=watcher,
        health=health,
        on_tick=on_tick,
    )


def _since_start(spool: Spool, outbox: Outbox, before: SpoolStats) -> SpoolStats:
    """Return the spool's counters for the status; deliveries and refusals count since the start."""
    stats = spool.stats()
    return replace(
        stats,
        dropped=stats.dropped + outbox.dropped,
        delivered=_since(before.delivered, stats.delivered),
        refused=_since(before.refused, stats.refused),
    )


def _since(before: Mapping[str, int], now: Mapping[str, int]) -> Mapping[str, int]:
    """Return the increase of each counter since ``before``, at least 0: a rebuilt spool starts at 0 again."""
    return {name: max(count - before.get(name, 0), 0) for name, count in now.items()}


def _landing(destination: Destination, home: Home) -> AbstractContextManager[Landing]:
    return contextlib.closing(open_agent_endpoint(destination, home.path, patience_seconds=0))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reserving:
    """The parts that serve reservations: allocation sources, socket handlers, status entries and tick watchers."""

    allocations: AllocationSources | None
    conversations: Mapping[str, Converse] = field(default_factory=dict)
    status: Callable[[], Mapping[str, Any]] = dict
    idle: tuple[Watcher, ...] = ()


def _reservations(
    held: ExitStack, home: Home, host: Host, tell: Callable[[str], None], idle_release_ms: int | None
) -> _Reserving:
    """Return what serves reservations; if the reservation file is unusable, log it and refuse every request."""
    candidates, processes = host.candidates, ProcFs()

    def ruler() -> str | None:
        ruling = () if host.allocations is None else [name for name in host.allocations.names if name in _SCHEDULERS]
        return f"{' and '.join(ruling)} gives out the cards of this host" if ruling else None

    requesters = Requesters(processes, lambda uid: host.owners.name(uid) or str(uid))
    surroundings = Surroundings(
        probe=candidates.read, start_ticks=requesters.start_ticks, boot_id=processes.boot_id(), log=tell
    )
    desk = Desk(home.reservations, surroundings, idle_release_ms=idle_release_ms)
    try:
        desk.start()
    except UnavailableError as error:
        tell(f"cards cannot be reserved: {error}")
        return _Reserving(
            allocations=host.allocations, conversations=refused(f"cards cannot be reserved here: {error}")
        )
    held.callback(desk.close)
    allocations = WithReservations(host.allocations, desk)
    candidates.allocated = lambda: allocations.allocated
    watcher = IdleNotes(desk)
    candidates.last_used_ms = lambda: watcher.idle.last_used_ms
    answering = Reservations(
        desk, cards=candidates.read, requesters=requesters, beside=ruler, idle_cards=lambda: watcher.idle.cards
    )
    return _Reserving(
        allocations=allocations,
        conversations=answering.conversations(),
        status=answering.status,
        idle=(watcher,),
    )


@contextmanager
def _delivering(deliveries: Sequence[DeliveryThread]) -> Iterator[None]:
    for each in deliveries:
        each.start()
    try:
        yield
    finally:
        for each in deliveries:
            each.stop()
        deadline = time.monotonic() + _JOIN_SECONDS
        for each in deliveries:
            each.join(max(0.0, deadline - time.monotonic()))  # a blocked thread ends with the process


def _answer(held: ExitStack, settings: AgentSettings, board: Board, reserving: _Reserving) -> None:
    """Start the server of the local sockets; ``held`` closes it."""
    home = settings.home
    listen = [Listen(path=home.socket)]
    if settings.public_socket is not None:
        listen.append(Listen(path=settings.public_socket, mode=PUBLIC_MODE))
    # A server may have other hosts' data, which local users must not read with the agent's credentials.
    stores = [one.store for one in settings.destinations if one.store and one.store.startswith("chdb:")]
    server = LocalServer(
        listen=listen,
        status=lambda: {**board.status(), **reserving.status()},
        answer=children.answer_in_child(home=home.path, store=stores[0]) if stores else None,
        conversations=reserving.conversations,
    )
    server.start()
    held.callback(server.close)
