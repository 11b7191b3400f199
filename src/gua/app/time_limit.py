"""The end of a command at its ``--timeout``: timeout(1) signals its first process, this its whole process group.

timeout(1) ends with its own child; other members of the group may ignore SIGINT and hold the cards. The watcher is a
member of the group: while it lives, the kernel cannot reuse the group's number.
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
"""Time after the timeout until SIGTERM, and until SIGKILL [s]."""
_LOOK_SECONDS: Final = 0.5
_IGNORED: Final = ("INT", "TERM", "HUP", "QUIT", "TSTP", "TTIN", "TTOU", "USR1", "USR2", "PIPE", "ALRM", "CONT")
_DEAD: Final = frozenset("ZXx")


def watch(
    timeout_seconds: float, *, term_after: float = TERM_AFTER_SECONDS, kill_after: float = KILL_AFTER_SECONDS
) -> None:
    """Make this process a group leader, and start a watcher that ends the group after the timeout.

    Call it right before this process execs timeout(1), which sends SIGINT while it lives; otherwise the watcher does.
    The watcher sends SIGTERM after ``term_after``, SIGKILL after ``kill_after`` [s]. It is daemonized, has no open
    files of this process, and ends with the group's last other member.
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
    """Signal the group at the timeout: SIGINT if the leader has ended, then SIGTERM, then SIGKILL."""
    for name in _IGNORED:
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
    handle = _detach(leader)
    has_ended = _until(due, leader, handle)
    if has_ended:
        os.killpg(leader, signal.SIGINT)
    _wait_for_end(leader, due + term_after)
    os.killpg(leader, signal.SIGTERM)
    _wait_for_end(leader, due + kill_after)
    os.killpg(leader, signal.SIGKILL)
    os._exit(0)


def _detach(leader: int) -> int | None:
    """Close inherited files and leave the working directory; return a pidfd of the leader, ``None`` if unsupported."""
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    for each in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208 - numbers, not paths
        if each > 2:
            with contextlib.suppress(OSError):
                os.close(each)
    try:
        return os.pidfd_open(leader)
    except OSError:
        return None


def _until(due: float, leader: int, handle: int | None) -> bool:
    """Wait until the timeout; return whether the leader ended before it. Exits when the group has no other member."""
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


def _wait_for_end(leader: int, at: float) -> None:
    """Wait until ``at`` (monotonic); exits when the group has no other member."""
    while (left := at - time.monotonic()) > 0:
        if not any(_others(leader)):
            os._exit(0)
        time.sleep(min(left, _LOOK_SECONDS))


def _others(group: int) -> Iterator[int]:
    """Yield the pids of the group's living members except this process."""
    own = os.getpid()
    for name in os.listdir("/proc"):  # noqa: PTH208 - as above
        if name.isdecimal() and int(name) != own:
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = Path(f"/proc/{name}/stat").read_bytes()
                state, _, its_group, *_ = stat[stat.rfind(b")") + 2 :].split(maxsplit=3)
                if int(its_group) == group and state.decode() not in _DEAD:
                    yield int(name)
