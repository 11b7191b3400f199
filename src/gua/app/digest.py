"""Digests: what each owner, team or namespace had of GPUs in a window, from one report, sent once to each."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gua.app.held_now import KUBERNETES
from gua.core.plaintext import few, safe
from gua.core.words import Use
from gua.notices import messages
from gua.notices.messages import Message
from gua.report.costs import Cost, OneCost, added
from gua.report.kit.amounts import Amounts
from gua.report.kit.basis import at, gib, length, size
from gua.report.kit.fields import Hours, Seconds, grouped
from gua.report.kit.figures import HourFormat, amount, percent
from gua.report.kit.words import NOT_KNOWN, short_name
from gua.report.model import Report
from gua.report.sections.allocation import Allocated, AllocatedHours
from gua.report.sections.now_rows import AllocatedCard, Holder, Now, OtherHolder
from gua.report.sections.right_size import ProgramOnCard, RightSize
from gua.report.sections.usage import Usage
from gua.report.states import ACTIVE, IDLE_HELD, MS_PER_HOUR, UNKNOWN

SECTIONS: Final = frozenset({"usage", "allocation", "now", "right-size"})
WHAT_IF_LIMIT_MS: Final = MS_PER_HOUR
USES: Final = {
    "used": (ACTIVE, Use.USED),
    "idle-held": (IDLE_HELD, Use.HELD),
    "empty": (None, Use.EMPTY),
    "unknown": (UNKNOWN, Use.UNKNOWN),
}
"""GPU time of a digest: the state of a card with an owner's processes, and the use of a namespace's allocation."""
COUNTED: Final = ("used", "idle-held", "empty")
_MOST_PARTS: Final = 3
_MOST_ROWS: Final = 10
_NAME_WIDTH: Final = 40


class By(StrEnum):
    """Whose GPU time a digest has."""

    OWNER = "owner"
    TEAM = "team"
    NAMESPACE = "namespace"


@dataclass(frozen=True, kw_only=True, slots=True)
class Time:
    """GPU time [ms] and its cost."""

    gpu_ms: Hours[float]
    cost: OneCost


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnPart:
    """A program's longest idle streak; or a process or allocation on a card (``where``) at the window's end.

    ``for_ms`` is how long it was without use, ``None`` if it was used or that is unknown.
    """

    owner: str | None
    what: str
    for_ms: Seconds[int | None]
    state: str = "idle"
    where: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """What one owner, namespace or team had of GPUs; ``name`` is ``None`` for unknown owners.

    ``times`` are by use (:data:`USES`). ``streaks`` and ``holds`` begin with the longest without use. ``members`` are
    the owners of a team.
    """

    name: str | None
    times: Mapping[str, Time]
    streaks: tuple[OwnPart, ...]
    holds: tuple[OwnPart, ...]
    suggestion: str | None
    members: tuple[str, ...] = ()

    def gpu_ms(self, *uses: str) -> float:
        """Return the GPU time of some uses, by default of all but unknown."""
        return sum(self.times[use].gpu_ms for use in uses or COUNTED)

    def cost(self, *uses: str) -> Cost | None:
        """Return the cost of some uses, by default of all but unknown; ``None`` without prices."""
        return added(self.times[use].cost for use in uses or COUNTED)


class Digester:
    """Makes digests of the owners of a report, or of its namespaces.

    Owners have what processes and allocations of users say, namespaces what allocations by Kubernetes say: the user
    inside a container may have the name of somebody else, and so may a namespace.
    """

    def __init__(self, report: Report, by: By) -> None:
        self._is_namespace = by is By.NAMESPACE
        now, right_size = report[Now], report.get(RightSize)
        of_processes = not self._is_namespace

        def is_meant(one: Allocated | AllocatedCard) -> bool:
            return (one.source == KUBERNETES) == self._is_namespace

        def by_owner(rows: Iterable[Any]) -> dict[str | None, list[Any]]:
            return grouped(rows, lambda one: one.owner)

        self._usage = by_owner(report[Usage].owners if of_processes else ())
        self._workloads = by_owner(right_size.workloads if right_size and of_processes else ())
        self._allocated = by_owner(filter(is_meant, report[AllocatedHours].owners))
        processes: list[Holder | OtherHolder] = [*now.holders, *now.others]
        holds = [_of_process(one) for one in processes if of_processes and one.pod_uid is None]
        self._holds = by_owner([*holds, *map(_of_allocation, filter(is_meant, now.allocations))])

    def names(self) -> list[str | None]:
        """Return the owners or namespaces, the unknown one last."""
        every = {*self._usage, *self._allocated, *self._holds}
        return sorted(every, key=lambda name: (name is None, name or ""))

    def digest(self, name: str | None, owners: Collection[str | None], *, is_team: bool = False) -> Digest:
        """Return the digest of one owner or namespace, or of several together: its sentences then name owners."""

        def of(rows: Mapping[str | None, list[Any]]) -> list[Any]:
            return [one for owner in owners for one in rows.get(owner, ())]

        usage, allocated = of(self._usage), of(self._allocated)
        times = {}
        for what, (state, use) in USES.items():
            rows = [(one.states[state].gpu_ms, (one.costs or {}).get(state)) for one in usage if state]
            if self._is_namespace or use is Use.EMPTY:
                rows += [(one.uses.get(use, 0), (one.costs or {}).get(use)) for one in allocated]
            times[what] = Time(gpu_ms=sum(gpu_ms for gpu_ms, _ in rows), cost=added(cost for _, cost in rows))
        streaks = [
            OwnPart(owner=one.owner, what=named(one.program), for_ms=one.longest_idle_ms)
            for one in usage
            if one.longest_idle_ms
        ]
        fitting = _fitting([one for one in of(self._workloads) if one.owner is not None], is_team=is_team)
        longest = sorted(streaks, key=_longest_first)[:_MOST_PARTS]
        return Digest(
            name=name,
            times=times,
            streaks=tuple(longest),
            holds=tuple(sorted(of(self._holds), key=_longest_first)),
            suggestion=fitting or (_earlier(longest[0], is_team=is_team) if longest else None),
            members=tuple(owner or NOT_KNOWN for owner in owners) if is_team else (),
        )


def _of_process(one: Holder | OtherHolder) -> OwnPart:
    what = "memory without a process" if one.pid is None else f"{named(one.program)} (pid {one.pid})"
    state = "active or unknown" if one.idle_ms is None else "idle"
    return OwnPart(owner=one.owner, what=what, for_ms=one.idle_ms, state=state, where=_where(one))


def _of_allocation(one: AllocatedCard) -> OwnPart:
    what = named(f"{one.source} {one.allocation_id}" if one.job_name is None else one.job_name)
    unused_ms = one.in_use_ms if one.use in {Use.EMPTY, Use.HELD} else None
    return OwnPart(owner=one.owner, what=what, for_ms=unused_ms, state=f"allocation {one.use}", where=_where(one))


def _where(one: Holder | OtherHolder | AllocatedCard) -> str:
    return f"{named(one.host)} GPU {named(one.gpu) if one.index is None else one.index}"


def _longest_first(one: OwnPart) -> tuple[int, str, str, str]:
    return -(one.for_ms or 0), one.where or "", one.what, one.owner or ""


def _fitting(workloads: Sequence[ProgramOnCard], *, is_team: bool) -> str | None:
    """Return a sentence on the program with the most GPU time all of whose runs fit less; ``None`` without any."""
    groups = grouped(workloads, lambda one: (one.owner, one.program, one.model, one.is_instance)).values()
    for group in sorted(groups, key=lambda group: -sum(one.gpu_ms for one in group)):
        largest = max(group, key=lambda one: one.peak_bytes or 0)
        less = {
            f"a MIG slice of {largest.slice} of the GPU": all(one.fits_slice for one in group),
            "half of its memory": all(one.fits_half for one in group),
            f"a {named(short_name(largest.smaller_model or ''))}": all(one.fits_smaller for one in group),
        }
        if True in less.values():
            enough = next(name for name, is_enough in less.items() if is_enough)
            gpu_hours = amount(sum(one.gpu_ms for one in group) / MS_PER_HOUR)
            return (
                f"{_whose(named(largest.program), largest.owner, is_team=is_team)} had at most "
                f"{gib(largest.peak_bytes)} of {gib(largest.usable_bytes)} GiB at the ticks of {gpu_hours} GPU-hours "
                f"on {named(short_name(largest.model or ''))}: {enough} would have been enough memory"
            )
    return None


def _earlier(streak: OwnPart, *, is_team: bool) -> str | None:
    """Return a sentence on what an idle limit would have given back of a streak; ``None`` if it is not longer."""
    freed_ms = (streak.for_ms or 0) - WHAT_IF_LIMIT_MS
    whose = _whose(streak.what, streak.owner, is_team=is_team)
    limit = messages.span(WHAT_IF_LIMIT_MS)
    sentence = (
        f"if it ends after {limit} without use, {whose} frees its part of a GPU {messages.span(freed_ms)} earlier"
    )
    return sentence if freed_ms > 0 else None


def _whose(what: str, owner: str | None, *, is_team: bool) -> str:
    return f"{what} of {named(owner)}" if is_team else what


def named(name: str | None, width: int = _NAME_WIDTH) -> str:
    """Return a name that is safe to print, cut to a width, or that it is unknown."""
    return NOT_KNOWN if name is None else safe(name, width) or '""'


def unobserved_share(report: Report) -> float | None:
    """Return the share of the expected time of all cards that was not observed, ``None`` if none was expected."""
    coverage = report.coverage
    return coverage.unobserved_gpu_ms / coverage.expected_gpu_ms if coverage.expected_gpu_ms else None


def basis_of(report: Report) -> str:
    """Return what the numbers rest on: window, thresholds, and the time that was not observed."""
    window, settings = report.window, {setting.key: setting.value for setting in report.rules}
    ratio = settings["held_memory_ratio"]
    memory = size(settings["held_memory_bytes"]) + (f" or {ratio * 100:.4g} % of the card" if ratio else "")
    return (
        f"Basis: {at(window.since_ms, window)} to {at(window.until_ms, window)} {window.timezone} "
        f"({length(window.until_ms - window.since_ms)}). Used: utilization of "
        f"{settings['active_utilization'] * 100:.4g} % or more; idle-held: less, and more than {memory} of memory "
        f"held; empty: allocated, without a process. Not observed, so counted nowhere: "
        f"{percent(unobserved_share(report))} % of the time of all cards."
    )


def message_of(digest: Digest, whose: str, report: Report, last: Sequence[str]) -> Message:
    """Return the message to one owner or namespace: a row for each use of GPU time, then lines."""
    hours, money = HourFormat.fitting(digest.gpu_ms()), _money(digest)
    shown = [use for use in USES if use in COUNTED or digest.gpu_ms(use)]
    rows = [(use, hours.of(digest.gpu_ms(use)), *money.cells(digest.times[use].cost)) for use in shown]
    titles = ("GPU time", "GPU-hours", *money.titles("", safe))
    lines = [*_lines(digest, report, hours, last, is_team=False)]
    return messages.table_message(_headline(digest, whose, report, hours), titles, rows, lines)


def message_of_several(
    digest: Digest, whose: str, report: Report, last: Sequence[str], *, each: Iterable[Digest], most: int = _MOST_ROWS
) -> Message:
    """Return the message about several: a row for each of the first ``most``, the others together, and all."""
    ordered = sorted(each, key=lambda one: (-one.gpu_ms("idle-held", "empty"), one.name or ""))
    groups = [(named(one.name), [one]) for one in ordered[:most]]
    groups += [(f"{len(ordered) - most} more", ordered[most:])] if len(ordered) > most else []
    hours, money = HourFormat.fitting(digest.gpu_ms()), _money(digest)
    columns = [hours.parts([sum(one.gpu_ms(use) for one in of) for _, of in groups]) for use in COUNTED]
    costs = money.rows([added(one.cost("idle-held", "empty") for one in of) for _, of in groups])
    rows = [(name, *of, *cost) for (name, _), *of, cost in zip(groups, *columns, costs, strict=True)]
    whole = [hours.of(digest.gpu_ms(use)) for use in COUNTED]
    rows.append(("all", *whole, *money.cells(digest.cost("idle-held", "empty"))))
    titles = ("GPU-hours of", *COUNTED, *money.titles("not used", safe))
    lines = [*_lines(digest, report, hours, last, is_team=True)]
    return messages.table_message(_headline(digest, whose, report, hours), titles, rows, lines)


def _money(digest: Digest) -> Amounts:
    """Return the columns of amounts, only for the currencies of the digest's own time."""
    cost = digest.cost()
    return Amounts(tuple(cost.amounts) if cost else ())


def _headline(digest: Digest, whose: str, report: Report, hours: HourFormat) -> str:
    window = report.window
    days = " to ".join(at(unix_ms, window)[:10] for unix_ms in (window.since_ms, window.until_ms))
    used, idle_held, empty = (hours.of(digest.gpu_ms(use)) for use in COUNTED)
    return f"{whose}, {days}: {used} GPU-hours used, {idle_held} idle-held, {empty} empty"


def _lines(digest: Digest, report: Report, hours: HourFormat, last: Sequence[str], *, is_team: bool) -> Iterator[str]:
    def text(one: OwnPart) -> str:
        unused = "" if one.for_ms is None else f" for {messages.span(one.for_ms)}"
        place = f" on {one.where} ({one.state}{unused})" if one.where else unused
        return f"{_whose(one.what, one.owner, is_team=is_team)}{place}"

    cost = digest.cost()
    if digest.streaks:
        yield f"Longest without use: {few([*map(text, digest.streaks)])}."
    if digest.holds:
        yield f"Held at the end: {few([*map(text, digest.holds)])}."
    if digest.suggestion:
        yield f"Suggestion: {digest.suggestion}."
    if cost and cost.amounts and cost.unpriced_gpu_ms:
        yield f"{hours.of(cost.unpriced_gpu_ms)} GPU-hours of these have no price."
    yield basis_of(report)
    yield from last
