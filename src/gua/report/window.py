"""Which hosts and which time a report is about: defaults that fit the data, and errors that say what there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from gua.core.durations import parse_moment_ms, to_rfc3339
from gua.core.errors import UnavailableError, UsageError
from gua.report.model import Extent, Window
from gua.report.sections.usage.model import BY_HOST, BY_MODEL, USAGE_BY

DEFAULT_LENGTH_MS: Final = 7 * 24 * 3_600_000
_NAMED_HOSTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportRequest:
    """What the user asked for, as written: moments are ISO 8601 or durations, no host means all of them.

    ``where`` are labels (``team=vision``), ``by`` what to add cards or processes up by besides hosts. ``from_ticks``
    counts everything anew from the ticks, and takes nothing from counted hours. ``sections`` are those wanted,
    ``None`` the default ones, ``if_cheap`` those of them that nobody named, which are left out where they would take
    too much; ``what_if_limits_ms`` the limits of what-if, none for the usual ones.
    """

    since: str | None = None
    until: str | None = None
    hosts: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    timezone: str = "UTC"
    from_ticks: bool = False
    sections: frozenset[str] | None = None
    if_cheap: frozenset[str] = frozenset()
    what_if_limits_ms: tuple[int, ...] = ()
    now_ms: int

    @property
    def groups_by(self) -> tuple[str, ...]:
        """Return what cards are added up by: ``host``, ``model``, ``cluster`` or a label's key."""
        return tuple(one for one in self.by if one not in USAGE_BY or one in {BY_HOST, BY_MODEL})

    @property
    def usage_by(self) -> tuple[str, ...]:
        """Return what processes are added up by, each once: of the keys of a party."""
        return tuple(dict.fromkeys(one for one in self.by if one in USAGE_BY))


def zone(name: str) -> tzinfo:
    """Return a time zone by its IANA name. Raises UsageError."""
    try:
        found = ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # a folder of the database is an OSError
        msg = f"unknown time zone {name!r}: give an IANA name, as in UTC, Europe/Berlin or America/New_York"
        raise UsageError(msg) from None
    if name.startswith("right/"):
        msg = f"time zone {name!r} counts leap seconds, which no tick does: leave right/ out"
        raise UsageError(msg)
    return found


def choose_extents(extents: Sequence[Extent], hosts: Sequence[str]) -> tuple[Extent, ...]:
    """Return the extents of the hosts asked for.

    Raises UnavailableError if the store is empty and UsageError for a host that it does not know.
    """
    if not extents:
        msg = "the store holds no ticks yet: fill it with gua daemon --once or gua import, or look at gua demo"
        raise UnavailableError(msg)
    known = sorted({extent.host for extent in extents})
    for host in hosts:
        if host not in known:
            msg = f"no host {host!r} in this store: it knows {names(known)}"
            raise UsageError(msg)
    return tuple(extent for extent in extents if not hosts or extent.host in hosts)


def choose_window(extents: Sequence[Extent], request: ReportRequest) -> Window:
    """Return the window asked for; by default the last 7 days (design of the report, "window").

    They end now if an agent samples any of the hosts, else at the newest tick, as recordings may be old.
    Durations count back from the same moment. Raises UsageError.
    """
    live = any(extent.source == "agent" for extent in extents)
    anchor_ms = request.now_ms if live else max(extent.last_ms for extent in extents)
    local = zone(request.timezone)

    def moment(text: str) -> int:
        is_now = text.strip().lower() == "now"
        return parse_moment_ms(text, now_ms=request.now_ms if is_now else anchor_ms, timezone=local)

    until_ms = anchor_ms if request.until is None else moment(request.until)
    since_ms = until_ms - DEFAULT_LENGTH_MS if request.since is None else moment(request.since)
    if since_ms >= until_ms:
        msg = (
            f"the window from {to_rfc3339(since_ms)} to {to_rfc3339(until_ms)} is empty: --since must be before --until"
        )
        raise UsageError(msg)
    return Window(since_ms=since_ms, until_ms=until_ms, timezone=request.timezone)


def no_data(window: Window, extents: Sequence[Extent]) -> UnavailableError:
    """Return the error of a window without ticks: it names the time that the store does cover."""
    first_ms = min(extent.first_ms for extent in extents)
    last_ms = max(extent.last_ms for extent in extents)
    return UnavailableError(
        f"no data from {to_rfc3339(window.since_ms)} to {to_rfc3339(window.until_ms)}: the ticks of "
        f"{names(sorted({extent.host for extent in extents}))} reach from {to_rfc3339(first_ms)} to "
        f"{to_rfc3339(last_ms)}, choose within that with --since and --until"
    )


def names(hosts: Iterable[str]) -> str:
    """Return a list of hosts that stays short however many there are."""
    every = list(hosts)
    rest = len(every) - _NAMED_HOSTS
    return ", ".join(every[:_NAMED_HOSTS]) + (f" and {rest} more" if rest > 0 else "")
