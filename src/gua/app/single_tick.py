"""One tick of this host without an agent, and delivery of the spooled ticks."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gua.agent.sampler import Outcome, Sampler
from gua.app.delivery import deliver_spooled
from gua.app.destinations import ENDPOINT, Destination
from gua.app.host import Host
from gua.app.output import print_line, safe
from gua.app.settings import settle
from gua.core.errors import UnavailableError
from gua.core.ports import Mark
from gua.core.tick import Tick
from gua.otlp.encode import encode
from gua.report.kit.figures import plural
from gua.report.kit.words import gpus_in_words
from gua.spool.queue import Spool
from gua.spool.waiting import read_destinations
from gua.state.directory import Home
from gua.state.socket_address import Peer


def tick_once(host: Host, destinations: Sequence[Destination], home: Home) -> None:
    """Take one tick, print its summary, and deliver all spooled ticks."""
    with Spool(home.spool, destinations=[destination.name for destination in destinations]) as spool:
        keep_tick(host, spool)
        deliver_spooled(spool, destinations, home)


def keep_tick(host: Host, spool: Spool) -> None:
    """Take one tick, spool it with its mark and print its summary. Closes the host."""
    try:
        tick = spool_tick(spool, partial(sample_once, host))
    finally:
        host.close()
    print_line(safe(summary(tick)))
    for line in notes(tick, seen_by_host=host.seen_by_host):
        print_line(safe(line), to_stderr=True)


def spool_tick(spool: Spool, sample: Callable[[Mark | None], tuple[Tick, Mark]]) -> Tick:
    """Sample one tick of this host, spool it with its mark and return it."""
    if spool.set_aside is not None:
        os.write(2, f"note: the spool was damaged and is kept as {spool.set_aside}\n".encode())
    tick, mark = sample(spool.mark())
    spool.append(tick.ts_ms, encode(tick), mark)
    return tick


def sample_once(host: Host, mark: Mark | None) -> tuple[Tick, Mark]:
    """Return the host's tick after the mark, and the new mark. Raises UnavailableError if no tick is possible."""
    if host.allocations is not None:
        settle(host.allocations)
    return tick_after(host.sampler(host.allocations), mark)


def tick_after(sampler: Sampler, mark: Mark | None) -> tuple[Tick, Mark]:
    """Return the tick after the mark, and the new mark. Raises UnavailableError if it is too early for one."""
    sample = sampler.sample(mark)
    if sample.tick is not None:
        return sample.tick, sample.mark
    if sample.outcome is Outcome.WAITING and mark is not None:
        behind_s = (mark.ts_ms - sample.mark.ts_ms) / 1000
        msg = f"the clock is {behind_s:.3f} s behind the last tick (was it set back?): try again when it has passed"
        raise UnavailableError(msg)
    raise UnavailableError("less than a millisecond passed since the last tick: try again")


def summary(tick: Tick) -> str:
    """Return one line on the tick: its host, GPUs, processes and covered seconds."""
    gpus = gpus_in_words((card.uuid, card.mig, card.parent) for card in tick.cards)
    processes = plural(sum(len(card.processes) for card in tick.cards), "process", "processes")
    covered_s = max((card.duration_ms for card in tick.cards), default=0) / 1000
    return f"1 tick of {tick.origin.host}: {gpus}, {processes} on them, {covered_s:.3f} s covered"


def notes(tick: Tick, *, seen_by_host: bool) -> list[str]:
    """Return a line for each thing that the tick could not read."""
    lines = []
    if not seen_by_host:
        lines.append(
            "note: gua runs outside of the host's PID namespace, so who holds a card is not known; "
            "start the container with the host's (docker --pid host, kubernetes hostPID)"
        )
    failed = Counter((error.call, error.code) for error in tick.errors)
    lines += [
        f"note: allocations by {source.source} cannot be read: {source.reason}"
        for source in tick.allocation_sources
        if source.reason is not None
    ]
    lines += [f"note: {call} failed {plural(count, 'time')}: {code}" for (call, code), count in sorted(failed.items())]
    return lines


# Shorter than any sensible interval between two calls: the next one retries.
_PATIENCE_SECONDS: Final = 10.0


def sync_beside(holder: Peer, fleet: Destination, home: Home) -> None:
    """Deliver the spool of the running agent. Raises UnavailableError."""
    if ENDPOINT not in read_destinations(home.spool):
        raise UnavailableError(
            f"an agent ({holder}) samples this host and does not deliver to {fleet.where}: gua stop, then gua daemon; "
            "no tick was taken"
        )
    print_line(safe(f"an agent ({holder}) samples this host: no tick was taken"))
    with Spool(home.spool, destinations=None) as spool:
        deliver_spooled(spool, [fleet], home, patience_seconds=_PATIENCE_SECONDS, prints_counts=True)


def sync_alone(host: Host, destinations: Sequence[Destination], home: Home) -> None:
    """Take a tick and deliver all spooled ticks, even if no tick could be taken. Raises UnavailableError."""
    failure: UnavailableError | None = None
    # Destinations of an earlier agent stay, as their pending ticks must not be lost.
    names = sorted({*read_destinations(home.spool), *(destination.name for destination in destinations)})
    with Spool(home.spool, destinations=names) as spool:
        try:
            keep_tick(host, spool)
        except UnavailableError as error:
            failure = error
        # A store is opened only for pending ticks; an endpoint always, to report whether it is reachable.
        waiting = [destination for destination in destinations if destination.endpoint or spool.depth(destination.name)]
        waiting.sort(key=lambda destination: destination.store is None)
        deliver_spooled(spool, waiting, home, patience_seconds=_PATIENCE_SECONDS, prints_counts=True)
    if failure is not None:
        raise failure
