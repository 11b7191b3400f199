"""The proof that an endpoint takes what this host sends: one tick that it accepted."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from gua.app.destinations import ENDPOINT
from gua.app.host import Host
from gua.app.single_tick import sample_once, summary
from gua.core.errors import UnavailableError
from gua.core.ports import Mark, SpooledTick
from gua.core.tick import AgentReading, Tick
from gua.otlp.encode import encode
from gua.spool.queue import Spool
from gua.spool.waiting import destinations_of
from gua.state.compression import compress, decompress
from gua.state.directory import Home
from gua.state.enrollment import Enrollment
from gua.state.host_lock import HostLock, LockHolder


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The tick that was accepted. ``what`` says which it was; ``to_spool`` stores it where it is new to the spool."""

    what: str
    ts_ms: int
    to_spool: tuple[bytes, Mark] | None = None


def prove(open_host: Callable[[], Host], offered: Enrollment, home: Home, lock: HostLock) -> Proof:
    """Send one tick to the endpoint that is offered and return it once it was accepted.

    Where no agent runs it is a reading of the cards that follows the last tick; hold ``lock`` until it is spooled.
    Beside an agent, whose ticks cover this moment, it is its newest one. Where there is neither, no driver or an
    empty spool, it is a tick without cards. Raises UnavailableError if it is not accepted.
    """
    holder = lock.holder()
    if holder is None:
        lock.acquire()
        proof, raw = _read(open_host, home)
    else:
        proof, raw = _of_agent(open_host, home, holder)
    _send(offered, raw, proof.ts_ms)
    return proof


def keep(proof: Proof, spool: Spool) -> None:
    """Spool a tick that was read for the proof: other destinations lack it, and the next tick follows it."""
    if proof.to_spool is not None:
        raw, mark = proof.to_spool
        spool.append(proof.ts_ms, raw, mark)


def _read(open_host: Callable[[], Host], home: Home) -> tuple[Proof, bytes]:
    host = open_host()
    try:
        tick, mark = sample_once(host, _mark(home))
    except UnavailableError as error:
        return _without_cards(host, str(error))
    finally:
        host.cards.close()
    raw = encode(tick)
    return Proof(what=summary(tick), ts_ms=tick.ts_ms, to_spool=(raw, mark)), raw


def _of_agent(open_host: Callable[[], Host], home: Home, holder: LockHolder) -> tuple[Proof, bytes]:
    for name in sorted(destinations_of(home.spool)):
        with Spool(home.spool, destinations=None) as spool:
            oldest = spool.peek(name, 1)
            newest = spool.peek(name, 1, after=oldest[0].id + spool.depth(name) - 2) or oldest if oldest else []
        if newest:
            what = f"the newest tick of the agent that runs ({holder})"
            return Proof(what=what, ts_ms=newest[0].ts_ms), decompress(newest[0].blob)
    return _without_cards(open_host(), f"an agent runs ({holder}), and none of its ticks is here")


def _mark(home: Home) -> Mark | None:
    if not home.spool.exists():
        return None
    with Spool(home.spool, destinations=None) as spool:
        return spool.mark()


def _without_cards(host: Host, why: str) -> tuple[Proof, bytes]:
    now_ms = host.clock.wall_ms()
    tick = Tick(
        ts_ms=now_ms,
        origin=host.origin,
        cards=(),
        agent=AgentReading(started_ms=now_ms, tick_duration_seconds=0.0),  # one point, or there is nothing to accept
    )
    return Proof(what=f"1 tick of {host.origin.host} without cards ({why})", ts_ms=now_ms), encode(tick)


def _send(offered: Enrollment, raw: bytes, ts_ms: int) -> None:
    from gua.otlp.send import open_endpoint  # noqa: PLC0415 - an exporter, only for those who send

    tick = SpooledTick(id=0, ts_ms=ts_ms, raw_length=len(raw), blob=compress(raw))
    with closing(
        open_endpoint(offered.endpoint, environ=os.environ, enrollment=offered, patience_seconds=0)
    ) as endpoint:
        try:
            refused = endpoint.land([tick])
        except UnavailableError as error:
            msg = f"{error} (nothing was stored)"
            raise UnavailableError(msg) from None
        if refused or endpoint.rejected_points:
            said = f" ({endpoint.rejected_reason})" if endpoint.rejected_reason else ""
            msg = f"{endpoint.shown} does not take a tick{said}: check that it is for metrics (nothing was stored)"
            raise UnavailableError(msg)


def registered(home: Home, usual: list[str]) -> list[str]:
    """Return the spool's destinations with the endpoint among them, those of ``usual`` where the spool has none.

    The others stay: what waits for them is not lost because a host joins a fleet.
    """
    known = destinations_of(home.spool)
    return sorted({*(known or usual), ENDPOINT})
