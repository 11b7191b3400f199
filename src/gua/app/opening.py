"""Open the store or agent that options name, to land in or to report from. Imports only what a report needs."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from gua.app.output import print_error
from gua.core.errors import GuaError, NothingRecordedError, UsageError
from gua.core.ports import ViewReader
from gua.spool.waiting import awaiting
from gua.state.directory import home_path, reading_home
from gua.store.database import Store, open_store
from gua.store.directory import StoreDirectory
from gua.store.dsn import EmbeddedDsn, ServerDsn, is_path, parse_dsn

STORE: Final = "store"


def home_directory() -> Path:
    """Return the directory of the agent's state and the default store: ``GUA_HOME``, else ``~/.gua``."""
    return home_path(None, os.environ)


def store_address(store: str | None, home: Path | None = None) -> str:
    """Return the store's address: the option, else ``GUA_STORE``, else the directory ``store`` below the home.

    A plain path is made absolute, as later deliveries run in another working directory.
    """
    address = store or os.environ.get("GUA_STORE")
    if not address:
        return str(default_store(home or home_directory()))
    return str(EmbeddedDsn(path=Path(address).absolute())) if is_path(address) else address


def is_socket_named(store: str | None, socket: Path | None) -> bool:
    """Return whether the socket is an option, not a variable. Raises UsageError if the store is one, too."""
    named = socket is not None and str(socket) != os.environ.get("GUA_SOCKET")
    if store and named and store != os.environ.get("GUA_STORE"):
        raise UsageError("one source is read: give --store or --socket, not both")
    return named


def default_store(home: Path) -> EmbeddedDsn:
    """Return the default store of a state directory."""
    return EmbeddedDsn(path=home.absolute() / STORE)


def store_destination(parsed: EmbeddedDsn | ServerDsn, home: Path) -> str:
    """Return the spool's name for a store; reports use it to find ticks still pending for that store."""
    return STORE if parsed == default_store(home) else f"{STORE} {parsed}"


MERGE_TICKS: Final = 1_000
"""From this many landed ticks on, a store is merged, and an embedded one's hourly rollups are computed."""


def open_writer(store: str | None, *, warn: Callable[[str], None] = print_error) -> Store:
    """Open a store for landing; an embedded one is created if missing, a server must have the schema.

    ``warn`` receives a message while another process has the embedded store open.
    """
    opened = open_store(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"), warn=warn)
    if opened.is_embedded:  # opening migrated it
        return opened
    try:
        opened.schema.require()
    except BaseException:
        opened.close()
        raise
    return opened


def require_store(store: str | None) -> None:
    """Raise UnavailableError if an embedded store does not exist: opening would create it."""
    parsed = parse_dsn(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"))
    if isinstance(parsed, EmbeddedDsn) and not StoreDirectory(parsed.path).exists():
        from gua.app.first_steps import nothing_recorded  # noqa: PLC0415 - only for this error

        raise nothing_recorded(parsed, home_directory())


@contextmanager
def open_reader(
    store: str | None, *, warn: Callable[[str], None] = print_error, needs_newest: bool = True
) -> Iterator[Store]:
    """Open a store to report from, after landing the ticks that this host's agent spooled for it.

    Without ``needs_newest`` the spooled ticks stay in the spool, unless the store does not exist yet. ``warn`` is as in
    :func:`open_writer`. Raises UnavailableError without a store. A NothingRecordedError raised in the block is replaced
    by one that explains the empty embedded store.
    """
    parsed = parse_dsn(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"))
    spool = home_directory() / "spool.db"
    # Only the store's own ticks: draining an endpoint's would mark them as delivered.
    destination = store_destination(parsed, home_directory())
    is_made = not isinstance(parsed, EmbeddedDsn) or StoreDirectory(parsed.path).exists()
    waiting = (needs_newest or not is_made) and destination in awaiting(spool)
    if not waiting:
        require_store(store)
    with open_writer(store, warn=warn) as reader:
        try:
            if waiting:
                from gua.agent.delivery import drain  # noqa: PLC0415 - only with spooled ticks
                from gua.spool.queue import Spool  # noqa: PLC0415 - as above

                with Spool(spool, destinations=None) as queue:
                    drained = drain(queue, destination, reader, flush=reader.flush)
                if reader.is_embedded and drained.landed >= MERGE_TICKS:
                    reader.count_hours()
            yield reader
        except NothingRecordedError:
            if not isinstance(parsed, EmbeddedDsn):
                raise
            from gua.app.first_steps import nothing_recorded  # noqa: PLC0415 - as above

            raise nothing_recorded(parsed, home_directory()) from None


@contextmanager
def reopened(
    store: str | None, again: Callable[[], AbstractContextManager[Store]]
) -> Iterator[tuple[Store, Callable[[], AbstractContextManager[Store]]]]:
    """Yield the open store, and a function that opens it for a while.

    A server stays open. An embedded store is closed after the function's first use, and opened by ``again`` for the
    others: other processes wait meanwhile.
    """
    with ExitStack() as opened:
        first = opened.enter_context(open_reader(store))
        uses = count()

        @contextmanager
        def stores() -> Iterator[Store]:
            if not first.is_embedded:
                yield first
            elif next(uses):
                with again() as reader:
                    yield reader
            else:
                with opened.pop_all():
                    yield first

        yield first, stores


@contextmanager
def open_report_source(store: str | None, socket: Path | None) -> Iterator[ViewReader]:
    """Open the reader of a report: the named store or socket, else this user's own store, else the host's agent.

    Raises UsageError if both are named, UnavailableError if none exists.
    """
    named = is_socket_named(store, socket)
    home = reading_home(None, os.environ)
    own = False
    with suppress(PermissionError):  # another user's home, as when sudo preserves HOME
        own = StoreDirectory(home / STORE).exists() or STORE in awaiting(home / "spool.db")
    with ExitStack() as opened:
        if (store or own) and not named:
            yield opened.enter_context(open_reader(store))
            return
        from gua.app.local_agent import first_response, places  # noqa: PLC0415 - not needed with an own store
        from gua.local_socket.client import NobodyError, RemoteReader  # noqa: PLC0415 - as above
        from gua.report.views import SHARED  # noqa: PLC0415 - as above

        try:
            remote = opened.enter_context(first_response(places(socket, home), lambda path: RemoteReader(path, SHARED)))
        except NobodyError:
            if named:
                raise
        else:
            yield remote
            return
        yield opened.enter_context(open_reader(None))


def counting(reader: ViewReader) -> Callable[[], None] | None:
    """Return a function that computes pending hourly rollups of an embedded store, ``None`` for servers and agents.

    It prints that it starts, as it may take long. It prints failures, too: reports work without rollups.
    """
    if not isinstance(reader, Store) or not reader.is_embedded:
        return None

    def count() -> None:
        print_error("hours of the store are not rolled up yet, or by another version: rolling them up now, once")
        try:
            reader.count_hours()
        except GuaError as error:
            print_error(f"hours could not be rolled up: {error}")

    return count
