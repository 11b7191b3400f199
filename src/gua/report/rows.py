"""Rows of the views that every report reads: extents of the store, settings, totals of the window."""

from typing import Final, NamedTuple

from gua.core.parameters import BOUNDS, READ
from gua.core.view import Count, HourOfDay, Moment, StateName, View
from gua.report.kit.fields import filled
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
