"""Section notices: what was sent to holders of idle GPUs, and whether they gave the GPUs back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.parameters import READ
from gua.core.view import Count, Moment, View
from gua.report.context import model_of
from gua.report.kit.fields import Cells, Hours, Seconds, Timestamp, cells, columns, grouped
from gua.report.kit.figures import HourFormat, count, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Heading, Part, Rows, more
from gua.report.kit.words import known
from gua.report.model import Report
from gua.report.section import Csv, Section
from gua.report.states import MS_PER_HOUR

FALSE_ALARM_MS: Final = 10 * 60_000
"""A holder that uses a card again within this time of a notice was not idle for good [ms]."""
WITHIN_HOURS: Final = (1, 8, 24)
_REPEATED: Final = 2
_MOST_OWNERS: Final = 10
_STARTED: Final = "started"
_FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class ChannelResult:
    """A channel of a notice (number in the step, scheme and host), its result, and why it failed."""

    channel: str
    result: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SentNotice:
    """A notice that was sent in the window, and what its holder did until the window's end; times in ms, Unix ms.

    ``kind`` and ``holder`` identify the holder, ``state`` is why it got the notice. ``idle_before_gpu_ms`` is its idle
    GPU time in the window before the notice, ``idle_after_gpu_ms`` after it. ``used_ms`` is when it used a card again,
    ``released_ms`` when it had left its cards; ``None`` if not so far, or if the cards were not observed later.
    """

    sent_ms: Timestamp[Moment]
    rule: str
    step: Count
    reminder: Count
    host: str
    kind: str
    holder: str
    state: str
    owner: str | None
    program: str | None
    pid: Count | None
    cards: Count
    since_ms: Timestamp[Moment]
    idle_ms: Seconds[Count]
    channels: tuple[ChannelResult, ...]
    idle_before_gpu_ms: Hours[float]
    idle_after_gpu_ms: Hours[float]
    used_ms: Timestamp[Moment | None]
    released_ms: Timestamp[Moment | None]

    @property
    def results(self) -> frozenset[str]:
        """Return the results of its channels, each once."""
        return frozenset(each.result for each in self.channels)

    def is_released_within(self, hours: int) -> bool:
        """Return whether the holder left its cards within so many hours of the notice."""
        return self.released_ms is not None and self.released_ms - self.sent_ms <= hours * MS_PER_HOUR

    @property
    def is_false_alarm(self) -> bool:
        """Return whether the holder used a card within ten minutes of the notice."""
        return self.used_ms is not None and self.used_ms - self.sent_ms <= FALSE_ALARM_MS


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """The notices of a rule's step, and what came of them.

    ``released_1h``, ``released_8h`` and ``released_24h`` are the holders that left their cards within that time.
    ``idle_before_gpu_ms`` and ``idle_after_gpu_ms`` are idle GPU time of the holders before and after the notices.
    ``false_alarms``: used a card again within ten minutes. ``unresolved``: unknown if sent, as the run was killed.
    """

    rule: str
    step: int
    notices: int
    failed: int
    unresolved: int
    released_1h: int
    released_8h: int
    released_24h: int
    false_alarms: int
    idle_before_gpu_ms: Hours[float]
    idle_after_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticedOwner:
    """An owner with several notices in the window: how many holders, and their idle GPU time after the notices."""

    owner: str | None
    notices: int
    holders: int
    idle_after_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Notices:
    """Every notice of the window, the results of each step, and the owners with at least two, the most first."""

    steps: tuple[StepResult, ...]
    repeated: tuple[NoticedOwner, ...]
    sent: tuple[SentNotice, ...]


NOTICES: Final = View("notices", SentNotice, READ)


def notices_of(rows: Sequence[SentNotice]) -> Notices:
    """Return the section of the notices of a window."""
    steps = grouped(rows, lambda row: (row.rule, row.step))
    repeated = [
        NoticedOwner(
            owner=owner,
            notices=len(notices),
            holders=len({(row.kind, row.holder) for row in notices}),
            idle_after_gpu_ms=_idle_after_ms(notices),
        )
        for owner, notices in grouped(rows, lambda row: row.owner).items()
        if len(notices) >= _REPEATED and owner is not None
    ]
    repeated.sort(key=lambda one: (-one.notices, -one.idle_after_gpu_ms, one.owner or ""))
    return Notices(
        steps=tuple(_step(*key, notices) for key, notices in sorted(steps.items())),
        repeated=tuple(repeated),
        sent=tuple(rows),
    )


def _step(rule: str, step: int, rows: Sequence[SentNotice]) -> StepResult:
    released = {f"released_{hours}h": sum(row.is_released_within(hours) for row in rows) for hours in WITHIN_HOURS}
    firsts = {(row.kind, row.holder): row for row in reversed(rows)}
    return StepResult(
        rule=rule,
        step=step,
        notices=len(rows),
        failed=sum(row.results == {_FAILED} for row in rows),
        unresolved=sum(_STARTED in row.results for row in rows),
        false_alarms=sum(row.is_false_alarm for row in rows),
        idle_before_gpu_ms=sum(row.idle_before_gpu_ms for row in firsts.values()),
        idle_after_gpu_ms=_idle_after_ms(rows),
        **released,
    )


def _idle_after_ms(rows: Sequence[SentNotice]) -> float:
    """Return the idle GPU time after the first notice of each holder [ms]: later notices do not count it again."""
    firsts = {(row.kind, row.holder): row for row in reversed(rows)}
    return sum(row.idle_after_gpu_ms for row in firsts.values())


def _text(report: Report, style: Style, hours: HourFormat) -> Iterator[Part]:
    """Yield the notices by rule and step, and the owners with several."""
    found = report[Notices]
    if not found.sent:
        yield "No notice was sent in this window. gua notify sends them by a policy: see docs/notices.md."
        return
    holders = len({(row.kind, row.holder) for row in found.sent})
    yield (
        f"{plural(len(found.sent), 'notice')} to {plural(holders, 'holder')} of idle GPUs. Released: it left its GPUs "
        "within that time of the notice. Idle GPU-hours: in this window, before and after the first notice. False "
        "alarm: it used a GPU within 10 minutes."
    )
    rows = Rows(found.steps)
    rows.add("rule", lambda one: style.name(one.rule, _RULE_WIDTH), left=True, shortest=8, is_head=True)
    rows.add("step", lambda one: str(one.step), is_head=True)
    rows.add("notices", lambda one: count(one.notices))
    rows.add("failed", lambda one: count(one.failed), leaves=2)
    rows.add("result unknown", lambda one: count(one.unresolved), leaves=3)
    rows.add("released 1 h", lambda one: count(one.released_1h))
    rows.add("8 h", lambda one: count(one.released_8h))
    rows.add("24 h", lambda one: count(one.released_24h))
    rows.add("false alarms", lambda one: count(one.false_alarms), leaves=1)
    rows.add("idle GPU-h before", lambda one: hours.of(one.idle_before_gpu_ms))
    rows.add("after", lambda one: hours.of(one.idle_after_gpu_ms))
    yield rows.table()
    if found.repeated:
        yield Heading("Owners with several notices")
        owners = Rows(found.repeated, _MOST_OWNERS * style.times)
        owners.add("owner", lambda one: known(one.owner, style), left=True, shortest=10, is_head=True)
        owners.add("notices", lambda one: count(one.notices))
        owners.add("holders", lambda one: count(one.holders))
        owners.add("idle GPU-h after", lambda one: hours.of(one.idle_after_gpu_ms))
        yield owners.table()
        yield from more(owners.rest, "owner", "--json has all of them")


_RULE_WIDTH: Final = 20


def _rows(found: Notices, _report: Report) -> Iterator[Cells]:
    for row in found.sent:
        yield {**cells(row), "channels": "; ".join(f"{each.channel}: {each.result}" for each in row.channels)}


NOTICES_SECTION = Section(
    name="notices",
    title="Notices to holders of idle GPUs",
    model=Notices,
    collect=model_of(NOTICES, lambda rows, _window: notices_of(rows)),
    text=_text,
    csv=Csv((*columns(SentNotice), "channels"), _rows),
)
