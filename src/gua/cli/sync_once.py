"""``gua sync-once``: one tick of this host, kept here first, and then everything that waits on its way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.app import delivery
from gua.app.destinations import ENDPOINT, Destination, agent_destinations
from gua.app.output import safe
from gua.cli.daemon import parse_interval_ms
from gua.cli.options import (
    EndpointOption,
    HistoryOption,
    IgnoreProcessOption,
    ProcfsOption,
    StateDirOption,
    StoreOption,
    value,
)
from gua.core.errors import UnavailableError
from gua.core.ports import Mark
from gua.core.tick import Tick
from gua.procfs.reader import ProcFs
from gua.spool.database import destinations_of
from gua.spool.queue import Spool
from gua.state.directory import Home, home_path, prepare_home
from gua.state.host_lock import Holder, HostLock

# Less than the shortest time between two calls that makes sense: the next one tries again.
_PATIENCE_SECONDS: Final = 10.0


def command(
    *,
    interval: Annotated[
        str, value("DURATION", "GUA_INTERVAL", "Time between calls, as of a timer; 1s to 10m.")
    ] = "30s",
    store: StoreOption = None,
    endpoint: EndpointOption = None,
    with_history: HistoryOption = False,
    procfs: ProcfsOption = Path("/proc"),
    ignore_process: IgnoreProcessOption = None,
    state_dir: StateDirOption = None,
) -> None:
    """Take one tick, keep it here, then deliver what waits for the endpoint that this host is enrolled with.

    Whatever happens on the way, what was not delivered stays. Beside a running agent no tick is taken, as its own
    cover this moment; what waits is delivered.

    Example:
        gua sync-once
        gua sync-once --with-history
    """
    interval_ms = parse_interval_ms(interval)
    home = home_path(state_dir, os.environ)
    destinations = agent_destinations(store, endpoint, home)
    fleet = next((one for one in destinations if one.endpoint), None)
    if fleet is None:
        msg = "nothing says where to deliver: gua enroll --endpoint URL, or name it with --endpoint"
        raise UnavailableError(msg)
    if not ProcFs(procfs).is_there():
        msg = f"cannot read {procfs}/stat: mount the host's /proc there, or name the place with --procfs"
        raise UnavailableError(msg)
    os.umask(0o077)
    prepared = prepare_home(home)
    lock = HostLock.of(os.environ)
    holder = lock.holder()
    if holder is not None:
        _beside(holder, fleet, prepared)
    else:
        lock.acquire()
        try:
            _alone(destinations, prepared, interval_ms=interval_ms, procfs=procfs, ignored=ignore_process or [])
        finally:
            lock.release()
    if with_history:
        from gua.app.backfill import send_history  # noqa: PLC0415 - only for this

        send_history(store, home, fleet, interval_ms=interval_ms)


def _beside(holder: Holder, fleet: Destination, home: Home) -> None:
    """Deliver what waits in the spool of the agent that runs."""
    if ENDPOINT not in destinations_of(home.spool):
        msg = (
            f"an agent ({holder}) samples this host and does not deliver to {fleet.where}: gua stop, then gua daemon; "
            "no tick was taken"
        )
        raise UnavailableError(msg)
    typer.echo(safe(f"an agent ({holder}) samples this host: no tick was taken"))
    with Spool(home.spool, destinations=None) as spool:
        _deliver(spool, [fleet], home)


def _alone(
    destinations: Sequence[Destination], home: Home, *, interval_ms: int, procfs: Path, ignored: Sequence[str]
) -> None:
    from gua.app.host import open_host  # noqa: PLC0415 - not beside an agent
    from gua.app.single_tick import notes, sample_once, summary  # noqa: PLC0415 - as above

    host = open_host(procfs, interval_ms=interval_ms, home=home, ignored=ignored)
    ticks: list[Tick] = []

    def sample(mark: Mark | None) -> tuple[Tick, Mark]:
        tick, now = sample_once(host, mark)
        ticks.append(tick)
        return tick, now

    failure: UnavailableError | None = None
    # Those that an agent named before stay: what waits for them is not this command's to forget.
    names = sorted({*destinations_of(home.spool), *(one.name for one in destinations)})
    with Spool(home.spool, destinations=names) as spool:
        try:
            delivery.spool_tick(spool, sample)
        except UnavailableError as error:
            failure = error
        finally:
            host.cards.close()
        for tick in ticks:
            typer.echo(safe(summary(tick)))
            for line in notes(tick, seen_by_host=host.seen_by_host):
                typer.echo(safe(line), err=True)
        # The engine is not started for nothing; the endpoint is asked in any case, to tell whether it answers.
        waiting = [one for one in destinations if one.endpoint or spool.depth(one.name)]
        _deliver(spool, sorted(waiting, key=lambda one: one.store is None), home)
    if failure is not None:
        raise failure


def _deliver(spool: Spool, destinations: Sequence[Destination], home: Home) -> None:
    delivered = delivery.deliver_spooled(spool, destinations, home, patience_seconds=_PATIENCE_SECONDS, told=_tell)
    refused = sum(each.refused for each in delivered.values())
    if refused:
        typer.echo(f"note: {refused} ticks were refused for good and are kept in {safe(str(home.spool))}", err=True)


def _tell(destination: Destination, ticks: int) -> None:
    typer.echo(safe(f"{ticks} {'tick' if ticks == 1 else 'ticks'} delivered to {destination.where}"))
