"""The asking end of commands that reserve cards: the request, the wait, and the command of ``gua run`` in its place."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import resource
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from gua.app.local_agent import first_answer
from gua.app.time_limit import KILL_AFTER_SECONDS, watch
from gua.core.durations import parse_duration_ms
from gua.core.errors import GuaError, TransientError, UsageError
from gua.core.plaintext import safe
from gua.core.workloads import label_problem
from gua.local_socket.client import BusyError, Conversation, NoAnswerError, NobodyError, NotAllowedError

T = TypeVar("T")
LOST_SECONDS: Final = 60.0
"""How long an agent that restarts keeps a place in its queue."""
_PAUSE_SECONDS: Final = 0.5
_BUSY_SECONDS: Final = 60.0
LABELS: Final = ("kind", "model")
"""What a reservation may be declared to be for."""
_SHELL: Final = "/bin/sh"
_NOT_FOUND: Final = 127
_USUAL_DESCRIPTORS: Final = 1024
_NOT_EXECUTABLE: Final = 126


class NoAgentError(GuaError):
    """No agent answers here; EX_UNAVAILABLE of sysexits.h."""

    exit_code = 69


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """What was granted: the reservation as the agent tells it, and the descriptor that keeps it."""

    reservation: Mapping[str, Any]
    lifeline: int | None

    @property
    def gpus(self) -> str:
        """The cards by index, as in ``0,3``."""
        return ",".join(str(index) for index in self.reservation["gpus"])


def ask(tried: Sequence[Path], request: Mapping[str, object]) -> dict[str, Any]:
    """Return the agent's one line to a request. Raises NoAgentError, and the error that the agent tells."""

    def one_line(path: Path) -> dict[str, Any]:
        with Conversation(path, request) as conversation:
            return conversation.next(seconds=5)

    return _asked(tried, one_line)


def _asked(tried: Sequence[Path], converse: Callable[[Path], T]) -> T:
    """Return what the first agent says; asks again while it is busy with others."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return first_answer(tried, converse)
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(random.uniform(0.05, 0.5))  # noqa: S311 - so that many who were refused at once do not return at once
        except (NobodyError, NoAnswerError, NotAllowedError) as error:
            msg = f"{error}: cards are reserved through the agent; whoever runs this host starts it with gua daemon"
            raise NoAgentError(msg) from None


def reserve(tried: Sequence[Path], request: Mapping[str, object], *, say: Callable[[str], None]) -> Grant:
    """Return what the agent grants, once it does; ``say`` is told where the request stands while it waits.

    Where the agent ends or restarts meanwhile, the next one is asked for the same place, for :data:`LOST_SECONDS`.
    Raises NoAgentError, and the error that the agent tells: NotNowError where the wait is over.
    """
    waiting = _Waiting({**request, "place": secrets.token_hex(8)}, began_at=time.monotonic())
    while True:
        try:
            return _asked(tried, lambda path: _conversation(path, waiting, say))
        except (NoAgentError, TransientError) as error:
            if waiting.heard_at is None or isinstance(error, BusyError):
                raise
            if time.monotonic() - waiting.heard_at > LOST_SECONDS:
                raise NoAgentError(f"the agent went away while you waited: {error}") from None
            time.sleep(_PAUSE_SECONDS)


@dataclass(slots=True)
class _Waiting:
    """A request with its place in the queue, and when an agent was last there that had taken it (monotonic)."""

    asked: dict[str, object]
    began_at: float
    heard_at: float | None = None

    def request(self) -> dict[str, object]:
        """Return what an agent is asked: its wait is what is left of the whole."""
        wait_ms = self.asked.get("wait_ms")
        if self.heard_at is None or not isinstance(wait_ms, int):
            return self.asked
        passed_ms = round((time.monotonic() - self.began_at) * 1000)
        return {**self.asked, "wait_ms": max(0, wait_ms - passed_ms)}


def _conversation(path: Path, waiting: _Waiting, say: Callable[[str], None]) -> Grant:
    with Conversation(path, {"ask": "reserve", **waiting.request()}) as conversation:
        waiting.heard_at = time.monotonic() if waiting.heard_at is None else waiting.heard_at
        is_told = False
        while True:
            try:
                line = conversation.next()
            finally:
                if is_told:  # it was there until now, however long it had nothing new to say
                    waiting.heard_at = time.monotonic()
            if isinstance(granted := line.get("granted"), dict):
                grant = Grant(reservation=granted, lifeline=next(iter(conversation.descriptors), None))
                if grant.lifeline is None:
                    conversation.say({"got": True})
                    conversation.next(seconds=5)  # kept: else it was taken back meanwhile
                return grant
            if isinstance(words := line.get("waiting"), dict):
                waiting.heard_at = time.monotonic()
                is_told = True
                say(waiting_text(words))


def waiting_text(waiting: Mapping[str, Any]) -> str:
    """Return in one line where a request stands: its position, what is missing, and who has it."""
    ahead = waiting.get("ahead") or 0
    if ahead:
        return f"waiting: {ahead} {'request is' if ahead == 1 else 'requests are'} before yours"
    trouble = waiting.get("trouble")
    if isinstance(trouble, str):
        return safe(f"waiting: you are first; {trouble}", 400)
    missing = waiting.get("missing")
    told = (waiting.get(name) for name in ("reasons", "idle_since_ms"))
    reasons, idle = (each if isinstance(each, dict) else {} for each in told)
    unused = {gpu: f", not used since {clock(since)}" for gpu, since in idle.items() if isinstance(since, int)}
    who = "; ".join(f"GPU {gpu} {why}{unused.get(gpu, '')}" for gpu, why in reasons.items())
    end = waiting.get("next_end_ms")
    at = f"; the next reservation ends at {clock(end)}" if isinstance(end, int) else ""
    return safe(f"waiting: you are first, {missing} more needed: {who}{at}", 400)


def clock(unix_ms: int) -> str:
    """Return a moment as people of this host say it, with the day where it is not today."""
    moment, today = time.localtime(unix_ms / 1000), time.localtime()
    return time.strftime("%H:%M" if moment[:3] == today[:3] else "%Y-%m-%d %H:%M", moment)


def wanted(count: int | None, gpus: str | None) -> dict[str, object]:
    """Return the part of a request that says which cards. Raises UsageError where count and names do not agree."""
    if gpus is None:
        return {"count": 1 if count is None else count}
    names = [name.strip() for name in gpus.split(",") if name.strip()]
    if not names:
        raise UsageError("--gpu-ids names no card: give indices or UUIDs, as in --gpu-ids 0,3")
    if count not in {None, 1, len(names)}:
        raise UsageError(f"--gpus {count} and --gpu-ids {gpus} do not agree: give one of both")
    return {"cards": names}


def patience(wait: str | None, *, nonblock: bool) -> int | None:
    """Return how long to wait in ms, ``None`` for as long as it takes. Raises UsageError."""
    if nonblock and wait is not None:
        raise UsageError("--wait and --nonblock do not agree: give one of both")
    return 0 if nonblock else None if wait is None else parse_duration_ms(wait)


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """Return labels by key, of texts like ``model=qwen-32b``. Raises UsageError for one that is none."""
    labels: dict[str, str] = {}
    for text in given:
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

    CUDA counts cards by speed unless CUDA_DEVICE_ORDER says otherwise; MIG instances have no index of their own.
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
    """Become the command: from here on its terminal, signals and exit code are its own.

    With a timeout it runs under timeout(1), and its process group ends when that is over. Raises CannotStartError where
    it cannot be started; the reservation ends with this process then.
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
        # Scripts use small numbers as they like (exec 9>lock), and would close it unknowingly.
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        usual = _USUAL_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _USUAL_DESCRIPTORS)
        os.set_inheritable(fcntl.fcntl(grant.lifeline, fcntl.F_DUPFD, max(3, usual - 24)), True)
    if timeout_ms is not None:
        watch(timeout_ms / 1000)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(arguments[0], arguments if timeout_ms is not None else [*command], environ)  # noqa: S606 - what is asked for
    except OSError as error:
        if error.errno == errno.ENOEXEC:  # a script without a first line: the shell runs it, as shells do
            os.execve(_SHELL, [_SHELL, *arguments], environ)  # noqa: S606 - as above
        msg = f"cannot run {command[0]} ({error.strerror})"
        raise CannotStartError(msg, _NOT_EXECUTABLE) from None


class CannotStartError(GuaError):
    """The command cannot be started; exit codes as the shell has them: 127 not found, 126 not executable."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def described(reservation: Mapping[str, Any]) -> str:
    """Return a reservation in one line."""
    gpus = ",".join(str(index) for index in reservation.get("gpus") or ())
    until = reservation.get("until_ms")
    end = f" until {clock(until)}" if isinstance(until, int) else ""
    return safe(f"GPU {gpus}{end} ({reservation.get('id')})", 200)
