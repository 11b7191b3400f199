"""``gua top``: every card and its holders, live, from a store or the agent of this host."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from gua.app.local_agent import first_response, places
from gua.app.opening import is_socket_named, open_reader, reopened
from gua.cli.completion import owners, values
from gua.cli.options import HostsOption, SocketOption, StoreOption, WidthOption, check_width, flag, style_for, value
from gua.core.errors import UsageError
from gua.core.moments import parse_duration_ms
from gua.local_socket.client import NobodyError, query_status
from gua.report.top.live import snapshot_of_agent, snapshot_of_store
from gua.report.top.model import SORTS, Snapshot, TopView, chosen_cards, chosen_holders
from gua.report.top.text import render_top, render_top_json
from gua.state.directory import reading_home
from gua.store.directory import ignore

AGENT_SECONDS: Final = 2.0
SERVER_SECONDS: Final = 5.0
EMBEDDED_SECONDS: Final = 30.0
"""An embedded store is opened for each query, and is locked for other processes meanwhile."""


def command(
    *,
    interval: Annotated[
        str | None,
        value(
            "DURATION",
            "GUA_TOP_INTERVAL",
            "Ask so often, and not before a tick is due; 2s for an agent, 5s for a server, 30s for an embedded "
            "store if not given.",
        ),
    ] = None,
    host: HostsOption = None,
    sort: Annotated[
        str, value("KEY", "GUA_TOP_SORT", f"Sort holders by {', '.join(SORTS)}.", autocompletion=values(*SORTS))
    ] = SORTS[0],
    only: Annotated[
        str,
        value("TEXT", "GUA_TOP_FILTER", "Only rows with this text, of any column.", "--filter", autocompletion=owners),
    ] = "",
    only_idle: Annotated[
        bool, flag("--only-idle", "GUA_TOP_ONLY_IDLE", "Only idle holders and idle-held cards.")
    ] = False,
    once: Annotated[bool, flag("--once", "GUA_TOP_ONCE", "Print once, as always where there is no terminal.")] = False,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'Print once, one JSON object, schema "gua.top/1".')] = False,
    width: WidthOption = None,
    store: StoreOption = None,
    socket: SocketOption = None,
) -> None:
    """Show every card and who holds it, the longest idle first, and keep it up to date.

    Reads the store of --store (GUA_STORE), else the agent of this host, else this user's own store. A card without
    a tick for three intervals is unobserved, whatever it was before. Keys: h shows them, q quits.

    Example:
        gua top
        gua top --store clickhouse://gua_reader@clickhouse:8123 --host node-1
        gua top --once --only-idle --sort memory
    """
    check_width(width)
    if sort not in SORTS:
        raise UsageError(f"--sort {sort!r} is none of {', '.join(SORTS)}")
    seconds = None if interval is None else parse_duration_ms(interval) / 1000
    view = TopView(sort=sort, text=only, only_idle=only_idle)
    style = partial(style_for, sys.stdout, width, os.environ)
    is_live = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") not in {None, "", "dumb"}
    with open_source(store, socket, tuple(host or ())) as source:
        first = source.query()
        if as_json:
            sys.stdout.write(render_top_json(first, chosen_cards(first, view), chosen_holders(first, view)))
        elif once or not is_live:
            sys.stdout.write("\n".join(render_top(first, view, style())) + "\n")
        else:
            from gua.report.top.live import watch  # noqa: PLC0415 - only for terminals

            watch(source.query, first, view=view, interval_seconds=seconds or source.seconds, style=style)


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotSource:
    """A function that returns the current snapshot, and the default refresh interval [s]."""

    query: Callable[[], Snapshot]
    seconds: float


@contextmanager
def open_source(store: str | None, socket: Path | None, hosts: Sequence[str]) -> Iterator[SnapshotSource]:
    """Open the source of snapshots. Raises UsageError if both are named, UnavailableError if there is none."""
    named = is_socket_named(store, socket)
    home = reading_home(None, os.environ)
    if named or not store:
        tried = places(socket, home)
        try:
            first_response(tried, query_status)
        except NobodyError:
            if named:
                raise
        else:
            yield SnapshotSource(query=partial(_of_agent, tried, hosts), seconds=AGENT_SECONDS)
            return
    # Messages would garble a screen that is already rendered.
    with reopened(store, partial(open_reader, store, warn=ignore)) as (first, stores):

        def query() -> Snapshot:
            with stores() as reader:
                return snapshot_of_store(reader, where=str(reader.dsn), hosts=hosts)

        yield SnapshotSource(query=query, seconds=EMBEDDED_SECONDS if first.is_embedded else SERVER_SECONDS)


def _of_agent(tried: list[Path], hosts: Sequence[str]) -> Snapshot:
    where, status = first_response(tried, lambda path: (path, query_status(path)))
    snapshot = snapshot_of_agent(status, where=str(where))
    if hosts and set(hosts) - set(snapshot.hosts):
        msg = f"the agent here is that of {', '.join(snapshot.hosts)}: name the store that has others with --store"
        raise UsageError(msg)
    return snapshot
