"""Opens the store that the options name: to land in, or to report from. Imports only what a report needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gua.app.output import print_error
from gua.app.store_address import home_directory, store_address, store_destination
from gua.core.errors import NothingRecordedError, UnavailableError
from gua.spool.waiting import awaiting
from gua.store.database import Store, open_store
from gua.store.directory import StoreDirectory
from gua.store.dsn import EmbeddedDsn, parse_dsn

MERGE_TICKS: Final = 1_000
"""So many at once are merged, and their hours are counted."""


def open_writer(store: str | None, *, told: Callable[[str], None] = print_error) -> Store:
    """Open a store to land in; an embedded one is made, a server must have the schema.

    ``told`` hears for whom it waits, where another process has an embedded one open.
    """
    opened = open_store(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"), told=told)
    if opened.is_embedded:  # it was brought to this version
        return opened
    try:
        opened.schema.require()
    except BaseException:
        opened.close()
        raise
    return opened


def require_store(store: str | None) -> None:
    """Raise UnavailableError where an embedded store is not there yet: opening it would make it."""
    parsed = parse_dsn(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"))
    if isinstance(parsed, EmbeddedDsn) and not StoreDirectory(parsed.path).exists():
        raise _nothing_recorded(parsed)


@contextmanager
def open_reader(
    store: str | None, *, told: Callable[[str], None] = print_error, needs_newest: bool = True
) -> Iterator[Store]:
    """Open a store to report from, and land first what the agent of this host has spooled for it.

    Who does not need the newest ticks leaves them where they wait, unless there is no store yet.
    ``told`` as of :func:`open_writer`. Raises UnavailableError where there is no store; a NothingRecordedError of the
    block says why an embedded one may be empty.
    """
    parsed = parse_dsn(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"))
    spool = home_directory() / "spool.db"
    # What waits for an endpoint is not taken: the spool would take it for delivered.
    destination = store_destination(parsed, home_directory())
    is_made = not isinstance(parsed, EmbeddedDsn) or StoreDirectory(parsed.path).exists()
    waiting = (needs_newest or not is_made) and destination in awaiting(spool)
    if not waiting:
        require_store(store)
    with open_writer(store, told=told) as reader:
        try:
            if waiting:
                _land(spool, destination, reader)
            yield reader
        except NothingRecordedError:
            if not isinstance(parsed, EmbeddedDsn):
                raise
            raise _nothing_recorded(parsed) from None


def _land(spool: Path, destination: str, store: Store) -> None:
    """Land what waits in the spool."""
    from gua.agent.delivery import drain  # noqa: PLC0415 - where ticks wait
    from gua.spool.queue import Spool  # noqa: PLC0415 - as above

    with Spool(spool, destinations=None) as queue:
        drained = drain(queue, destination, store, flush=store.flush)
    if store.is_embedded and drained.landed >= MERGE_TICKS:
        store.count_hours()


def _nothing_recorded(store: EmbeddedDsn) -> UnavailableError:
    from gua.app.first_steps import nothing_recorded  # noqa: PLC0415 - where nothing is recorded

    return nothing_recorded(store, home_directory())
