"""One tick of this host, kept here first, and then everything that waits on its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gua.app.destinations import ENDPOINT, Destination
from gua.app.host import Host
from gua.app.output import safe, say
from gua.app.single_tick import deliver_waiting, keep_tick
from gua.core.errors import UnavailableError
from gua.spool.queue import Spool
from gua.spool.waiting import destinations_of
from gua.state.directory import Home
from gua.state.host_lock import LockHolder

# Less than the shortest time between two calls that makes sense: the next one tries again.
_PATIENCE_SECONDS: Final = 10.0


def sync_beside(holder: LockHolder, fleet: Destination, home: Home) -> None:
    """Deliver what waits in the spool of the agent that runs. Raises UnavailableError."""
    if ENDPOINT not in destinations_of(home.spool):
        msg = (
            f"an agent ({holder}) samples this host and does not deliver to {fleet.where}: gua stop, then gua daemon; "
            "no tick was taken"
        )
        raise UnavailableError(msg)
    say(safe(f"an agent ({holder}) samples this host: no tick was taken"))
    with Spool(home.spool, destinations=None) as spool:
        _deliver(spool, [fleet], home)


def sync_alone(host: Host, destinations: Sequence[Destination], home: Home) -> None:
    """Take a tick and deliver what waits, also where no tick could be taken. Raises UnavailableError."""
    failure: UnavailableError | None = None
    # Those that an agent named before stay: what waits for them is not this command's to forget.
    names = sorted({*destinations_of(home.spool), *(destination.name for destination in destinations)})
    with Spool(home.spool, destinations=names) as spool:
        try:
            keep_tick(host, spool)
        except UnavailableError as error:
            failure = error
        # The engine is not started for nothing; the endpoint is asked in any case, to tell whether it answers.
        waiting = [destination for destination in destinations if destination.endpoint or spool.depth(destination.name)]
        _deliver(spool, sorted(waiting, key=lambda destination: destination.store is None), home)
    if failure is not None:
        raise failure


def _deliver(spool: Spool, destinations: Sequence[Destination], home: Home) -> None:
    deliver_waiting(spool, destinations, home, patience_seconds=_PATIENCE_SECONDS, told=_tell)


def _tell(destination: Destination, ticks: int) -> None:
    say(safe(f"{ticks} {'tick' if ticks == 1 else 'ticks'} delivered to {destination.where}"))
