"""The default report: one screen of short answers; the sections have the details."""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from gua.core.moments import format_duration, to_rfc3339
from gua.core.plaintext import cells
from gua.core.words import Use
from gua.report.answers import Answers, answers
from gua.report.costs import wasted
from gua.report.forms.first_screen import SECTIONS, Steps
from gua.report.forms.first_screen.answers import (
    MOST_BRIEFLY,
    MOST_OWNERS_SHOWN,
    flow,
    free,
    top_holders,
    uncut,
)
from gua.report.forms.first_screen.overview import cards, day
from gua.report.forms.text import basis as whole_basis
from gua.report.forms.text import just_begun_ms, numbered, section_lines, warnings, whereabouts
from gua.report.kit.amounts import sentence, written
from gua.report.kit.basis import REASONS, at, chosen, length, size
from gua.report.kit.figures import NONE, HourFormat, percent, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import draw, shown_width
from gua.report.kit.words import Places, places, recoveries
from gua.report.model import Card, IdleSeconds, Report
from gua.report.section_list import section_named
from gua.report.sections.allocation import AllocatedHours, allocated_work, use_share, use_units
from gua.report.sections.groups import Groupings
from gua.report.sections.headline import state_hours, state_percents, without_process
from gua.report.sections.money import price_command
from gua.report.sections.usage import Usage, usage_by
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, observed_ms
from gua.report.uses import share

MOST_WARNINGS: Final = 3
MOST_WARNINGS_BRIEFLY: Final = 2
_MUCH_OF_WINDOW: Final = 0.01  # share of the window


def _heading(report: Report, style: Style, hours: HourFormat, *, brief: bool) -> Iterator[str]:
    """Yield the warnings, the cards that need recovery, the window, and the GPUs."""
    doubts = _warnings(report, style, hours, MOST_WARNINGS_BRIEFLY if brief else MOST_WARNINGS)
    for text in chain(doubts, recoveries(report, style, always=True)):
        yield from style.warning(text)
    yield from style.wrap(window(report), indent=0)
    yield from style.wrap(whereabouts(report, style), indent=0)
    if report.filters:
        yield from style.wrap(f"only {chosen(report, style)}", indent=0)


def _warnings(report: Report, style: Style, hours: HourFormat, most: int) -> Iterator[str]:
    """Yield at most ``most`` warnings; one longer than a line is cut at its first colon."""
    every = list(warnings(report, style, hours, says_since=True))
    shown = every if len(every) <= most else every[: most - 1]
    for text in shown:
        yield text if cells(text) + 2 <= style.width else text.partition(": ")[0]
    if rest := len(every) - len(shown):
        yield f"and {plural(rest, 'more warning')}: --full has them"


def window(report: Report) -> str:
    """Return the window in words, or its recorded part if that is much shorter."""
    chosen, zone = report.window, report.window.timezone
    since_ms, until_ms = report.coverage.effective_since_ms, recorded_until_ms(report)
    if since_ms is None or since_ms - chosen.since_ms < _much_ms(report):
        since_ms = chosen.since_ms
    whole = f"GPU usage of {length(until_ms - since_ms)}"
    if (since_ms, until_ms) == (chosen.since_ms, chosen.until_ms):
        return f"{whole}: {at(since_ms, chosen)} to {at(until_ms, chosen)} {zone}"
    end = "" if report.ends_now else f" to {at(until_ms, chosen)}"
    return f"{whole}, recorded since {at(since_ms, chosen)}{end} {zone}"


def recorded_until_ms(report: Report) -> int:
    """Return the end of the window (Unix ms), or of its recording if that ended much earlier."""
    until_ms, recorded_ms = report.window.until_ms, report.coverage.effective_until_ms
    is_over = recorded_ms is not None and not report.ends_now and until_ms - recorded_ms >= _much_ms(report)
    return recorded_ms if is_over and recorded_ms is not None else until_ms


def _much_ms(report: Report) -> float:
    return _MUCH_OF_WINDOW * (report.window.until_ms - report.window.since_ms)


_MUCH_UNKNOWN: Final = 0.1  # share of the expected time
_MUCH_EMPTY: Final = 0.05  # share of the time in which an allocation source was read
_BESIDE_FROM: Final = 44
_COLOURED_FROM: Final = 36


def _verdict(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield the summary sentences, the bar of expected time, and the hours of each state."""
    yield from style.heading(" ".join(sentences(report, style, hours)))
    if observed_ms(report.headline.states):
        covered = f"{percent(report.coverage.ratio)} % observed"
        beside = style.width >= _BESIDE_FROM
        yield _bar(report, style, f"  {covered}" if beside else "")
        # Colour codes must not be broken across lines.
        plain = style if style.width >= _COLOURED_FROM else replace(style, colour=False)
        yield from flow([*_states(report, plain, hours), *([] if beside else [covered])], style)


def sentences(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield sentences on idle-held time, on empty allocations if large, and on unknown time.

    The larger of the first two comes first.
    """
    headline, states, allocated = report.headline, report.headline.states, report.get(AllocatedHours)
    observed = observed_ms(states)
    if not observed:
        expected = hours.of(report.coverage.expected_gpu_ms)
        yield f"Nothing was observed: nobody knows what happened in the {expected} GPU-hours expected."
        return
    written, shares = state_hours(report, hours), state_percents(report)
    empty_ms = 0 if allocated is None else allocated.uses.get(Use.EMPTY, 0)
    is_much_empty = allocated is not None and (share(allocated.uses, Use.EMPTY) or 0) >= _MUCH_EMPTY
    if states[UNKNOWN].gpu_ms == observed:
        reasons = [REASONS.get(one.reason) for one in sorted(report.unknown, key=lambda one: -one.gpu_ms)]
        why = next(filter(None, reasons), "the values that decide could not be read")
        yield f"Nothing is known of the {hours.of(observed)} GPU-hours observed: {why}."
    elif states[IDLE_HELD].gpu_ms:
        gpus, cost = "", sentence(wasted(headline.costs), style.name, hours)
        if (held_gpus := headline.equivalent_gpus[IDLE_HELD]) is not None:
            whole = _tenths(headline.expected_gpus or 0)
            gpus = f": as much as {_tenths(held_gpus)} of {whole} GPU{'' if whole == '1' else 's'}"
        held = (
            f"{written[IDLE_HELD]} of {hours.of(observed)} GPU-hours observed ({shares[IDLE_HELD]} %) were "
            f"held and did nothing{gpus}{'' if cost is None else f', {cost}'}."
        )
        is_more = empty_ms > states[IDLE_HELD].gpu_ms
        both = [held, _empty(report, style, hours)] if is_much_empty or is_more else [held]
        yield from reversed(both) if is_more else both
    elif is_much_empty:
        yield _empty(report, style, hours)
    else:
        yield (
            f"No GPU was held without being used: of {hours.of(observed)} GPU-hours observed, "
            f"{written[ACTIVE]} were active and {written[TRULY_IDLE]} truly-idle."
        )
    # In the first hour pending ticks would dominate the share.
    unobserved_ms = 0 if just_begun_ms(report) is not None else report.coverage.unobserved_gpu_ms
    dark_ms = unobserved_ms + states[UNKNOWN].gpu_ms
    expected_ms = report.coverage.expected_gpu_ms
    if expected_ms and dark_ms >= _MUCH_UNKNOWN * expected_ms and states[UNKNOWN].gpu_ms < observed:
        yield (
            f"Nobody knows what happened in {percent(dark_ms / expected_ms)} % of the expected time: it counts as no "
            "state."
        )


def _empty(report: Report, style: Style, hours: HourFormat) -> str:
    found = report[AllocatedHours]
    cost = None if found.costs is None else found.costs[Use.EMPTY]
    amounts = "" if cost is None or not cost.amounts else f": {written(cost, style.name)}"
    gpu_hours = hours.written(found.uses[Use.EMPTY], use_units(report, hours)[Use.EMPTY])
    return f"{gpu_hours} GPU-hours ({use_share(report, Use.EMPTY)} %) were allocated without a process{amounts}."


def _tenths(value: float) -> str:
    return "<0.1" if 0 < value < 0.05 else f"{value:,.1f}".removesuffix(".0")


def _bar(report: Report, style: Style, label: str) -> str:
    ratio = report.coverage.ratio
    width = style.width - 2 - len(label)
    # Unobserved time is blank; every observed state gets at least one character.
    filled = max(len(STATES), width if ratio is None else round(width * min(ratio, 1)))
    split = style.split({state: report.headline.states[state].gpu_ms for state in STATES}, filled)
    return f"  {split}{' ' * (width - filled)}{label}".rstrip()


def _states(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    written, shares = state_hours(report, hours), state_percents(report)
    for state in STATES:
        part = "" if shares[state] == NONE else f" ({shares[state]} %)"
        yield f"{style.paint(state, style.fill[state])} {style.paint(state, state)} {written[state]}{part}"
    if report.coverage.unobserved_gpu_ms > 0:
        yield f"unobserved {hours.of(report.coverage.unobserved_gpu_ms)}"


SECTION: Final = "usefulness"
"""The section with the details on idle seconds: each card, and activity counters."""


def _active(report: Report, answers: Answers, style: Style, hours: HourFormat, steps: Steps) -> Iterator[str]:
    """Yield the sentences on active time without a process and on idle seconds; nothing below their limits."""
    if (text := without_process(report, hours, places(report, style))) is not None:
        yield from style.wrap(text, indent=0)
    if answers.idle_seconds is None:
        return
    words = f"{idle_seconds_in_words(report, answers.idle_seconds, places(report, style), hours)}:".split()
    command = f"{steps.report} --section {SECTION}"
    if style.name(command) != command:  # omitted if escaping changes it
        yield from flow([*words[:-1], words[-1].replace(":", ".")], style, indent=0, gap=" ")
    elif shown_width(command) <= style.width:
        yield from flow([*words, command], style, indent=0, gap=" ")
    else:
        yield from flow(words, style, indent=0, gap=" ")
        yield from typed(command, style)


def idle_seconds_in_words(report: Report, found: IdleSeconds, where: Places, hours: HourFormat) -> str:
    """Return the idle hours within active time, their share, and the card with most; without a full stop."""
    worst = found.most_idle
    active, idle = state_hours(report, hours)[ACTIVE], hours.of(found.idle_gpu_ms)
    on = ""
    if worst is not None and len(report.cards) > 1:
        most = f"most on {where(worst.host, worst.gpu)} ({hours.of(worst.idle_gpu_ms)})"
        on = f", all on {where(worst.host, worst.gpu)}" if worst.idle_gpu_ms == found.idle_gpu_ms else f", {most}"
    return (
        f"{idle} of {active} active GPU-hours were idle between kernels ({percent(found.idle_share)} % of "
        f"{hours.of(found.sampled_gpu_ms)} sampled){on}"
    )


_MOST_INTERVALS: Final = 3


def _basis(report: Report, style: Style) -> Iterator[str]:
    """Yield the basis in three sentences."""
    settings = {setting.key: setting for setting in report.rules}
    utilization, memory = settings["active_utilization"], settings["held_memory_bytes"]
    ratio = settings["held_memory_ratio"]
    held = size(memory.value) + (f" or {ratio.value * 100:.4g} % of it" if ratio.value else "")
    changed = "" if all(setting.is_default for setting in settings.values()) else " (not the defaults)"
    intervals = sorted({extent.interval_ms for extent in report.extents if extent.interval_ms})
    lengths = " or ".join(map(format_duration, intervals))
    if len(intervals) > _MOST_INTERVALS:
        lengths = f"{format_duration(intervals[0])} to {format_duration(intervals[-1])}"
    every = f", one every {lengths}" if lengths else ""
    for text in (
        f"Basis: idle-held is below {utilization.value * 100:.4g} % utilization with over {held} held{changed}.",
        "Unknown and unobserved time is never idle; active time need not be useful.",
        f"{report.headline.card_ticks:,} card ticks{every}; who shares a card shares its hours.",
    ):
        yield from style.wrap(text, indent=0, hanging=2)


def _more(report: Report, style: Style, steps: Steps) -> Iterator[str]:
    """Yield the follow-up commands."""
    commands = [f"{steps.report} --full", f"{steps.report} --section what-if"]
    if steps.explain is not None and report.cards:
        card = max(report.cards, key=lambda card: card.states[IDLE_HELD].gpu_ms)
        words = [steps.explain, *map(shlex.quote, (card.host, _named(card, report)))]
        if not report.ends_now:
            words.append(to_rfc3339(recorded_until_ms(report) // 1000 * 1000))
        commands.insert(1, " ".join(words))
    safe = [command for command in commands if style.name(command) == command]
    if steps.then:
        safe.append(steps.then)
    items = [f"{command};" for command in safe[:-1]] + safe[-1:]
    items[0] = f"more: {items[0]}"
    if all(shown_width(item) <= style.width for item in items):
        yield from flow(items, style, indent=0, gap=" ")
        return
    for item in items:
        yield from typed(item, style)


def price_step(report: Report, style: Style, steps: Steps) -> Iterator[str]:
    """Yield the command that sets a price, if a card has none."""
    command = None if steps.store is None else price_command(report.cards)
    if command is not None:
        priced = any(cost.amounts for cost in (report.headline.costs or {}).values())
        head = "Some cards have no price" if priced else "To see its cost"
        yield from typed(f"{head}: {f'{command} {steps.store}'.rstrip()}", style)


def _named(card: Card, report: Report) -> str:
    """Return a card's index, or its UUID if another card of the report has the same index."""
    alike = sum((one.host, one.index) == (card.host, card.index) for one in report.cards)
    return card.gpu if card.index is None or alike > 1 else str(card.index)


def typed(command: str, style: Style) -> Iterator[str]:
    """Yield a command; if too long over several lines with backslashes, so that a shell reads it as one."""
    if shown_width(command) <= style.width:
        yield command
        return
    *before, last = uncut(command, replace(style, width=style.width - 2), hanging=2)
    yield from (f"{line} \\" for line in before)
    yield last


LINES: Final = 50
LINES_BRIEFLY: Final = 24
_SCREEN_WIDTH: Final = 80


def render_first_screen(
    report: Report, style: Style, steps: Steps, *, brief: bool = False, with_basis: bool = False
) -> str:
    """Return the first screen within the style's width, with other requested sections below it.

    If it exceeds a screen, fewer owners are named; below 80 columns it takes as many lines as needed.
    """
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    found = answers(report)
    head = _block(_heading(report, style, hours, brief=brief))
    active = () if brief else _active(report, found, style, hours, steps)
    verdict = _block(chain(_verdict(report, style, hours), active, price_step(report, style, steps)))
    free_now = _block(free(report, style, brief=brief))
    below = [] if brief else [_block(cards(report, style, hours)), _block(day(report, style))]
    last = whole_basis(report, style, hours) if with_basis else () if brief else _basis(report, style)
    end = _block(chain(last, _more(report, style, steps)))
    shown: list[str] = []
    for most in range(MOST_BRIEFLY if brief else MOST_OWNERS_SHOWN, 0, -1):
        owners = _block(top_holders(report, found, style, hours, most=most))
        shown = [head, verdict, owners, free_now, *below]
        if brief:
            shown = [_block([head, verdict]), _block([owners, free_now])]
        if style.width < _SCREEN_WIDTH or _joined([*shown, end]).count("\n") <= (LINES_BRIEFLY if brief else LINES):
            break
    return _joined([*shown, *map(_block, _requested(report, style, hours)), end])


def _block(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip("\n")


def _joined(blocks: Iterable[str]) -> str:
    return "\n\n".join(filter(None, blocks)) + "\n"


def _requested(report: Report, style: Style, hours: HourFormat) -> Iterator[Iterable[str]]:
    """Yield the requested groupings, and the requested sections that the first screen does not cover."""
    groupings = tuple(one for one in report.get(Groupings) or () if one.by in report.groups_by)
    if groupings:
        models = {**report.models, Groupings: Groupings(groupings)}
        yield section_lines("  ", section_named("groups"), replace(report, models=models), style, hours)
    if (usage := report.get(Usage)) and usage.usage_by:
        yield chain.from_iterable(draw(part, style) for part in usage_by(report, style, hours))
    if work := [*allocated_work(report, style, hours)]:
        yield chain.from_iterable(draw(part, style) for part in work)
    for mark, section in numbered(report, without=SECTIONS):
        yield section_lines(mark, section, report, style, hours)
