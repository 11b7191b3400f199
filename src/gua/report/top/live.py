"""``gua top`` on a terminal: polls for new ticks, renders the screen, and handles keys.

:class:`Screen` uses plain ANSI (ECMA-48) and termios: alternate screen, hidden cursor, input without echo. It redraws
without flicker, and restores the terminal on every exit.
"""

import contextlib
import math
import os
import re
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from datetime import datetime
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn, Self

from gua.core.errors import GuaError
from gua.core.moments import to_ms
from gua.core.plaintext import safe
from gua.core.ports import ViewReader
from gua.core.rules import ProcessState, State
from gua.core.untrusted import count_in, list_in, number_in, object_in, objects_in, text_in
from gua.core.view import Moment, View
from gua.core.words import AllocationStatus, ProcessType, Use
from gua.report.allocations import newest_sources
from gua.report.kit.fields import filled, grouped, of_card
from gua.report.kit.figures import span
from gua.report.kit.style import Style
from gua.report.questions import ask, in_thread
from gua.report.rows import EXTENT
from gua.report.status.text import WORST_FIRST, owner_of, rank
from gua.report.top.model import Snapshot, TopAllocation, TopCard, TopHolder, TopView, aged, press
from gua.report.top.text import render_top
from gua.report.uses import UseName
from gua.report.window import choose_extents

_NOBODY_WORKS = {State.IDLE_HELD, State.TRULY_IDLE}


def snapshot_of_agent(status: Mapping[str, Any], *, where: str) -> Snapshot:
    """Return the snapshot of a status object "gua.status/1"; invalid values become unknown."""
    agent = object_in(status.get("agent"))
    host = text_in(agent.get("host")) or "this host"
    interval_seconds = number_in(agent.get("interval_seconds"))
    interval_ms = None if interval_seconds is None else round(interval_seconds * 1000)
    now_ms = time.time_ns() // 1_000_000
    objects = objects_in(status.get("cards"))
    cards = tuple(_card(one, host, interval_ms, now_ms) for one in objects)
    conditions = [one for one in map(text_in, list_in(status.get("conditions"))) if one]
    if status.get("stalled") is True:
        conditions.insert(0, "the agent is stalled: its last tick is older than two intervals; see its log")
    for source in objects_in(status.get("allocation_sources")):
        if source.get("ok") is not True:
            name, reason = (text_in(source.get(key)) or "?" for key in ("source", "reason"))
            conditions.append(f"allocations by {name} cannot be read: {reason}")
    return aged(
        Snapshot(
            source="agent",
            where=where,
            taken_ms=now_ms,
            cards=cards,
            holders=tuple(
                holder for card, one in zip(cards, objects, strict=True) for holder in _holders(card, one, now_ms)
            ),
            conditions=tuple(conditions),
        ),
        0,
    )


def _card(one: Mapping[str, Any], host: str, interval_ms: int | None, now_ms: int) -> TopCard:
    state = text_in(one.get("state"))
    age_seconds = number_in(one.get("sample_age_seconds")) or 0.0
    allocation = text_in(one.get("allocation"))
    return TopCard(
        host=host,
        gpu=text_in(one.get("uuid")) or "?",
        state=state if state in set(State) else State.UNKNOWN,
        last_state=state if state in set(State) else State.UNKNOWN,
        state_ms=_milliseconds(one.get("state_seconds")),
        state_is_lower_bound=one.get("state_is_lower_bound") is True,
        interval_ms=interval_ms,
        now_ms=now_ms,
        age_ms=round(age_seconds * 1000),
        without_process=None if state != State.ACTIVE else number_in(one.get("without_process_seconds")) is not None,
        allocation=allocation if allocation in set(AllocationStatus) else None,
        allocations=tuple(_allocations(one)),
        free_ms=_milliseconds(one.get("free_seconds")),
        free_is_lower_bound=one.get("free_is_lower_bound") is True,
        **_known(one, text_in, "name", "mig", "reason"),
        **_known(one, count_in, "index", "held_lower_bytes", "memory_used_bytes", "memory_limit_bytes"),
        **_known(one, number_in, "utilization", "power_watts", "temperature_celsius"),
    )


def _known(one: Mapping[str, Any], check: Callable[[object], object], *names: str) -> dict[str, Any]:
    """Return the named values that pass ``check``, ``None`` for the others."""
    return {name: check(one.get(name)) for name in names}


def _allocations(one: Mapping[str, Any]) -> Iterator[TopAllocation]:
    for each in sorted(objects_in(one.get("allocations")), key=rank):
        use = text_in(each.get("use"))
        yield TopAllocation(
            source=text_in(each.get("source")) or "?",
            id=text_in(each.get("id")) or "?",
            owner=owner_of(each),
            job_name=text_in(each.get("job_name")),
            use=use if use in set(Use) else Use.UNKNOWN,
            use_ms=_milliseconds(each.get("use_seconds")),
            use_is_lower_bound=each.get("use_is_lower_bound") is True,
            until_ms=_moment(each.get("until")),
        )


def _holders(card: TopCard, one: Mapping[str, Any], now_ms: int) -> Iterator[TopHolder]:
    for holder in objects_in(one.get("holders")):
        if holder.get("type") == ProcessType.IGNORED:
            continue
        state = text_in(holder.get("state"))
        created_ms = _moment(holder.get("since"))
        idle_ms = None
        if state == ProcessState.IDLE and card.state in _NOBODY_WORKS and card.state_ms is not None:
            # While the whole card was idle, each of its processes was, since its start.
            age_ms = math.inf if created_ms is None else max(now_ms - card.age_ms - created_ms, 0)
            idle_ms = round(min(card.state_ms, age_ms))
        yield TopHolder(
            host=card.host,
            gpu=card.gpu,
            index=card.index,
            card_name=card.name,
            created_ms=created_ms,
            program=text_in(holder.get("comm")),
            state=state if state in set(ProcessState) else ProcessState.UNKNOWN,
            idle_ms=idle_ms,
            idle_is_lower_bound=idle_ms is not None,
            utilization=number_in(holder.get("utilization")),
            **_known(holder, count_in, "pid", "memory_bytes"),
            **_known(holder, text_in, "owner", "type", "container_id", "pod_uid", "slurm_job_id", "systemd_unit"),
        )


def _milliseconds(value: object) -> int | None:
    seconds = number_in(value)
    return None if seconds is None else round(seconds * 1000)


def _moment(value: object) -> int | None:
    try:
        return to_ms(datetime.fromisoformat(value)) if isinstance(value, str) else None
    except (ValueError, TypeError):  # invalid, or without an offset
        return None


class CurrentAllocationRow(NamedTuple):
    """An allocation of a card at its newest tick, which ends at ``last_ms`` (Unix ms)."""

    host: str
    gpu: str
    source: str
    allocation_id: str
    owner: str | None
    job_name: str | None
    last_ms: Moment
    use: UseName
    use_since_ms: Moment
    use_since_is_lower_bound: bool
    until_ms: Moment | None


CURRENT_ALLOCATIONS: Final = View("current_allocations", CurrentAllocationRow, ("hosts",))
TOP_CARDS: Final = View("top_cards", TopCard, ("hosts",))
TOP_HOLDERS: Final = View("top_holders", TopHolder, ("hosts",))


def snapshot_of_store(reader: ViewReader, *, where: str, hosts: Sequence[str] = ()) -> Snapshot:
    """Return the snapshot of a store now, of the named hosts or of all.

    Raises UsageError for an unknown host, UnavailableError for an empty store.
    """
    parameters = {"hosts": list(hosts)}
    cards, holders = ask(reader, TOP_CARDS, parameters), ask(reader, TOP_HOLDERS, parameters)
    found = cards()
    now_ms = found[0].now_ms if found else 0
    has_source = any(row.allocation is not None for row in found)
    allocations = grouped(ask(reader, CURRENT_ALLOCATIONS, parameters)() if has_source else (), of_card)
    known = {row.host for row in found}
    if not found or set(hosts) - known:
        choose_extents(EXTENT.rows(reader, {"hosts": []}), hosts)
    return Snapshot(
        source="store",
        where=where,
        taken_ms=now_ms,
        cards=tuple(replace(card, allocations=_current(allocations.get(of_card(card), ()))) for card in found),
        holders=tuple(holders()),
        conditions=tuple(
            f"allocations by {one.source} on {one.host} cannot be read: {one.reason or '?'}"
            for one in (newest_sources(reader, now_ms, hosts) if has_source else ())
            if not one.ok
        ),
    )


def _current(rows: Iterable[CurrentAllocationRow]) -> tuple[TopAllocation, ...]:
    """Return the allocations of a card, the worst use first."""
    worst_first = sorted(rows, key=lambda row: WORST_FIRST.index(Use(row.use)))
    return tuple(filled(TopAllocation, row, use_ms=row.last_ms - row.use_since_ms) for row in worst_first)


Query = Callable[[], Snapshot]
_REDRAW_SECONDS: Final = 5.0
_ARRIVAL_SECONDS: Final = 0.5
"""Delay of a query after the next tick's time [s]: the tick must be read and delivered first."""
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[0m\x1b[?25h\x1b[?1049l"
_END_SECONDS: Final = 10.0
_NAMED: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b": "escape",
}
# A sequence of at most 16 characters, escape with one character, or a single character.
_KEY: Final = re.compile(r"\x1b[\[O](?:[^@-~]{0,13}[@-~]|[^@-~]{0,14})|\x1b[^\x1b]|.", re.DOTALL)
_SIGNALLED: Final = 128


@dataclass(frozen=True, slots=True)
class _Latest:
    """The newest snapshot, its arrival time (monotonic), and the failure of the query after it."""

    snapshot: Snapshot
    at: float
    failure: str | None = None


def watch(query: Query, first: Snapshot, *, view: TopView, interval_seconds: float, style: Callable[[], Style]) -> None:
    """Show the snapshot and its successors until the user quits or the terminal closes.

    A query runs in a thread, so that keys work while it is slow. ``style`` is called for each frame, as the terminal
    may have been resized.
    """
    running: Future[Snapshot] | None = None
    latest = _Latest(first, time.monotonic())
    queried_at = latest.at
    try:
        with Screen() as screen:
            while True:
                if running is not None and running.done():
                    latest, running = _newest(running, latest), None
                seconds = _due(latest, queried_at, interval_seconds)
                if seconds <= 0 and not view.paused and running is None:
                    queried_at, running = time.monotonic(), in_thread(query)
                    running.add_done_callback(lambda _: screen.wake())
                screen.draw(_drawn(latest, view, style()))
                is_waiting = running is not None or view.paused
                pressed = screen.keys(_REDRAW_SECONDS if is_waiting else min(max(seconds, 0.05), _REDRAW_SECONDS))
                after = None if pressed is None else _pressed(view, pressed)
                if after is None:
                    return
                view = after
    except KeyboardInterrupt:  # Ctrl-C quits
        return
    finally:
        if running is not None:  # exit must not interrupt an engine in this process
            wait([running], _END_SECONDS)


def _newest(ended: Future[Snapshot], before: _Latest) -> _Latest:
    """Return the result of a query, or the one before it with the failure. Raises its error if that is unexpected."""
    try:
        return _Latest(ended.result(), time.monotonic())
    except GuaError as error:
        return replace(before, failure=str(error))


def _pressed(view: TopView, keys: Iterable[str]) -> TopView | None:
    """Return the view after the keys, ``None`` if one of them quits."""
    for key in keys:
        after = press(view, key)
        if after is None:
            return None
        view = after
    return view


def _due(latest: _Latest, queried_at: float, interval_seconds: float) -> float:
    """Return the seconds until the next query: after the interval, and not before the next tick can arrive."""
    seconds = interval_seconds
    due_ms = latest.snapshot.due_ms
    if latest.failure is None and due_ms is not None:
        seconds = max(seconds, due_ms / 1000 + _ARRIVAL_SECONDS - (queried_at - latest.at))
    return queried_at + seconds - time.monotonic()


def _drawn(latest: _Latest, view: TopView, style: Style) -> list[str]:
    elapsed_seconds = time.monotonic() - latest.at
    note = None
    if latest.failure is not None:
        note = f"no news since {span(elapsed_seconds * 1000)}: {safe(latest.failure)}"
    height = max(shutil.get_terminal_size((80, 24)).lines, 1)
    return render_top(aged(latest.snapshot, round(elapsed_seconds * 1000)), view, style, height=height, note=note)


class Screen:
    """Context manager that takes over the terminal of stdin and stdout.

    SIGTERM and SIGHUP raise SystemExit (128 + their number). Ctrl-Z restores the terminal until the program continues.
    KeyboardInterrupt is left to the caller.
    """

    def __init__(self) -> None:
        self._in = sys.stdin.fileno()
        self._saved: list[Any] = []
        self._handlers: dict[signal.Signals, Any] = {}
        self._drawn: list[str] = []
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        self._saved = termios.tcgetattr(self._in)
        for number, handler in (
            (signal.SIGTERM, self._end),
            (signal.SIGHUP, self._end),
            (signal.SIGTSTP, self._stop),
            (signal.SIGWINCH, self._resized),
        ):
            self._handlers[number] = signal.signal(number, handler)
        try:
            self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        waker, self._waker = self._waker, -1  # later wakes must not write to a reused descriptor
        os.close(self._woken)
        os.close(waker)

    def wake(self) -> None:
        """Make :meth:`keys` return at once; any thread may call it."""
        with contextlib.suppress(OSError):  # full: it wakes anyway; closed: the screen has ended
            os.write(self._waker, b".")

    def keys(self, seconds: float) -> list[str] | None:
        """Wait up to ``seconds`` for input and return the pressed keys; ``None`` if the terminal is closed."""
        waiting = select.poll()  # unlike select, poll supports descriptors above 1023
        for descriptor in (self._in, self._woken):
            waiting.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll(max(seconds, 0.0) * 1000)}
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self._in not in ready:
            return []
        try:
            read = os.read(self._in, 4096)
        except OSError:
            return None
        return [*keys_of(read.decode("utf-8", "ignore"))] if read else None

    def draw(self, lines: Sequence[str]) -> None:
        """Show the lines from the top; writes nothing if they are unchanged."""
        if [*lines] == self._drawn:
            return
        self._drawn = [*lines]
        sys.stdout.write("\x1b[H" + "\r\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
        sys.stdout.flush()

    def _take(self) -> None:
        tty.setcbreak(self._in, termios.TCSANOW)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()
        self._drawn = []

    def _give_back(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._in, termios.TCSADRAIN, self._saved)

    def _end(self, number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(_SIGNALLED + number)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)  # continues here after SIGCONT
        self._take()
        self.wake()

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self._drawn = []
        self.wake()


def keys_of(text: str) -> Iterator[str]:
    """Yield the keys in terminal input: characters, and names for escape sequences.

    An unknown sequence is one key ``unknown``.
    """
    for key in _KEY.findall(text):
        yield _NAMED.get(key, key if len(key) == 1 else "unknown")
