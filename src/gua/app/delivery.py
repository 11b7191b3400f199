"""Everything is put together here, once: producers, encoder, spool, stores and endpoints."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gua.agent.delivery import BATCH_TICKS, DrainResult, drain
from gua.app.destinations import (
    STORE,
    Destination,
    home_directory,
    more_explicit,
    store_address,
    store_destination,
)
from gua.app.endpoints import open_agent_endpoint
from gua.core.errors import DataError, TransientError, UnavailableError, UsageError
from gua.core.ports import Landing, Mark
from gua.core.tick import Tick
from gua.spool.database import destinations_of
from gua.spool.queue import Spool
from gua.state.directory import Home
from gua.store.database import Store, open_store
from gua.store.directory import StoreDirectory
from gua.store.dsn import EmbeddedDsn, parse_dsn

_BATCH_BYTES = 12 * 2**20
_MERGE_TICKS = 1_000
PATIENCE_SECONDS = 60.0
"""How long a failure that may pass is waited for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """What became of the ticks: ``where`` they went and how many they were."""

    where: str
    delivered: int


def nobody(*_: object) -> None:
    """Tell nobody."""


def open_writer(store: str | None) -> Store:
    """Open a store to land in; an embedded one is made, a server must have the schema."""
    opened = open_store(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"))
    try:
        opened.schema.require()
    except BaseException:
        opened.close()
        raise
    return opened


@contextmanager
def open_reader(store: str | None) -> Iterator[Store]:
    """Open a store to report from, and land first what the agent of this host has spooled for it.

    Raises UnavailableError where there is no store.
    """
    address = store_address(store)
    parsed = parse_dsn(address, password=os.environ.get("GUA_STORE_PASSWORD"))
    spool = home_directory() / "spool.db"
    # What waits for an endpoint is not taken: the spool would take it for delivered.
    destination = store_destination(parsed, home_directory())
    waiting = destination in destinations_of(spool)
    if isinstance(parsed, EmbeddedDsn) and not waiting and not StoreDirectory(parsed.path).exists():
        msg = (
            f"there is no store at {parsed.path}: record with gua daemon --once, import with gua import nvidia-smi, "
            "see gua demo, or name another with --store"
        )
        raise UnavailableError(msg)
    with open_writer(store) as reader:
        if waiting:
            with Spool(spool, destinations=None) as queue:
                drained = drain(queue, destination, reader, flush=reader.flush)
            if reader.is_embedded and drained.landed >= _MERGE_TICKS:
                reader.count_hours()
        yield reader


def deliver(
    ticks: Iterable[Tick],
    *,
    store: str | None = None,
    endpoint: str | None = None,
    on_tick: Callable[[int], None] = nobody,
) -> Delivery:
    """Encode, spool and deliver recorded or simulated ticks through a temporary spool; nothing of it stays behind.

    ``on_tick`` is called with the number of ticks done since the last call. Raises UnavailableError and its kind;
    what was delivered before stays, and delivering it again changes nothing. Raises DataError if any was refused.
    """
    store, endpoint = destination_of(store, endpoint)
    delivered = refused = 0
    with (
        ExitStack() as opened,
        tempfile.TemporaryDirectory(prefix="gua-spool-") as folder,
        Spool(Path(folder) / "spool.db", destinations=(STORE,), max_bytes=None) as spool,
        ThreadPoolExecutor(max_workers=1) as worker,
    ):
        # The engine opens and lands without holding up Python: meanwhile the next ticks are made and encoded.
        opening = worker.submit(lambda: opened.enter_context(_landing(store, endpoint)))
        draining: Future[DrainResult] | None = None
        for batch in chain(_batches(ticks), [None]):
            landing, where = opening.result()
            if draining is not None:
                result = draining.result()
                delivered += result.landed
                refused += result.refused
            if batch is not None:
                spool.extend(batch)
                draining = worker.submit(
                    drain, spool, STORE, landing, on_batch=lambda landed, refused: on_tick(landed + refused)
                )
        if isinstance(landing, Store) and delivered >= _MERGE_TICKS:
            landing.merge()
            if landing.is_embedded:
                landing.count_hours()
    if refused:
        msg = f"{where} refused {refused} of {delivered + refused} ticks for good, the others are there: see its log"
        raise DataError(msg)
    return Delivery(where=where, delivered=delivered)


def spool_tick(spool: Spool, sample: Callable[[Mark | None], tuple[Tick, Mark]]) -> Tick:
    """Sample one tick of this host, spool it with its mark and return it."""
    if spool.set_aside is not None:
        os.write(2, f"note: the spool was damaged and is kept as {spool.set_aside}\n".encode())
    from gua.otlp.encode import encode  # noqa: PLC0415 - who only reads a store makes no ticks

    tick, mark = sample(spool.mark())
    spool.append(tick.ts_ms, encode(tick), mark)
    return tick


def deliver_spooled(
    spool: Spool,
    destinations: Sequence[Destination],
    home: Home,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    told: Callable[[Destination, int], None] = nobody,
) -> dict[str, DrainResult]:
    """Deliver what the spool holds to each destination and return the counts by its name.

    ``told`` hears of each one that has all its ticks, and how many arrived now. One that fails keeps no other from
    its ticks: the first failure is raised when all had their turn.
    """
    drained: dict[str, DrainResult] = {}
    failure: UnavailableError | None = None
    for destination in destinations:
        try:
            with _agent_landing(destination, home.path, patience_seconds) as landing:
                flush = landing.flush if isinstance(landing, Store) else _nothing
                drained[destination.name] = drain(spool, destination.name, landing, flush=flush)
            told(destination, drained[destination.name].landed)
        except UnavailableError as error:
            failure = failure or error
    if failure is not None:
        kind = TransientError if isinstance(failure, TransientError) else UnavailableError
        msg = f"{failure} (what was not delivered is kept in {home.spool} and goes with the next)"
        raise kind(msg) from None
    return drained


@contextmanager
def _agent_landing(destination: Destination, home: Path, patience_seconds: float) -> Iterator[Landing]:
    if destination.endpoint:
        with closing(open_agent_endpoint(destination, home, patience_seconds=patience_seconds)) as opened:
            yield opened
        return
    with open_writer(destination.store) as store:
        yield store


def _nothing() -> None:
    """Make nothing durable: the endpoint's answer is its promise."""


def destination_of(store: str | None, endpoint: str | None) -> tuple[str | None, str | None]:
    """Return the one of both that is meant: an option as given beats one that the environment gave.

    Raises UsageError where both were given alike.
    """
    store, endpoint = more_explicit(store, endpoint)
    if store and endpoint:
        msg = "ticks go to one place: give --store or --endpoint, not both"
        raise UsageError(msg)
    return store, endpoint


@contextmanager
def _landing(store: str | None, endpoint: str | None) -> Iterator[tuple[Landing, str]]:
    if endpoint:
        from gua.otlp.send import open_endpoint  # noqa: PLC0415 - an exporter, only for those who send

        with closing(open_endpoint(endpoint, environ=os.environ)) as opened:
            yield opened, endpoint
        return
    with open_writer(store) as opened:
        yield opened, str(opened.dsn)


def _batches(ticks: Iterable[Tick]) -> Iterator[list[tuple[int, bytes]]]:
    from gua.otlp.encode import encode  # noqa: PLC0415 - as above

    batch: list[tuple[int, bytes]] = []
    size = 0
    for tick in ticks:
        raw = encode(tick)
        batch.append((tick.ts_ms, raw))
        size += len(raw)
        if len(batch) == BATCH_TICKS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
