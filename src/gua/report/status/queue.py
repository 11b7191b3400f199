"""Who waits for cards, in a line of ``gua status``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gua.core.untrusted import count_in, objects_in, text_in
from gua.report.kit.figures import NONE, plural
from gua.report.kit.style import Style

_NAMED: Final = 3


def queue_in_words(status: Mapping[str, Any], style: Style) -> str | None:
    """Return who waits, the first ones by name; ``None`` where nobody does."""
    waiting = objects_in(status.get("queue"))
    if not waiting:
        return None
    named = ", ".join(_one(each, style) for each in waiting[:_NAMED])
    more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
    return f"{len(waiting)} wait{'s' if len(waiting) == 1 else ''} for cards: {named}{more}"


def _one(request: Mapping[str, Any], style: Style) -> str:
    count = count_in(request.get("count")) or 0
    return f"{style.name(text_in(request.get('owner')) or NONE, 20)} ({plural(count, 'GPU')})"
