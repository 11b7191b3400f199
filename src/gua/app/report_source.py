"""What a report is made from: a store, or the agent of this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gua.app import opening
from gua.app.output import print_error
from gua.app.store_address import STORE
from gua.core.errors import GuaError, UsageError
from gua.core.ports import ViewReader
from gua.spool.waiting import awaiting
from gua.state.directory import asking_home
from gua.store.database import Store
from gua.store.directory import StoreDirectory


@contextmanager
def open_reader(store: str | None, socket: Path | None) -> Iterator[ViewReader]:
    """Open what to report from: the store or socket named, else this user's own store, else the host's agent.

    Raises UsageError where both are named alike, UnavailableError where there is none of them.
    """
    named = socket is not None and str(socket) != os.environ.get("GUA_SOCKET")
    if store and named and store != os.environ.get("GUA_STORE"):
        msg = "a report is made from one place: give --store or --socket, not both"
        raise UsageError(msg)
    home = asking_home(None, os.environ)
    own = False
    with suppress(PermissionError):  # a home that is not this user's, as where HOME was kept by sudo
        own = StoreDirectory(home / STORE).exists() or STORE in awaiting(home / "spool.db")
    with ExitStack() as opened:
        if (store or own) and not named:
            yield opened.enter_context(opening.open_reader(store))
            return
        from gua.app.local_agent import places, remote_reader  # noqa: PLC0415 - who has a store of its own asks no agent
        from gua.local_socket.client import NobodyError  # noqa: PLC0415 - as above

        try:
            remote = opened.enter_context(remote_reader(places(socket, home)))
        except NobodyError:
            if named:
                raise
        else:
            yield remote
            return
        yield opened.enter_context(opening.open_reader(None))


def counting(reader: ViewReader) -> Callable[[], None] | None:
    """Return what counts the hours of an embedded store that are due; a server and an agent count by themselves.

    It tells that it does, as it may take long, and why it could not: a report is had without.
    """
    if not isinstance(reader, Store) or not reader.is_embedded:
        return None

    def count() -> None:
        print_error("hours of the store are not counted yet, or by another version: they are counted now, once")
        try:
            reader.count_hours()
        except GuaError as error:
            print_error(f"hours could not be counted: {error}")

    return count
