"""Rows of the views that every report reads: extents of the store, settings, totals of the window."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gua.core.parameters import BOUNDS, READ
from gua.core.view import Count, HourOfDay, Moment, StateName, View
from gua.report.kit.fields import grouped
from gua.report.model import Coverage, Extent, NamedCard, Setting, UnknownReason
from gua.report.states import STATES, States, StateTime


class OverviewRow(NamedTuple):
    """One card in the window: its expected and observed time, its time by state, why it was unknown."""

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
    gaps: Count
    effective_since_ms: Moment
    effective_until_ms: Moment
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
    reasons: tuple[UnknownReason, ...]

    @property
    def state_times(self) -> States:
        """Return the card's GPU time [ms] and ticks by state."""
        names = ((state, state.replace("-", "_")) for state in STATES)
        return {
            state: StateTime(gpu_ms=getattr(self, f"{name}_gpu_ms"), card_ticks=getattr(self, f"{name}_card_ticks"))
            for state, name in names
        }


def coverage_of(rows: Sequence[OverviewRow]) -> Coverage:
    """Return the expected, observed and unobserved GPU time of cards [ms]; sums are rounded to microseconds."""
    expected_ms, observed_ms = total_of(rows, "expected_gpu_ms"), total_of(rows, "observed_gpu_ms")
    return Coverage(
        expected_gpu_ms=expected_ms,
        observed_gpu_ms=observed_ms,
        unobserved_gpu_ms=total_of(rows, "unobserved_gpu_ms"),
        ratio=observed_ms / expected_ms if expected_ms else None,
        gaps=sum(row.gaps for row in rows),
        effective_since_ms=min((row.effective_since_ms for row in rows), default=None),
        effective_until_ms=max((row.effective_until_ms for row in rows), default=None),
    )


def states_of(rows: Sequence[OverviewRow]) -> States:
    """Return the GPU time [ms] and card ticks of cards by state."""
    of_cards = [row.state_times for row in rows]
    return {
        state: StateTime(
            gpu_ms=round(sum(one[state].gpu_ms for one in of_cards), 3),
            card_ticks=sum(one[state].card_ticks or 0 for one in of_cards),
        )
        for state in STATES
    }


def reasons_of(rows: Sequence[OverviewRow]) -> list[UnknownReason]:
    """Return the card ticks and GPU time [ms] of cards by reason of unknown."""
    reasons = grouped((one for row in rows for one in row.reasons), lambda one: one.reason)
    return [
        UnknownReason(
            reason=reason,
            card_ticks=sum(one.card_ticks for one in same),
            gpu_ms=round(sum(one.gpu_ms for one in same), 3),
        )
        for reason, same in reasons.items()
    ]


def total_of(rows: Sequence[OverviewRow], column: str) -> float:
    """Return the sum of a column of GPU time [ms], rounded to microseconds."""
    return round(float(sum(getattr(row, column) for row in rows)), 3)


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
