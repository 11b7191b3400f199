"""The hosts and the window of a report: defaults that fit the data, and errors that list the valid choices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gua.core.errors import NothingRecordedError, UnavailableError, UsageError
from gua.core.moments import last_week_ms, local_day, month_ms, parse_moment_ms, to_rfc3339, zone
from gua.core.plaintext import few
from gua.report.filters import parse_conditions
from gua.report.model import Extent, Window

DEFAULT_LENGTH_MS: Final = 7 * 24 * 3_600_000
THIS_MONTH: Final = "this"
BY_OWNER: Final = "owner"
BY_PROGRAM: Final = "program"
BY_CONTAINER: Final = "container"
BY_POD: Final = "pod"
BY_JOB: Final = "job"
BY_KIND: Final = "kind"
BY_SERVED_MODEL: Final = "served-model"
BY_HOST: Final = "host"
BY_MODEL: Final = "model"
USAGE_BY: Final = (BY_OWNER, BY_PROGRAM, BY_CONTAINER, BY_POD, BY_JOB, BY_KIND, BY_SERVED_MODEL, BY_HOST, BY_MODEL)
"""The keys that processes can be added up by."""
_NAMED_HOSTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportRequest:
    """A report's options as written: moments in the syntax of ``gua.core.moments``; no host means all.

    ``month`` (as in ``2026-11``, or ``this``) or ``last_week`` replace ``since`` and ``until``. ``timezone`` is that of
    the report, ``clock`` that of moments without an offset. ``where`` are labels (``team=vision``), ``by`` the keys of
    groups or processes. ``from_ticks`` ignores hourly rollups. ``sections`` are the requested ones, ``None`` the
    default ones; those of ``if_cheap`` are left out above their size limit. ``what_if_limits_ms`` are the idle limits
    of what-if [ms], empty for the default ones.
    """

    since: str | None = None
    until: str | None = None
    month: str | None = None
    last_week: bool = False
    hosts: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    timezone: str = "UTC"
    clock: str | None = None
    from_ticks: bool = False
    sections: frozenset[str] | None = None
    if_cheap: frozenset[str] = frozenset()
    what_if_limits_ms: tuple[int, ...] = ()
    now_ms: int

    @property
    def groups_by(self) -> tuple[str, ...]:
        """Return the keys that cards are added up by: ``host``, ``model``, ``cluster`` or a label's key."""
        return tuple(one for one in self.by if one not in USAGE_BY or one in {BY_HOST, BY_MODEL})

    @property
    def usage_by(self) -> tuple[str, ...]:
        """Return the keys that processes are added up by, each once."""
        return tuple(dict.fromkeys(one for one in self.by if one in USAGE_BY))


def choose_extents(extents: Sequence[Extent], hosts: Sequence[str]) -> tuple[Extent, ...]:
    """Return the extents of the requested hosts, of all hosts if none are named.

    Raises NothingRecordedError if the store is empty and UsageError for a host that it does not know.
    """
    if not extents:
        msg = "the store holds no ticks yet: record into it with gua daemon, or fill it with gua import"
        raise NothingRecordedError(msg)
    known = sorted({extent.host for extent in extents})
    for host in hosts:
        if host not in known:
            raise UsageError(f"no host {host!r} in this store: it knows {names(known)}")
    return tuple(extent for extent in extents if not hosts or extent.host in hosts)


def choose_window(extents: Sequence[Extent], request: ReportRequest) -> Window:
    """Return the requested window; by default the last 7 days.

    It ends now if an agent samples any of the hosts, else at the newest tick, because recordings may be old. Durations
    count back from the same moment. A later ``--until`` is cut to now, or to the newest tick if that is later. Raises
    UsageError.
    """
    live = any(extent.source == "agent" for extent in extents)
    anchor_ms = request.now_ms if live else max(extent.last_ms for extent in extents)
    zone(request.timezone)
    since_ms, until_ms = _calendar_bounds(request) or _bounds(request, anchor_ms)
    if since_ms >= until_ms == anchor_ms and not live:
        raise UsageError(
            f"nothing is recorded after {to_rfc3339(anchor_ms)}, and the window begins at {to_rfc3339(since_ms)}: "
            "give an earlier --since, or leave it out for the last 7 days that were recorded"
        )
    if since_ms >= until_ms:
        raise UsageError(
            f"the window from {to_rfc3339(since_ms)} to {to_rfc3339(until_ms)} is empty: --since must be before --until"
            f"{'' if until_ms < max(request.now_ms, anchor_ms) else ', which is now at the latest'}"
        )
    return Window(since_ms=since_ms, until_ms=until_ms, timezone=request.timezone)


def check_request(request: ReportRequest) -> None:
    """Raise UsageError for an invalid time zone, moment or label, without a store."""
    zone(request.timezone)
    parse_conditions(request.clusters, request.where)
    if _calendar_bounds(request) is None:
        _bounds(request, request.now_ms)


def _bounds(request: ReportRequest, anchor_ms: int) -> tuple[int, int]:
    clock = zone(request.clock or request.timezone)

    def moment(text: str) -> int:
        return parse_moment_ms(text, now_ms=request.now_ms, newest_ms=anchor_ms, timezone=clock)

    until_ms = anchor_ms if request.until is None else min(moment(request.until), max(request.now_ms, anchor_ms))
    return until_ms - DEFAULT_LENGTH_MS if request.since is None else moment(request.since), until_ms


def _calendar_bounds(request: ReportRequest) -> tuple[int, int] | None:
    """Return the bounds of a requested month or week, cut to now; ``None`` if none was. Raises UsageError."""
    if request.month is None and not request.last_week:
        return None
    if (request.since or request.until) or (request.month and request.last_week):
        raise UsageError("--month, --last-week and --since exclude each other: give one of them")
    clock = zone(request.clock or request.timezone)
    if request.month is None:
        return last_week_ms(now_ms=request.now_ms, timezone=clock)
    month = f"{local_day(request.now_ms, clock):%Y-%m}" if request.month == THIS_MONTH else request.month
    since_ms, until_ms = month_ms(month, timezone=clock)
    if since_ms >= request.now_ms:
        raise UsageError(f"--month {month} has not begun: give one that has")
    return since_ms, min(until_ms, request.now_ms)


def no_data(window: Window, extents: Sequence[Extent]) -> UnavailableError:
    """Return the error for a window without ticks; it names the time that the store covers."""
    first_ms = min(extent.first_ms for extent in extents)
    last_ms = max(extent.last_ms for extent in extents)
    return UnavailableError(
        f"no data from {to_rfc3339(window.since_ms)} to {to_rfc3339(window.until_ms)}: the ticks of "
        f"{names(sorted({extent.host for extent in extents}))} reach from {to_rfc3339(first_ms)} to "
        f"{to_rfc3339(last_ms)}, choose within that with --since and --until"
    )


def names(hosts: Iterable[str]) -> str:
    """Return a list of at most five hosts, and the number of the others."""
    return few([*hosts], _NAMED_HOSTS)
