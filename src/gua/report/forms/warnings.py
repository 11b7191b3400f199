"""What is wrong with hosts, as sentences at the head of a report: so few that they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gua.report.kit.basis import length, moment
from gua.report.kit.figures import HourFormat, percent, plural
from gua.report.kit.style import Style
from gua.report.model import Claim, Claimant, Report, Skew, shortened

MOST_NAMED: Final = 5
_LOW_COVERAGE: Final = 0.9
_NAME_WIDTH: Final = 32


def warnings(report: Report, style: Style, hours: HourFormat) -> Iterator[str]:
    """Yield what makes the report doubtful, a sentence each."""
    coverage = report.coverage
    if any(extent.source == "simulator" for extent in report.extents):
        yield "Simulated: no real machine was measured."
    if coverage.ratio is not None and coverage.ratio < _LOW_COVERAGE:
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
    yield from troubles(report, style)


def troubles(report: Report, style: Style) -> Iterator[str]:
    """Yield a sentence for hosts that are silent, one for each clock that is wrong and name that is disputed."""
    yield from _silent(report, style)
    named = [_skew(skew, style) for skew in sorted(report.skewed, key=_badness)]
    yield from _few(named, "host whose clock and the server's disagree", "hosts whose clocks and the server's disagree")
    claims = [_claim(claim, style) for claim in report.claimed]
    yield from _few(claims, "host named by several agents at a time", "hosts named by several agents at a time")


def _silent(report: Report, style: Style) -> Iterator[str]:
    if not report.silent:
        return
    newest_first = sorted(report.silent, key=lambda one: (-one.since_ms, one.host))
    zone = report.window.timezone
    told = [
        f"{style.name(one.host, _NAME_WIDTH)} since {moment(one.since_ms, zone)}" for one in newest_first[:MOST_NAMED]
    ]
    rest = len(newest_first) - len(told)
    more = f" and {rest} more (--json has all)" if rest else ""
    yield f"Silent: {plural(len(newest_first), 'host')} of agents that tell nothing any more: {', '.join(told)}{more}."


def _few(sentences: Sequence[str], one: str, many: str) -> Iterator[str]:
    yield from sentences[:MOST_NAMED]
    rest = len(sentences) - MOST_NAMED
    if rest > 0:
        yield f"And {plural(rest, f'more {one}', f'more {many}')} (--json has all)."


def _badness(skew: Skew) -> tuple[int, str]:
    return (-max(skew.ahead_ms or 0, skew.behind_ms or 0), skew.host)


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
    agents = ", ".join(_agent(agent, style) for agent in claim.agents[:MOST_NAMED])
    rest = len(claim.agents) - MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    host = style.name(claim.host, _NAME_WIDTH)
    return (
        f"{plural(len(claim.agents), 'agent')} called their host {host} at the same time: {agents}{more}. Give each "
        "host a name of its own with GUA_HOST_NAME."
    )


def _agent(agent: Claimant, style: Style) -> str:
    instance = style.name(shortened(agent.instance) or "unknown agent")
    return f"{instance} on machine {style.name(shortened(agent.host_id) or 'unknown')}"
