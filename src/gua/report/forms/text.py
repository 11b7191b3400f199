"""The report as text: window and hosts, warnings, the requested sections, and the basis."""

from collections.abc import Container, Iterator, Sequence
from typing import Final

from gua.core.plaintext import few
from gua.report.kit.basis import at, chosen, evidence, length, meanings
from gua.report.kit.figures import HourFormat, percent, plural, span
from gua.report.kit.style import Style
from gua.report.kit.tables import draw
from gua.report.kit.words import MOST_NAMED, few_sentences, gpus_in_words, parts, recoveries
from gua.report.model import Claim, Report, ReportedSource, Skew, shortened
from gua.report.section import AnySection
from gua.report.section_list import is_part_of, section_named, section_numbers, sections_of
from gua.report.sections.now_rows import SILENT_AFTER
from gua.report.window import names

_LOW_COVERAGE: Final = 0.9
_NAME_WIDTH: Final = 32
_FIRST_TIME_MS: Final = 3_600_000
_NEAR_MS: Final = 5 * 60_000


def warnings(report: Report, style: Style, hours: HourFormat, *, says_since: bool = False) -> Iterator[str]:
    """Yield the reasons to doubt the report, a sentence each.

    ``says_since`` is whether the report shows the start of recording elsewhere.
    """
    coverage = report.coverage
    if any(extent.source == "simulator" for extent in report.extents):
        yield "Simulated: no real machine was measured."
    began_ms = just_begun_ms(report)
    if began_ms is not None and not says_since:
        yield f"Recording since {at(began_ms, report.window)}, for {span(report.window.until_ms - began_ms)} so far."
    if began_ms is None and coverage.ratio is not None and coverage.ratio < _LOW_COVERAGE:
        yield (
            f"Only {percent(coverage.ratio)} % of the expected time was observed: "
            f"{hours.of(coverage.unobserved_gpu_ms)} GPU-hours are unobserved, and nothing below says what happened "
            "in them."
        )
    for overlap in report.overlaps:
        observed, elapsed = hours.of(overlap.observed_ms), hours.of(overlap.elapsed_ms)
        yield (
            f"Host {style.name(overlap.host, 32)} has {observed} observed hours of a card in {elapsed} hours of time: "
            "two agents run under this name, or its clock was set back. Its numbers are too high."
        )
    limited = [section for section in sections_of(report.sections) if section.most_card_hours]
    names = [section.name for section in limited if report.get(section.model) is None]
    if names and report.streaks_skipped is not None:
        yield (
            f"Left out for size, {plural(report.streaks_skipped, 'card-hour')}: {', '.join(names)}. Ask for one by "
            f"name (--section {names[0]}), or choose a shorter window or fewer hosts."
        )
    yield from _troubles(report, style)


def just_begun_ms(report: Report) -> int | None:
    """Return when the agents began to record (Unix ms) if within an hour: pending ticks weigh much then."""
    agents = [extent.first_ms for extent in report.extents if extent.source == "agent"]
    first_ms = min(agents, default=0)
    return first_ms if report.window.until_ms - first_ms < _FIRST_TIME_MS else None


def _troubles(report: Report, style: Style) -> Iterator[str]:
    """Yield warnings on silent hosts, failed allocation sources, wrong clocks and duplicate host names."""
    newest_first = sorted(report.silent, key=lambda one: (-one.since_ms, one.host))
    hosts = [f"{style.name(one.host, _NAME_WIDTH)} since {at(one.since_ms, report.window)}" for one in newest_first]
    if hosts:
        yield f"{plural(len(hosts), 'host is silent', 'hosts are silent')}: {_few_of_all(hosts)}."
    yield from _allocation_sources(report, style)
    worst_first = sorted(report.skewed, key=lambda skew: (-max(skew.ahead_ms or 0, skew.behind_ms or 0), skew.host))
    named = [_skew(skew, style) for skew in worst_first]
    many = ("host whose clock and the server's disagree", "hosts whose clocks and the server's disagree")
    yield from few_sentences(named, *many)
    claims = [_claim(claim, style) for claim in report.claimed]
    yield from few_sentences(
        claims, "host named by several agents at a time", "hosts named by several agents at a time"
    )


def _few_of_all(names: Sequence[str]) -> str:
    return few(names, MOST_NAMED) + (" (--json has all)" if len(names) > MOST_NAMED else "")


def _allocation_sources(report: Report, style: Style) -> Iterator[str]:
    """Yield the unreadable allocation sources, with the reason of the first."""
    failed = sorted(
        (one for one in report.allocation_sources if not one.ok and _is_read(one, report)),
        key=lambda one: -one.failed_ms,
    )
    if not failed:
        return
    names = [f"{style.name(one.source, _NAME_WIDTH)} on {style.name(one.host, _NAME_WIDTH)}" for one in failed]
    why = f" ({style.name(failed[0].reason, 2 * _NAME_WIDTH)})" if failed[0].reason else ""
    yield (
        f"Allocations cannot be read from {_few_of_all(names)}{why}: cards that they "
        "might cover are unknown, never free."
    )


def _is_read(source: ReportedSource, report: Report) -> bool:
    """Return whether a source was still configured at the window's end: it was read near its host's newest tick."""
    extents = [extent for extent in report.extents if extent.host == source.host]
    newest_ms = max((extent.last_ms for extent in extents), default=0)
    near_ms = max([_NEAR_MS, *(SILENT_AFTER * (extent.interval_ms or 0) for extent in extents)])
    return newest_ms > report.window.until_ms or source.last_ms >= newest_ms - near_ms


def _skew(skew: Skew, style: Style) -> str:
    host = style.name(skew.host, _NAME_WIDTH)
    if skew.ahead_ms is not None:
        by = length(skew.ahead_ms)
        return f"The clock of {host} is at least {by} ahead of the server's: its hours are placed that much too late."
    by = length(skew.behind_ms or 0)
    return (
        f"The clock of {host} is behind the server's by {by}, or all its ticks come that late: if it is the clock, its "
        "hours are placed that much too early."
    )


def _claim(claim: Claim, style: Style) -> str:
    agents = [
        f"{style.name(shortened(agent.instance) or 'unknown agent')} on machine "
        f"{style.name(shortened(agent.host_id) or 'unknown')}"
        for agent in claim.agents
    ]
    host = style.name(claim.host, _NAME_WIDTH)
    return (
        f"{plural(len(agents), 'agent')} called their host {host} at the same time: {few(agents, MOST_NAMED)}. "
        "Give each host a name of its own with GUA_HOST_NAME."
    )


def sentences(report: Report, style: Style) -> Iterator[str]:
    """Yield the window, the cards and hosts, and the filters."""
    window = report.window
    yield (
        f"GPU usage from {at(window.since_ms, window)} to "
        f"{at(window.until_ms, window)} {window.timezone} ({length(window.until_ms - window.since_ms)})"
    )
    yield whereabouts(report, style)
    if report.filters:
        yield f"only {chosen(report, style)}"


def whereabouts(report: Report, style: Style) -> str:
    """Return the number of GPUs and their hosts."""
    where = names(style.name(host, 24) for host in report.hosts)
    return f"{gpus_in_words(parts(report.cards))} on {plural(len(report.hosts), 'host')}: {where}"


def heading(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield window, hosts and filters, then the warnings and the cards that need recovery."""
    for text in sentences(report, style):
        yield from style.wrap(text, indent=0)
    for text in (*warnings(report, style, hours), *recoveries(report, style)):
        yield from style.warning(text)


def basis(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield the definitions of terms, then the evidence of the numbers."""
    yield style.title("Basis")
    for label, text in meanings(report):
        yield from style.term(label, text)
    yield ""
    for label, text in evidence(report, style, hours):
        yield from style.term(label, text)


def render_text(report: Report, style: Style, *, with_basis: bool = True) -> str:
    """Return the report for a terminal or a file, no line wider than the style's width."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    blocks = ["\n".join(heading(report, style, hours))]
    blocks += ["\n".join(section_lines(*one, report, style, hours)) for one in numbered(report)]
    if with_basis:
        blocks.append("\n".join(basis(report, style, hours)))
    return "\n\n".join(blocks) + "\n"


def numbered(report: Report, *, without: Container[str] = ()) -> Iterator[tuple[str, AnySection]]:
    """Yield the shown sections with their numbers; a part of a preceding section has an indent instead."""
    before: set[str] = set()
    for section in (section_named(name) for name in report.sections if name not in without):
        if section.is_shown(report):
            yield "  " if is_part_of(section.name, before) else f"{section_numbers()[section.name]}.", section
            before.add(section.name)


def section_lines(mark: str, section: AnySection, report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield a section's title, prefixed with ``mark``, and its lines."""
    for place, line in enumerate(style.wrap(section.titled(report), indent=len(mark) + 1)):
        yield style.title(line if place else f"{mark} {line.lstrip()}")
    for part in (section.drawn or section.text)(report, style, hours):
        yield from draw(part, style)
