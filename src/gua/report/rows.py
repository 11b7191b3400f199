"""Rows of the views that every report reads: extents of the store, settings, totals of the window."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gua.core.parameters import BOUNDS, READ
from gua.core.view import Count, HourOfDay, Moment, StateName, View
from gua.report.kit.fields import filled, grouped
from gua.report.model import Coverage, Extent, NamedCard, Setting, UnknownReason
from gua.report.states import STATES, States, StateTime


class StateTotal(NamedTuple):
    """A state's total: card ticks, GPU time [ms], share of observed time (0 to 1), equivalent GPUs."""

    state: StateName
    card_ticks: Count
    gpu_ms: float
    share: float | None
    equivalent_gpus: float | None


class OverviewRow(NamedTuple):
    """One card in the window, or the total (``is_total``); only the total has ``states`` and ``reasons``."""

    is_total: bool
    host: str
    gpu: str
    gpu_index: Count | None
    name: str | None
    model: str | None
    mig: str | None
    parent: str | None
    observed_ms: Count
    elapsed_ms: int
    expected_gpu_ms: float
    observed_gpu_ms: float
    unobserved_gpu_ms: float
    ratio: float | None
    gaps: Count
    effective_since_ms: Moment | None
    effective_until_ms: Moment | None
    active_gpu_ms: float
    idle_held_gpu_ms: float
    truly_idle_gpu_ms: float
    unknown_gpu_ms: float
    active_sampled_gpu_ms: float
    active_idle_gpu_ms: float
    active_listed_gpu_ms: float
    without_process_gpu_ms: float
    recovery_action: Count | None
    recovery_ms: Count | None
    recovery_at_ms: Moment | None
    active_card_ticks: Count
    idle_held_card_ticks: Count
    truly_idle_card_ticks: Count
    unknown_card_ticks: Count
    states: tuple[StateTotal, ...]
    reasons: tuple[UnknownReason, ...]

    @property
    def coverage(self) -> Coverage:
        """Return the expected, observed and unobserved GPU time [ms]."""
        return filled(Coverage, self)

    @property
    def state_times(self) -> States:
        """Return a card's GPU time [ms] and ticks by state."""
        names = ((state, state.replace("-", "_")) for state in STATES)
        return {
            state: StateTime(gpu_ms=getattr(self, f"{name}_gpu_ms"), card_ticks=getattr(self, f"{name}_card_ticks"))
            for state, name in names
        }


_ADDED: Final = ("_gpu_ms", "_card_ticks", "gaps")


def with_one_total(rows: Sequence[OverviewRow]) -> list[OverviewRow]:
    """Return the rows of batches of hosts with one total, computed as in the view ``gua_report.overview``."""
    totals = [row for row in rows if row.is_total]
    if len(totals) <= 1:
        return list(rows)
    names = [name for name in OverviewRow._fields if name.endswith(_ADDED)]
    added: dict[str, Any] = {name: round(sum(getattr(row, name) for row in totals), 3) for name in names}
    since_ms = min((row.effective_since_ms for row in totals if row.effective_since_ms), default=0)
    until_ms = max((row.effective_until_ms for row in totals if row.effective_until_ms), default=0)
    reasons = grouped((one for row in totals for one in row.reasons), lambda one: one.reason)
    total = totals[0]._replace(
        **added,
        effective_since_ms=since_ms or None,
        effective_until_ms=until_ms or None,
        reasons=tuple(
            UnknownReason(
                reason=reason,
                card_ticks=sum(one.card_ticks for one in same),
                gpu_ms=round(sum(one.gpu_ms for one in same), 3),
            )
            for reason, same in reasons.items()
        ),
    )
    observed_ms, expected_ms = total.observed_gpu_ms, total.expected_gpu_ms
    gpus = expected_ms / (until_ms - since_ms) if until_ms else 0
    states = [
        StateTotal(state, time.card_ticks or 0, time.gpu_ms, share, None if share is None else share * gpus)
        for state, time in total.state_times.items()
        for share in [time.gpu_ms / observed_ms if observed_ms else None]
    ]
    ratio = observed_ms / expected_ms if expected_ms else None
    return [*(row for row in rows if not row.is_total), total._replace(ratio=ratio, states=tuple(states))]


class TimeOfDayRow(NamedTuple):
    """A state's GPU time [ms] in an hour of the day, in the window's time zone."""

    hour: HourOfDay
    state: StateName
    gpu_ms: float
    card_ticks: Count


EXTENT: Final = View("extent", Extent, ("hosts",))
RULES: Final = View("rules", Setting)
NAMED_CARDS: Final = View("named_cards", NamedCard, BOUNDS)
OVERVIEW: Final = View("overview", OverviewRow, READ)
TIME_OF_DAY: Final = View("time_of_day", TimeOfDayRow, (*READ, "timezone"))
