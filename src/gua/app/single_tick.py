"""A single tick of this host, without an agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from gua.agent.coverage import Outcome
from gua.agent.sampler import Sampler
from gua.app import delivery
from gua.app.allocations import settle
from gua.app.destinations import Destination
from gua.app.host import Host
from gua.app.output import safe, say
from gua.core.errors import UnavailableError
from gua.core.ports import Mark
from gua.core.tick import Tick
from gua.report.kit.figures import plural
from gua.report.kit.words import gpus_in_words
from gua.spool.queue import Spool
from gua.state.directory import Home


def tick_once(host: Host, destinations: Sequence[Destination], home: Home) -> None:
    """Make one tick, print what it holds, and deliver it with what waits."""
    with Spool(home.spool, destinations=[destination.name for destination in destinations]) as spool:
        keep_tick(host, spool)
        deliver_waiting(spool, destinations, home)


def keep_tick(host: Host, spool: Spool) -> None:
    """Make one tick, spool it and print what it holds. Lets go of the driver."""
    try:
        tick = delivery.spool_tick(spool, partial(sample_once, host))
    finally:
        host.close()
    say(safe(summary(tick)))
    for line in notes(tick, seen_by_host=host.seen_by_host):
        say(safe(line), to_stderr=True)


def deliver_waiting(
    spool: Spool,
    destinations: Sequence[Destination],
    home: Home,
    *,
    patience_seconds: float = delivery.PATIENCE_SECONDS,
    told: Callable[[Destination, int], None] = delivery.nobody,
) -> None:
    """Deliver what the spool holds, as :func:`gua.app.delivery.deliver_spooled` does, and say what was refused."""
    drained = delivery.deliver_spooled(spool, destinations, home, patience_seconds=patience_seconds, told=told)
    refused = sum(each.refused for each in drained.values())
    if refused:
        say(f"note: {refused} ticks were refused for good and are kept in {safe(str(home.spool))}", to_stderr=True)


def sample_once(host: Host, mark: Mark | None) -> tuple[Tick, Mark]:
    """Return the host's tick that follows the mark. Raises UnavailableError where there is none."""
    if host.allocations is not None:
        settle(host.allocations)
    sampler = Sampler(
        cards=host.cards,
        processes=host.processes,
        clock=host.clock,
        origin=host.origin,
        initial_pid_namespace=host.seen_by_host,
        allocations=host.allocations,
    )
    return tick_after(sampler, mark)


def tick_after(sampler: Sampler, mark: Mark | None) -> tuple[Tick, Mark]:
    """Return the tick that follows the mark. Raises UnavailableError where there is none yet."""
    sample = sampler.sample(mark)
    if sample.tick is not None:
        return sample.tick, sample.mark
    if sample.outcome is Outcome.WAITING and mark is not None:
        behind_s = (mark.ts_ms - sample.mark.ts_ms) / 1000
        msg = f"the clock is {behind_s:.3f} s behind the last tick (was it set back?): try again when it has passed"
        raise UnavailableError(msg)
    msg = "less than a millisecond passed since the last tick: try again"
    raise UnavailableError(msg)


def summary(tick: Tick) -> str:
    """Return one line on what the tick holds."""
    gpus = gpus_in_words((card.uuid, card.mig, card.parent) for card in tick.cards)
    processes = plural(sum(len(card.processes) for card in tick.cards), "process", "processes")
    covered_s = max((card.duration_ms for card in tick.cards), default=0) / 1000
    return f"1 tick of {tick.origin.host}: {gpus}, {processes} on them, {covered_s:.3f} s covered"


def notes(tick: Tick, *, seen_by_host: bool) -> list[str]:
    """Return a line for each thing that the tick could not tell."""
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
