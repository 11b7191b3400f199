"""The client of reservation requests: send the request, wait in the queue, and exec the command of ``gua run``."""

import contextlib
import errno
import fcntl
import os
import random
import resource
import secrets
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from gua.app.local_agent import first_response
from gua.core.errors import GuaError, TransientError, UsageError
from gua.core.moments import parse_duration_ms
from gua.core.plaintext import safe
from gua.core.untrusted import object_in
from gua.core.workloads import label_problem
from gua.local_socket.client import BusyError, Conversation, NoAnswerError, NobodyError, NotAllowedError

TERM_AFTER_SECONDS: Final = 20.0
KILL_AFTER_SECONDS: Final = 30.0
"""Time after the timeout until SIGTERM, and until SIGKILL [s]."""
_LOOK_SECONDS: Final = 0.5
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
    for name in ("INT", "TERM", "HUP", "QUIT", "TSTP", "TTIN", "TTOU", "USR1", "USR2", "PIPE", "ALRM", "CONT"):
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


T = TypeVar("T")
LOST_SECONDS: Final = 60.0
"""How long a restarting agent retains a place in its queue [s]."""
_PAUSE_SECONDS: Final = 0.5
_BUSY_SECONDS: Final = 60.0
LABELS: Final = ("kind", "model")
"""Keys of the labels that a reservation may declare."""
_SHELL: Final = "/bin/sh"
_NOT_FOUND: Final = 127
_USUAL_DESCRIPTORS: Final = 1024
_NOT_EXECUTABLE: Final = 126


class NoAgentError(GuaError):
    """No agent is reachable on this host; EX_UNAVAILABLE of sysexits.h."""

    exit_code = 69


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """A granted reservation as the agent sent it, and the descriptor that holds it open."""

    reservation: Mapping[str, Any]
    lifeline: int | None

    @property
    def gpus(self) -> str:
        """The card indices, as in ``0,3``."""
        return ",".join(str(index) for index in self.reservation["gpus"])


def query_agent(tried: Sequence[Path], request: Mapping[str, object]) -> dict[str, Any]:
    """Return the agent's one-line response to a request. Raises NoAgentError, or the error that the agent sent."""

    def one_line(path: Path) -> dict[str, Any]:
        with Conversation(path, request) as conversation:
            return conversation.next(seconds=5)

    return _first_response(tried, one_line)


def _first_response(tried: Sequence[Path], converse: Callable[[Path], T]) -> T:
    """Return the response of the first reachable agent; retry while it is busy, at most 60 s."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return first_response(tried, converse)
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(random.uniform(0.05, 0.5))  # noqa: S311 - jitter: clients that were refused together retry apart
        except (NobodyError, NoAnswerError, NotAllowedError) as error:
            msg = f"{error}: cards are reserved through the agent; whoever runs this host starts it with gua daemon"
            raise NoAgentError(msg) from None


def reserve(tried: Sequence[Path], request: Mapping[str, object], *, progress: Callable[[str], None]) -> Grant:
    """Return the grant once the agent makes it; ``progress`` receives progress lines while the request waits.

    If the agent ends or restarts meanwhile, retry with the next one for the same place, for :data:`LOST_SECONDS`.
    Raises NoAgentError, or the error that the agent sent: NotNowError when the wait is over.
    """
    waiting = _Waiting({**request, "place": secrets.token_hex(8)}, began_at=time.monotonic())
    while True:
        try:
            return _first_response(tried, lambda path: _conversation(path, waiting, progress))
        except (NoAgentError, TransientError) as error:
            if waiting.last_contact_at is None or isinstance(error, BusyError):
                raise
            if time.monotonic() - waiting.last_contact_at > LOST_SECONDS:
                raise NoAgentError(f"the agent went away while you waited: {error}") from None
            time.sleep(_PAUSE_SECONDS)


@dataclass(slots=True)
class _Waiting:
    """A request with its place in the queue; ``last_contact_at`` is when an agent last had it (monotonic)."""

    original: dict[str, object]
    began_at: float
    last_contact_at: float | None = None

    def request(self) -> dict[str, object]:
        """Return the request to send, its wait reduced by the time passed [ms]."""
        wait_ms = self.original.get("wait_ms")
        if self.last_contact_at is None or not isinstance(wait_ms, int):
            return self.original
        passed_ms = round((time.monotonic() - self.began_at) * 1000)
        return {**self.original, "wait_ms": max(0, wait_ms - passed_ms)}


def _conversation(path: Path, waiting: _Waiting, progress: Callable[[str], None]) -> Grant:
    """Request a reservation from one agent, print its progress lines, and return the grant."""
    with Conversation(path, {"ask": "reserve", **waiting.request()}) as conversation:
        waiting.last_contact_at = time.monotonic() if waiting.last_contact_at is None else waiting.last_contact_at
        has_place = False
        while True:
            try:
                line = conversation.next()
            finally:
                if has_place:  # the agent was connected until now, even if it sent nothing new
                    waiting.last_contact_at = time.monotonic()
            if isinstance(granted := line.get("granted"), dict):
                grant = Grant(reservation=granted, lifeline=next(iter(conversation.descriptors), None))
                if grant.lifeline is None:
                    conversation.send({"got": True})
                    conversation.next(seconds=5)  # the confirmation; without it the agent cancelled the grant
                return grant
            if isinstance(state := line.get("waiting"), dict):
                waiting.last_contact_at = time.monotonic()
                has_place = True
                progress(waiting_text(state))


def waiting_text(waiting: Mapping[str, Any]) -> str:
    """Return one line on a waiting request: its position, the missing cards and who holds them."""
    ahead = waiting.get("ahead") or 0
    if ahead:
        return f"waiting: {ahead} {'request is' if ahead == 1 else 'requests are'} before yours"
    trouble = waiting.get("trouble")
    if isinstance(trouble, str):
        return safe(f"waiting: you are first; {trouble}", 400)
    missing = waiting.get("missing")
    reasons, idle = object_in(waiting.get("reasons")), object_in(waiting.get("idle_since_ms"))
    unused = {gpu: f", not used since {clock(since)}" for gpu, since in idle.items() if isinstance(since, int)}
    who = "; ".join(f"GPU {gpu} {why}{unused.get(gpu, '')}" for gpu, why in reasons.items())
    end = waiting.get("next_end_ms")
    at = f"; the next reservation ends at {clock(end)}" if isinstance(end, int) else ""
    return safe(f"waiting: you are first, {missing} more needed: {who}{at}", 400)


def clock(unix_ms: int) -> str:
    """Return a time as ``HH:MM`` local time, with the date if it is not today."""
    moment, today = time.localtime(unix_ms / 1000), time.localtime()
    return time.strftime("%H:%M" if moment[:3] == today[:3] else "%Y-%m-%d %H:%M", moment)


def card_choice(count: int | None, gpus: str | None) -> dict[str, object]:
    """Return the request's choice of cards, a count or names. Raises UsageError if both disagree."""
    if gpus is None:
        return {"count": 1 if count is None else count}
    names = [name.strip() for name in gpus.split(",") if name.strip()]
    if not names:
        raise UsageError("--gpu-ids names no card: give indices or UUIDs, as in --gpu-ids 0,3")
    if count not in {None, 1, len(names)}:
        raise UsageError(f"--gpus {count} and --gpu-ids {gpus} do not agree: give one of both")
    return {"cards": names}


def wait_limit_ms(wait: str | None, *, nonblock: bool) -> int | None:
    """Return how long to wait [ms], ``None`` for no limit. Raises UsageError."""
    if nonblock and wait is not None:
        raise UsageError("--wait and --nonblock exclude each other: give one of them")
    return 0 if nonblock else None if wait is None else parse_duration_ms(wait)


def parse_labels(texts: Sequence[str]) -> dict[str, str]:
    """Return the labels of texts like ``model=qwen-32b`` by key. Raises UsageError for an invalid or repeated one."""
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key not in LABELS:
            raise UsageError(f"--label {text!r}: give kind=… or model=…, as in --label model=qwen-32b")
        if key in labels:
            raise UsageError(f"--label {key} is given twice: give it once")
        problem = label_problem(value)
        if problem is not None:
            raise UsageError(f"--label {key}: the {key} {problem}")
        labels[key] = value
    return labels


def environment(grant: Grant, environ: Mapping[str, str], *, by_uuid: bool) -> dict[str, str]:
    """Return the environment of a command that has these cards.

    It sets CUDA_DEVICE_ORDER, as CUDA numbers cards by speed by default. MIG instances are named by UUID: they have no
    index of their own.
    """
    reservation = grant.reservation
    uuids = [str(card) for card in reservation["cards"]]
    named = by_uuid or any(uuid.startswith("MIG-") for uuid in uuids)
    return {
        **environ,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(uuids) if named else grant.gpus,
        "NVIDIA_VISIBLE_DEVICES": ",".join(uuids),
        "GUA_RESERVATION": str(reservation["id"]),
    }


def become(command: Sequence[str], grant: Grant, environ: Mapping[str, str], *, timeout_ms: int | None) -> NoReturn:
    """Replace this process by the command, which takes over terminal, signals and exit code.

    With a timeout it runs under timeout(1), and its process group ends at the timeout. Raises CannotStartError if it
    cannot be started; the reservation then ends with this process.
    """
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        if "/" in command[0] and Path(command[0]).exists():
            msg = f"{command[0]} cannot be executed: chmod +x it, or name what runs it"
            raise CannotStartError(msg, _NOT_EXECUTABLE)
        msg = f"{command[0]}: no such command"
        raise CannotStartError(msg, _NOT_FOUND)
    arguments = [program, *command[1:]]
    if timeout_ms is not None:
        timer = shutil.which("timeout")
        if timer is None:
            msg = "--timeout needs the command timeout (coreutils) on PATH: install it, or leave --timeout out"
            raise GuaError(msg)
        grace = f"--kill-after={KILL_AFTER_SECONDS:g}s"
        arguments = [timer, "--signal=INT", grace, f"{timeout_ms / 1000}", *arguments]
    if grant.lifeline is not None:
        # Scripts reuse small descriptor numbers (exec 9>lock), which would close the lock.
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        usual = _USUAL_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _USUAL_DESCRIPTORS)
        os.set_inheritable(fcntl.fcntl(grant.lifeline, fcntl.F_DUPFD, max(3, usual - 24)), True)
    if timeout_ms is not None:
        watch(timeout_ms / 1000)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec inherits that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(arguments[0], arguments if timeout_ms is not None else [*command], environ)  # noqa: S606 - user's
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without #!: run it with the shell, as shells do
            os.execve(_SHELL, [_SHELL, *arguments], environ)  # noqa: S606 - as above
        msg = f"cannot run {command[0]} ({error.strerror})"
        raise CannotStartError(msg, _NOT_EXECUTABLE) from None


class CannotStartError(GuaError):
    """The command cannot be started; exit codes as in a shell: 127 not found, 126 not executable."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def described(reservation: Mapping[str, Any]) -> str:
    """Return a reservation in one line: cards, end and id."""
    gpus = ",".join(str(index) for index in reservation.get("gpus") or ())
    until = reservation.get("until_ms")
    end = f" until {clock(until)}" if isinstance(until, int) else ""
    return safe(f"GPU {gpus}{end} ({reservation.get('id')})", 200)
