"""One soak: a fleet in a storm, then the account. Run by tests/pipeline/test_soak.py and bench/bench_soak.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gua.otlp.decode import decode
from servers.agent import assert_spans_never_overlap
from soak.accounts import Account, account, landed, points_in
from soak.fleet import Fleet, fleet
from soak.storm import Storm, told

_SETTLES_SECONDS = 180


def soak(folder: Path, *, minutes: float, hosts: int, seed: int, say: Callable[[str], None]) -> Account:
    """Return the account of a fleet of ``hosts`` after so many minutes in which everything fails.

    Fails if anything is off; ``folder/storm.log`` has what failed when.
    """
    say(f"{hosts} hosts at 2 s for {minutes:g} min, seed {seed}")
    with fleet(folder, hosts=hosts, interval="2s") as made, Storm(made, seconds=minutes * 60, seed=seed) as storm:
        made.start()
        began = time.monotonic()
        try:
            storm.rage()
            say(f"after {time.monotonic() - began:.0f} s: {storm.counts.total()} troubles ({told(storm.counts)})")
            made.drain()
            final = settled(made)
        except BaseException:
            say(f"seed {seed}; what failed when:\n{storm.history()}")
            raise
        for line in final.lines():
            say(line)
        gave_up = sum(host.gave_up for host in made.hosts)
        say(f"{gave_up} agents gave up at their start, as this machine was too busy, and were started again")
        say(f"{time.monotonic() - began:.0f} s in all")
        for raws in made.recorded().values():
            assert_spans_never_overlap([decode(raw) for raw in raws])
    assert final.settled, final.differences()
    # Without these nothing was tried that could have been counted twice.
    assert final.duplicates > 0
    return final


def settled(made: Fleet, *, seconds: float = _SETTLES_SECONDS) -> Account:
    """Return the account once it is even and nothing lands in two seconds more; or as it is when the time is over.

    It is drawn up once all points are there, as that costs this machine much more than counting them.
    """
    recorded = made.recorded()
    points = sum(points_in(raw) for raws in recorded.values() for raw in raws)
    deadline = time.monotonic() + seconds
    while landed(made.server)[1] < points and time.monotonic() < deadline:
        time.sleep(1)
    while True:
        final = account(recorded, made.server, made.gua)
        time.sleep(2)
        if final.settled and landed(made.server) == (final.landed, final.points):
            return final
        if time.monotonic() > deadline:
            return final
