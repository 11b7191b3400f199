"""Of the active hours what did nothing all the same: the idle seconds that means of ticks hide, where they are many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.report.answers import Answers
from gua.report.forms.first_screen.lines import Places, flow, places
from gua.report.forms.first_screen.more import Steps, typed
from gua.report.kit.figures import HourFormat, percent
from gua.report.kit.style import Style
from gua.report.kit.tables import shown_width
from gua.report.model import IdleSeconds, Report
from gua.report.sections.headline import state_hours
from gua.report.states import ACTIVE

SECTION: Final = "usefulness"
"""Has the rest: each card, and what counters tell."""


def idle_seconds(report: Report, told: Answers, style: Style, hours: HourFormat, steps: Steps) -> Iterator[str]:
    """Yield the sentence and the command that says more, where there is something to say."""
    if told.idle_seconds is None:
        return
    words = f"{sentence(report, told.idle_seconds, places(report, style), hours)}:".split()
    command = f"{steps.report} --section {SECTION}"
    if style.name(command) != command:  # what cannot be typed as it is written is not written
        yield from flow([*words[:-1], words[-1].replace(":", ".")], style, indent=0, gap=" ")
    elif shown_width(command) <= style.width:
        yield from flow([*words, command], style, indent=0, gap=" ")
    else:
        yield from flow(words, style, indent=0, gap=" ")
        yield from typed(command, style)


def sentence(report: Report, found: IdleSeconds, where: Places, hours: HourFormat) -> str:
    """Return how much it is, of what, and where most of it is; without a full stop."""
    worst = found.most_idle
    active, idle = state_hours(report, hours)[ACTIVE], hours.of(found.idle_gpu_ms)
    on = ""
    if worst is not None and len(report.cards) > 1:
        most = f"the most on {where(worst.host, worst.gpu)} ({hours.of(worst.idle_gpu_ms)})"
        on = f", all on {where(worst.host, worst.gpu)}" if worst.idle_gpu_ms == found.idle_gpu_ms else f", {most}"
    return (
        f"Of {active} active GPU-hours {idle} did nothing ({percent(found.idle_share)} % of the "
        f"{hours.of(found.sampled_gpu_ms)} that samples tell of){on}"
    )
