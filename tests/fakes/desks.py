"""A desk that gives cards out, its requesters, and commands that it gives cards to as ``gua run`` starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gua.procfs.reader import ProcFs
from gua.reservations.desk import Desk
from gua.reservations.model import Candidate, CardRequest, Granted, Kind, Surroundings, Wish

CARDS = tuple(Candidate(uuid=f"GPU-{index}", index=index, model="H100") for index in range(4))
_CLIENT = """
import array, os, socket, sys
s = socket.socket(fileno=int(sys.argv[1]))
_, extra, _, _ = s.recvmsg(1, 64)
os.set_inheritable(array.array("i", extra[0][2])[0], True)
s.close()
os.execvp("sh", ["sh", "-c", sys.argv[2]])
"""


def start_ticks(pid: int) -> int | None:
    stat = ProcFs().stat(pid)
    return None if stat is None else stat.start_ticks


def cards_of_now() -> Sequence[Candidate]:
    return CARDS


def opened(
    folder: Path,
    probe: Callable[[], Sequence[Candidate]] = cards_of_now,
    *,
    idle_release_ms: int | None = None,
    **settings: object,
) -> Desk:
    surroundings = Surroundings(probe=probe, start_ticks=start_ticks, **settings)  # type: ignore[arg-type]
    made = Desk(folder, surroundings, idle_release_ms=idle_release_ms)
    made.start()
    return made


def asked(  # a test names what it is about
    count: int = 1,
    *,
    cards: tuple[str, ...] = (),
    uid: int = 1000,
    kind: Kind = Kind.MANUAL,
    pid: int | None = None,
    **more: object,
) -> CardRequest:
    return CardRequest(
        uid=uid,
        owner=f"user{uid}",
        kind=kind,
        wish=Wish(cards=cards) if cards else Wish(count=count),
        pid=pid,
        start_ticks=None if pid is None else start_ticks(pid),
        **more,  # type: ignore[arg-type]
    )


def got(desk: Desk, request: CardRequest) -> Granted:
    desk.enter(request)
    granted = desk.attempt(request.place)
    assert isinstance(granted, Granted), granted
    return granted


def keep_places(desk: Desk, *requests: CardRequest) -> None:
    """Let them wait in this order, so that their places outlast the agent."""
    for request in requests:
        desk.enter(request)
        desk.keep_place(request)


def killed_while_waiting(folder: Path, *requests: CardRequest, **settings: object) -> None:
    """Leave what an agent leaves that gave all cards to one and was killed while these waited."""
    first = opened(folder, **settings)  # type: ignore[arg-type]
    got(first, asked(4))
    keep_places(first, *requests)
    first.close()


def run(desk: Desk, command: str, *, uid: int = 1000, **wish: object) -> tuple[subprocess.Popen[bytes], Granted]:
    """Start a command as `gua run` does: the process sends its request, gets the descriptor, and executes in place."""
    here, there = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", _CLIENT, str(there.fileno()), command], pass_fds=[there.fileno()])
    there.close()
    granted = got(desk, asked(kind=Kind.RUN, uid=uid, pid=process.pid, **wish))  # type: ignore[arg-type]
    assert granted.lifeline is not None
    socket.send_fds(here, [b"x"], [granted.lifeline])
    os.close(granted.lifeline)
    here.close()
    return process, granted


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def until(fact: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)
