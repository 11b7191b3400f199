"""What ends a command whose ``--timeout`` is over: timeout(1) its first process, this its whole process group.

timeout(1) ends with the command that it started; others of its group may ignore SIGINT and keep the cards. A process of
the same group watches over that: as long as it is a member, the group's number cannot become strangers'.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

TERM_AFTER_SECONDS: Final = 20.0
KILL_AFTER_SECONDS: Final = 30.0
"""How long a command whose time is over has to end, until it is asked by SIGTERM, and until it is killed."""
_LOOK_SECONDS: Final = 0.5
_IGNORED: Final = ("INT", "TERM", "HUP", "QUIT", "TSTP", "TTIN", "TTOU", "USR1", "USR2", "PIPE", "ALRM", "CONT")
_DEAD: Final = frozenset("ZXx")


def watch(
    timeout_seconds: float, *, term_after: float = TERM_AFTER_SECONDS, kill_after: float = KILL_AFTER_SECONDS
) -> None:
    """Give this process a group of its own, and start what ends that group once the time is over.

    To be called right before this process becomes timeout(1), which sends SIGINT while it lives; else the watcher does.
    Whoever is there after ``term_after`` gets SIGTERM, after ``kill_after`` SIGKILL. The watcher is nobody's child, has
    no open files of this process, and ends with the group's last other member.
    """
    leader = os.getpid()
    if os.getpgrp() != leader:
        os.setpgid(0, 0)
    due = time.monotonic() + timeout_seconds
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            _watch(leader, due, term_after, kill_after)
    finally:
        os._exit(0)


def _watch(leader: int, due: float, term_after: float, kill_after: float) -> NoReturn:
    for name in _IGNORED:
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
    handle = _alone(leader)
    has_ended = _until(due, leader, handle)
    if has_ended:
        os.killpg(leader, signal.SIGINT)
    _until_nobody_is_there(leader, due + term_after)
    os.killpg(leader, signal.SIGTERM)
    _until_nobody_is_there(leader, due + kill_after)
    os.killpg(leader, signal.SIGKILL)
    os._exit(0)


def _alone(leader: int) -> int | None:
    """Let go of all that this process has in common with others; return a handle on the leader, where there are any."""
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    for each in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208 - numbers, no paths
        if each > 2:
            with contextlib.suppress(OSError):
                os.close(each)
    try:
        return os.pidfd_open(leader)
    except OSError:
        return None


def _until(due: float, leader: int, handle: int | None) -> bool:
    """Wait until the time is over; return whether the leader had ended before. Ends this process with the group."""
    if handle is not None:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        while (left := due - time.monotonic()) > 0:
            if poll.poll(min(left, 3600.0) * 1000):
                break
        else:
            return False
    while True:
        others = set(_others(leader))
        if not others:
            os._exit(0)
        left = due - time.monotonic()
        if left <= 0:
            return leader not in others
        time.sleep(min(left, 2 * _LOOK_SECONDS))


def _until_nobody_is_there(leader: int, at: float) -> None:
    """Wait until then; ends this process with the group's last other member."""
    while (left := at - time.monotonic()) > 0:
        if not any(_others(leader)):
            os._exit(0)
        time.sleep(min(left, _LOOK_SECONDS))


def _others(group: int) -> Iterator[int]:
    """Yield the pids of the group's members that have not ended, but this process."""
    own = os.getpid()
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdecimal() and int(name) != own:
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = Path(f"/proc/{name}/stat").read_bytes()
                state, _, its_group, *_ = stat[stat.rfind(b")") + 2 :].split(maxsplit=3)
                if int(its_group) == group and state.decode() not in _DEAD:
                    yield int(name)
