"""Delivery of ticks to stores and endpoints: recorded or simulated ticks, and what the spool holds."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from itertools import chain

from gua.agent.delivery import BATCH_TICKS, DrainResult, drain
from gua.app.destinations import Destination, more_explicit, open_agent_endpoint
from gua.app.opening import MERGE_TICKS, open_writer, store_address
from gua.app.output import print_line, safe
from gua.core.errors import DataError, GuaError, TransientError, UnavailableError, UsageError
from gua.core.ports import Landing, SpooledTick
from gua.core.tick import Tick
from gua.spool.queue import Spool
from gua.state.compression import compress
from gua.state.directory import Home
from gua.store.database import Store
from gua.store.directory import ignore
from gua.store.dsn import EmbeddedDsn, parse_dsn
from gua.store.tick_rows import TickRows

# An insert has a fixed cost, equal to 200 ticks of a full host; a larger batch takes more memory.
_LEAST_BYTES = 6 * 2**20
_MOST_BYTES = 24 * 2**20
_MOST_TICKS = 10_000
# Rows are a fifth of the size of the points of the same ticks.
_LEAST_CHARACTERS = 2 * 2**20
_MOST_CHARACTERS = 8 * 2**20
_MOST_WAITING = 4
"""Largest number of encoded batches (compressed to a tenth) that wait for the landing one."""
PATIENCE_SECONDS = 60.0
"""How long transient failures are retried [s]."""


class _Batch:
    """Ticks to land together: as rows where the store can take them, else as OTLP points."""

    def __init__(self, *, of_rows: bool) -> None:
        self.rows = TickRows(time.time_ns() // 1_000_000) if of_rows else None
        self.spooled: list[SpooledTick] = []
        self._bytes = 0

    def add(self, tick: Tick) -> None:
        """Add a tick."""
        if self.rows is not None and self.rows.add(tick):
            return
        from gua.otlp.encode import encode  # noqa: PLC0415 - not needed to read a store

        raw = encode(tick)
        self.spooled.append(
            SpooledTick(id=len(self.spooled), ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw))
        )
        self._bytes += len(raw)

    def is_full(self, is_idle: Callable[[], bool]) -> bool:
        """Return whether to land the batch now: when it is full, or earlier when the landing thread is idle."""
        ticks, characters = (0, 0) if self.rows is None else (self.rows.ticks, self.rows.characters)
        if max(ticks, len(self.spooled)) >= _MOST_TICKS:
            return True
        filled = max(self._bytes / _MOST_BYTES, characters / _MOST_CHARACTERS)
        least = max(self._bytes / _LEAST_BYTES, characters / _LEAST_CHARACTERS)
        return filled >= 1 or (least >= 1 and is_idle())

    def __bool__(self) -> bool:
        return bool(self.spooled) or (self.rows is not None and self.rows.ticks > 0)


def deliver(
    ticks: Iterable[Tick],
    *,
    store: str | None = None,
    endpoint: str | None = None,
    on_tick: Callable[[int], None] = ignore,
    on_landed: Callable[[Store], None] = ignore,
    is_thrown_away: bool = False,
) -> int:
    """Encode and deliver recorded or simulated ticks, also those before one that fails; return their number.

    ``on_tick`` receives the number of ticks processed since its last call, ``on_landed`` the store at the end, if any.
    ``is_thrown_away`` means that the store is deleted afterwards: merges and hourly rollups are skipped. Ticks may be
    delivered twice without effect. Raises UnavailableError if the destination fails, DataError if it refused any tick.
    """
    store, endpoint = single_destination(store, endpoint)
    of_rows = not endpoint and isinstance(parse_dsn(store_address(store)), EmbeddedDsn)
    delivered = refused = 0
    landings: deque[Future[DrainResult]] = deque()
    with ExitStack() as opened, ThreadPoolExecutor(max_workers=1) as worker:
        # The engine releases the GIL: this thread makes and encodes the next ticks meanwhile.
        opening = worker.submit(lambda: opened.enter_context(_landing(store, endpoint)))

        def is_idle() -> bool:
            return landings[-1].done() if landings else opening.done()

        for batch in chain(_batches(ticks, is_idle, of_rows=of_rows), [None]):
            if batch is not None:
                landings.append(worker.submit(_land, batch, opening, on_tick))
            while landings and (batch is None or landings[0].done() or len(landings) > _MOST_WAITING):
                result = _result(landings)
                delivered += result.landed
                refused += result.refused
        landing = opening.result()
        if isinstance(landing, Store):
            if is_thrown_away:
                landing.throw_away()
            elif delivered >= MERGE_TICKS:
                landing.merge()
                if landing.is_embedded:
                    landing.count_hours()
            on_landed(landing)
    if refused:
        where = landing.dsn if isinstance(landing, Store) else endpoint
        msg = f"{where} refused {refused} of {delivered + refused} ticks for good, the others are there: see its log"
        raise DataError(msg)
    return delivered


def _result(landings: deque[Future[DrainResult]]) -> DrainResult:
    """Return the result of the oldest landing. If it failed, cancel the others and raise its error."""
    try:
        return landings.popleft().result()
    except BaseException:
        for landing in landings:
            landing.cancel()
        raise


def _land(batch: _Batch, opening: Future[Landing], on_tick: Callable[[int], None]) -> DrainResult:
    """Land a batch at the destination that ``opening`` returns, in requests of at most the destination's batch size."""
    landing = opening.result()
    landed = refused = 0
    if isinstance(landing, Store) and batch.rows is not None and batch.rows.ticks:
        landing.land_lines(batch.rows.parts())
        landed += batch.rows.ticks
        on_tick(batch.rows.ticks)
    most = _MOST_TICKS if isinstance(landing, Store) else BATCH_TICKS
    for first in range(0, len(batch.spooled), most):
        part = batch.spooled[first : first + most]
        rejected = landing.land(part)
        refused += len(rejected)
        landed += len(part) - len(rejected)
        on_tick(len(part))
    return DrainResult(landed=landed, refused=refused)


def deliver_spooled(
    spool: Spool,
    destinations: Sequence[Destination],
    home: Home,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    prints_counts: bool = False,
) -> dict[str, DrainResult]:
    """Deliver the spooled ticks to each destination, report refused ticks, and return the results by destination name.

    ``prints_counts`` prints the number of delivered ticks of each destination. A failing destination does not stop the
    others; the first failure is raised at the end. Raises UnavailableError, TransientError if it may pass.
    """
    drained: dict[str, DrainResult] = {}
    failure: UnavailableError | None = None
    for destination in destinations:
        try:
            opened: AbstractContextManager[Landing] = (
                closing(open_agent_endpoint(destination, home.path, patience_seconds=patience_seconds))
                if destination.endpoint
                else open_writer(destination.store)
            )
            with opened as landing:
                flush = landing.flush if isinstance(landing, Store) else ignore
                drained[destination.name] = drain(spool, destination.name, landing, flush=flush)
            if prints_counts:
                ticks = drained[destination.name].landed
                print_line(safe(f"{ticks} {'tick' if ticks == 1 else 'ticks'} delivered to {destination.where}"))
        except UnavailableError as error:
            failure = failure or error
    if failure is not None:
        kind = TransientError if isinstance(failure, TransientError) else UnavailableError
        raise kind(f"{failure} (what was not delivered is kept in {home.spool} and goes with the next)") from None
    if refused := sum(each.refused for each in drained.values()):
        print_line(
            f"note: {refused} ticks were refused for good and are kept in {safe(str(home.spool))}", to_stderr=True
        )
    return drained


def single_destination(store: str | None, endpoint: str | None) -> tuple[str | None, str | None]:
    """Return the store and the endpoint with only one of them set; an option overrides an environment variable.

    Raises UsageError if both are options, or both are environment variables.
    """
    store, endpoint = more_explicit(store, endpoint)
    if store and endpoint:
        raise UsageError("ticks go to one place: give --store or --endpoint, not both")
    return store, endpoint


def _landing(store: str | None, endpoint: str | None) -> AbstractContextManager[Landing]:
    """Open the endpoint, or else the store."""
    if endpoint:
        from gua.otlp.send import open_endpoint  # noqa: PLC0415 - loads an exporter

        return closing(open_endpoint(endpoint, environ=os.environ))
    return open_writer(store)


def _batches(ticks: Iterable[Tick], is_idle: Callable[[], bool], *, of_rows: bool) -> Iterator[_Batch]:
    """Yield batches of ticks. After a failure, yield the batch collected so far, then raise."""
    batch = _Batch(of_rows=of_rows)
    try:
        for tick in ticks:
            batch.add(tick)
            if batch.is_full(is_idle):
                yield batch
                batch = _Batch(of_rows=of_rows)
    except GuaError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch
