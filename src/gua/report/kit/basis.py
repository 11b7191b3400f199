"""The basis of a report: rules and thresholds, window, hosts, coverage, unknown time by reason."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gua.core.moments import DAY_MS, MINUTE_MS, format_duration, local_time, zone
from gua.report.kit.figures import NONE, HourFormat, amount, percent, plural
from gua.report.kit.style import Style
from gua.report.kit.words import gpus_in_words, parts
from gua.report.model import Report, Window
from gua.report.states import ACTIVE, IDLE_HELD, TRULY_IDLE, UNKNOWN
from gua.report.window import names

_NAME_WIDTH: Final = 32
_MOST_VALUES: Final = 5
REASONS: Final[Mapping[str, str]] = {
    "lost": "the card was lost or needs a reset",
    "utilization": "utilization could not be read while something may be held",
    "pid_namespace": "the agent did not see the host's processes (PID namespace)",
    "processes": "the list of processes could not be read",
    "memory": "the held memory is unknown",
}
SOURCES: Final[Mapping[str, str]] = {
    "agent": "sampled by gua daemon",
    "import": "imported recordings",
    "program": "sampled by instrumented programs",
    "simulator": "simulated, no real machine",
}


def moment(unix_ms: int, timezone: str) -> str:
    """Return a moment in a time zone: ``2026-03-25 04:47``, with seconds if they are not 0."""
    local = local_time(unix_ms, zone(timezone))
    return local.strftime("%Y-%m-%d %H:%M:%S" if local.second else "%Y-%m-%d %H:%M")


def at(unix_ms: int | None, window: Window) -> str:
    """Return a moment in a window's time zone, without seconds if the window exceeds a day; ``-`` for ``None``."""
    if unix_ms is None:
        return NONE
    whole = unix_ms - unix_ms % MINUTE_MS if window.until_ms - window.since_ms > DAY_MS else unix_ms
    return moment(whole, window.timezone)


def since(unix_ms: int, window: Window) -> str:
    """Return a moment in a window's time zone, without the date on the window's last day, as in ``09:10``."""
    start, end = moment(unix_ms - unix_ms % MINUTE_MS, window.timezone), moment(window.until_ms, window.timezone)
    return start.partition(" ")[2] if start[:10] == end[:10] else start


def length(milliseconds: int) -> str:
    """Return the length of a window in its largest unit: ``7 days``, ``1.5 hours``."""
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if milliseconds >= size:
            units = f"{milliseconds / size:.1f}".removesuffix(".0")
            return f"{units} {unit}{'' if units == '1' else 's'}"
    return format_duration(milliseconds - milliseconds % 1000 or milliseconds)


def size(byte_count: float) -> str:
    """Return a size in the largest binary unit that gives 1 or more: ``100 MiB``."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if byte_count >= factor:
            return f"{byte_count / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{byte_count:.0f} bytes"


def gib(byte_count: float | None) -> str:
    """Return bytes in GiB without a unit, ``-`` if unknown."""
    return amount(None if byte_count is None else byte_count / 2**30)


_ATTRIBUTION: Final = (
    "a card's time is split equally among its holders (Slurm job, pod, container or owner), a holder's part among its "
    "processes; the state is the card's."
)
_ALLOCATION: Final = (
    "of a card to an owner, by a source. Meanwhile the card is used, held (its owner's processes are idle), used by "
    "others, or empty (no process); where a source cannot be read it is unknown, never free."
)


def meanings(report: Report) -> Iterator[tuple[str, str]]:
    """Yield each term of the report and its definition by the current settings."""
    settings = {setting.key: setting for setting in report.rules}
    marks = {key: "" if setting.is_default else " (not the default)" for key, setting in settings.items()}
    utilization = settings["active_utilization"]
    memory = settings["held_memory_bytes"]
    ratio = settings["held_memory_ratio"]
    threshold = f"{utilization.value * 100:.4g} %{marks[utilization.key]}"
    held = f"{size(memory.value)}{marks[memory.key]}"
    if ratio.value:
        held += f" or {ratio.value * 100:.4g} % of the card{marks[ratio.key]}, whichever is more,"
    yield (
        ACTIVE,
        (
            f"the busiest engine or process at {threshold} or more, averaged over a tick. A kernel or codec was "
            "resident; it says nothing of useful work."
        ),
    )
    yield (
        IDLE_HELD,
        f"less than that, and more than {held} of memory held, or held memory that nobody can rule out.",
    )
    allocated = (
        "Section allocation shows whether it was allocated."
        if report.allocation_sources
        else "No allocation source is read: the card may be allocated."
    )
    yield TRULY_IDLE, f"nothing holds it: {held} of memory or less. {allocated}"
    yield UNKNOWN, "not enough could be read to tell; never called idle."
    yield "unobserved", "no tick covers that time; never billed and never called idle."
    yield "owners", _ATTRIBUTION
    if report.allocation_sources:
        yield "allocation", _ALLOCATION


def evidence(report: Report, style: Style, hours: HourFormat) -> Iterator[tuple[str, str]]:
    """Yield the evidence of the numbers: window, hosts, ticks, coverage, and unknown time by reason."""
    window, coverage = report.window, report.coverage
    yield (
        "window",
        (
            f"after {at(window.since_ms, window)}, up to {at(window.until_ms, window)} "
            f"{window.timezone} ({length(window.until_ms - window.since_ms)})"
        ),
    )
    if coverage.effective_since_ms is not None and coverage.effective_until_ms is not None:
        effective = (coverage.effective_since_ms, coverage.effective_until_ms)
        if effective != (window.since_ms, window.until_ms):
            yield (
                "effective",
                (
                    f"{at(effective[0], window)} to {at(effective[1], window)} "
                    f"({length(effective[1] - effective[0])}), when cards were expected"
                ),
            )
    if report.filters:
        yield "filter", f"{chosen(report, style)}; nothing of other hosts is in this report"
    yield plural(len(report.hosts), "host"), names(style.name(host, _NAME_WIDTH) for host in report.hosts)
    intervals = sorted({extent.interval_ms for extent in report.extents if extent.interval_ms})
    every = f", one every {' or '.join(map(format_duration, intervals))}" if intervals else ""
    sources = ", ".join(SOURCES.get(source, source) for source in sorted({extent.source for extent in report.extents}))
    yield "ticks", f"{report.headline.card_ticks:,} of {gpus_in_words(parts(report.cards))}{every}; {sources}"
    for basis in report.imported:
        yield "imported", style.name(basis)
    yield (
        "coverage",
        (
            f"{percent(coverage.ratio)} % = {hours.of(coverage.observed_gpu_ms)} of "
            f"{hours.of(coverage.expected_gpu_ms)} expected GPU-hours; {hours.of(coverage.unobserved_gpu_ms)} "
            f"unobserved, {plural(coverage.gaps, 'gap')} of more than one interval"
        ),
    )
    for reason in report.unknown:
        explained = REASONS.get(reason.reason, style.name(reason.reason))
        yield (
            UNKNOWN,
            f"{hours.of(reason.gpu_ms)} GPU-hours in {plural(reason.card_ticks, 'card tick')}: {explained}",
        )
    yield (
        "GPUs",
        "a state's share of observed time x the GPUs expected: takes unobserved time to be like the observed",
    )


def chosen(report: Report, style: Style) -> str:
    """Return the host filters: ``team=vision or audio, k8s.cluster.name=a``."""
    return ", ".join(
        f"{style.name(one.key, _NAME_WIDTH)}={_values([style.name(value, _NAME_WIDTH) for value in one.values])}"
        for one in report.filters
    )


def _values(values: Sequence[str]) -> str:
    rest = len(values) - _MOST_VALUES
    return " or ".join(values[:_MOST_VALUES]) + (f" or {rest} more" if rest > 0 else "")
