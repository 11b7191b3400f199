"""The views that a report through this host's agent may read: readable by any user of the host."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from gua.core.view import View

_SECTIONS: Final = "calendar card_streaks contention energy notices now_rows right_size slow_cards streaks timeline"
_MODULES: Final = (
    *("allocations", "fleet", "hours", "legacy_v1", "prices", "rows", "explain.model"),
    *(f"sections.{name}" for name in (*_SECTIONS.split(), "usage", "usefulness")),
)
"""The modules whose views are all shared."""
SHARED: Final[Mapping[str, View[Any]]] = {
    view.name: view
    for module in _MODULES
    for view in vars(import_module(f"gua.report.{module}")).values()
    if isinstance(view, View)
}
