"""The views that a report through this host's agent may ask for: what any user of the host may read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gua.core.view import View
from gua.report.allocation_sources import SOURCES
from gua.report.explain.model import (
    EXPLAIN_ALLOCATIONS,
    EXPLAIN_CARDS,
    EXPLAIN_MOMENTS,
    EXPLAIN_PROCESSES,
    EXPLAIN_TICKS,
)
from gua.report.fleet import CLAIMS, FLEET, LABELS
from gua.report.hours import HOUR_TICKS, HOURS
from gua.report.legacy_v1 import OLDER_RULE
from gua.report.prices import COSTS, PRICES
from gua.report.promises import ALLOCATION_NAMES, PROMISED_WORK, PROMISES, RESERVATIONS, WAITS
from gua.report.rows import EXTENT, OVERVIEW, RULES, TIME_OF_DAY
from gua.report.sections.calendar import CALENDAR
from gua.report.sections.card_streaks import CARD_STREAKS
from gua.report.sections.contention import CONTENTION
from gua.report.sections.energy import ENERGY
from gua.report.sections.right_size import CARD_SIZES, RIGHT_SIZE_VIEW
from gua.report.sections.slow_cards import SLOW_CARDS_VIEW
from gua.report.sections.streaks import EMPTY_LIMITS, STREAKS
from gua.report.sections.timeline_rows import PRESENCES, TIMELINE
from gua.report.sections.usage_rows import HOLDERS, USAGE_VIEW
from gua.report.sections.usefulness_rows import ACTIVITY, ACTIVITY_OWNERS, BUSY_WITH_FEW_SMS, IDLE_TIME

_VIEWS: Final[tuple[View[Any], ...]] = (
    EXTENT,
    RULES,
    OVERVIEW,
    HOURS,
    HOUR_TICKS,
    LABELS,
    FLEET,
    CLAIMS,
    SOURCES,
    PROMISES,
    ALLOCATION_NAMES,
    PROMISED_WORK,
    TIME_OF_DAY,
    CARD_STREAKS,
    USAGE_VIEW,
    HOLDERS,
    STREAKS,
    EMPTY_LIMITS,
    CONTENTION,
    WAITS,
    RESERVATIONS,
    TIMELINE,
    PRESENCES,
    PRICES,
    COSTS,
    ENERGY,
    IDLE_TIME,
    ACTIVITY,
    ACTIVITY_OWNERS,
    BUSY_WITH_FEW_SMS,
    RIGHT_SIZE_VIEW,
    CARD_SIZES,
    SLOW_CARDS_VIEW,
    CALENDAR,
    EXPLAIN_CARDS,
    EXPLAIN_MOMENTS,
    EXPLAIN_TICKS,
    EXPLAIN_PROCESSES,
    EXPLAIN_ALLOCATIONS,
    OLDER_RULE,
)
SHARED: Final[Mapping[str, View[Any]]] = MappingProxyType({view.name: view for view in _VIEWS})
