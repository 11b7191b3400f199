"""Comparison of the gpu-usage-audit 1.0 to 1.8 rule with the current rules, on the stored ticks."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Final, NamedTuple

from gua.core.batches import in_batches
from gua.core.moments import to_rfc3339
from gua.core.parameters import BOUNDS
from gua.core.ports import ViewReader
from gua.core.untrusted import is_word_of
from gua.core.view import Count, StateName, View
from gua.report import fleet
from gua.report.filters import choose_hosts, parse_conditions
from gua.report.hours import Hour, choose_hours
from gua.report.kit.fields import AS_IS, Hours, Unit, filled, to_json
from gua.report.kit.figures import NONE, HourFormat, plural
from gua.report.kit.style import Style
from gua.report.kit.tables import Rows, draw
from gua.report.model import Placed, Window
from gua.report.rows import EXTENT, NAMED_CARDS
from gua.report.states import ACTIVE, IDLE_HELD, MS_PER_HOUR, STATES, TRULY_IDLE
from gua.report.window import ReportRequest, choose_extents, choose_window, no_data

RULES: Final = ("gpu-usage-audit",)
"""The names that ``--rules`` accepts."""
THEIRS: Final = (ACTIVE, IDLE_HELD, TRULY_IDLE)
NOT_COUNTED: Final = "not-counted"
ALL_THEIRS: Final = (*THEIRS, NOT_COUNTED)
# A query for 450,000 exceeded the embedded engine's memory limit of 300 MB.
PART_CARD_TICKS: Final = 100_000
SCHEMA: Final = "gua.older-rules/1"
_RULE: Final = (
    "Its rule, tick by tick: a general utilization of 10 % or more is active; else more than 100 MiB held by listed "
    "processes is idle-held; else truly-idle. Every tick counts once, however long."
)
_NAME_WIDTH: Final = 30
WHY: Final = {
    "ignored": "the memory is of programs that are no users of a card, such as Xorg: its rule counts them",
    "unknown-memory": "a process of unknown memory is there: its rule takes that for 0",
    "unattributed": "the card holds memory that no listed process owns: its rule reads only processes",
    "mps": "MPS clients hold it: its list has none of them",
    "rounding": "whole MiB of each process add up to 100 or less, their bytes to more",
    "encoder": "the encoder was busy: its rule reads only the general utilization",
    "decoder": "the decoder was busy: its rule reads only the general utilization",
    "process-utilization": "a process was busy, by the driver's count for each process",
    "settings": "thresholds were set that are not 10 % and 100 MiB",
    "list": "the process list could not be read: its rule takes what is there for all of it",
    "lost": "the driver lost the card, or it needs a reset",
    "utilization": "utilization could not be read while something may be held",
    "pid_namespace": "the agent saw the processes of its own container alone",
    "processes": "the process list could not be read, or that is unknown: its rule takes that for empty",
    "memory": "what is held is not known",
    "not-read": "utilization could not be read: its rule has no such tick",
    "instance": "a MIG instance: its rule reads only whole cards",
}
"""Why the current rules differ, by the reason of the view ``gua_report.legacy_v1_rule``."""


class OlderRow(NamedTuple):
    """The ticks of a card with the same pair of states by both rules."""

    host: str
    gpu: str
    theirs: Annotated[str, is_word_of(*ALL_THEIRS)]
    ours: StateName
    why: str
    card_ticks: Count
    gpu_time_ms: Count


OLDER_RULE: Final = View("legacy_v1_rule", OlderRow, BOUNDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The ticks of one pair of states; ``why`` is a key of ``WHY``, empty where both rules agree."""

    theirs: Annotated[str, AS_IS.named("gpu-usage-audit")]
    ours: Annotated[str, AS_IS.named("gua")]
    why: Annotated[str, Unit(json=lambda why: why or None, name="reason")]
    card_ticks: int
    gpu_ms: Hours[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class OlderCard(Placed):
    """One card: its ticks by state, by the old rule (also ``not-counted``) and the current one."""

    name: str | None
    theirs: Annotated[Counter[str], AS_IS.named("gpu-usage-audit")]
    ours: Annotated[Counter[str], AS_IS.named("gua")]


@dataclass(frozen=True, kw_only=True, slots=True)
class OlderRules:
    """The ticks that end in the window (since, until], by both rules: per card and in total."""

    window: Window
    cards: tuple[OlderCard, ...]
    cells: tuple[Difference, ...]

    @property
    def card_ticks(self) -> int:
        """Return the total number of card ticks."""
        return sum(cell.card_ticks for cell in self.cells)


def collect_older_rules(reader: ViewReader, request: ReportRequest) -> OlderRules:
    """Return the comparison of both rules for the requested window and hosts.

    Raises UsageError for an invalid host, moment or time zone, UnavailableError where there is no data.
    """
    hosts = list(request.hosts)
    extents = choose_extents(EXTENT.rows(reader, {"hosts": []}), hosts)
    if conditions := parse_conditions(request.clusters, request.where):
        hosts = choose_hosts(conditions, {extent.host for extent in extents}, fleet.labels(reader))
        extents = choose_extents(extents, hosts)
    window = choose_window(extents, request)
    bounds = {"since_ms": window.since_ms, "until_ms": window.until_ms, "hosts": hosts}
    hours = choose_hours(reader, bounds, from_ticks=request.from_ticks)
    cells: Counter[tuple[str, str, str]] = Counter()
    gpu_ms: Counter[tuple[str, str, str]] = Counter()
    cards: dict[tuple[str, str], OlderCard] = {}
    for since_ms, until_ms in _windows(window, hours):
        for row in OLDER_RULE.rows(reader, {**bounds, "since_ms": since_ms, "until_ms": until_ms}):
            key, count = (row.theirs, row.ours, row.why), row.card_ticks
            cells[key] += count
            gpu_ms[key] += row.gpu_time_ms
            nothing = {"theirs": Counter(dict.fromkeys(ALL_THEIRS, 0)), "ours": Counter(dict.fromkeys(STATES, 0))}
            card = cards.setdefault((row.host, row.gpu), filled(OlderCard, row, index=None, name=None, **nothing))
            card.theirs[row.theirs] += count
            card.ours[row.ours] += count
    if not cells:
        raise no_data(window, extents)
    for one in NAMED_CARDS.rows(reader, bounds):
        if (card_of := cards.get((one.host, one.gpu))) is not None:
            cards[one.host, one.gpu] = replace(card_of, index=one.index, name=one.name)
    return OlderRules(
        window=window,
        cards=tuple(sorted(cards.values(), key=OlderCard.place)),
        cells=tuple(
            Difference(theirs=key[0], ours=key[1], why=key[2], card_ticks=count, gpu_ms=gpu_ms[key])
            for key, count in sorted(cells.items(), key=lambda cell: (-cell[1], cell[0]))
        ),
    )


def _windows(window: Window, hours: Iterable[Hour]) -> Iterator[tuple[int, int]]:
    """Yield the window in parts of a bounded number of card ticks: a tick belongs to the hour of its end less 1 ms."""
    for part in in_batches(hours, PART_CARD_TICKS, lambda hour: hour.card_ticks):
        beyond_ms = (part[-1].hour + 1) * MS_PER_HOUR
        yield max(part[0].hour * MS_PER_HOUR, window.since_ms), min(beyond_ms, window.until_ms)


def render_older_json(found: OlderRules) -> str:
    """Return one JSON object: counts and hours as numbers, times as RFC 3339 in UTC, unknown as ``null``."""
    document = {
        "schema": SCHEMA,
        "window": {"since": to_rfc3339(found.window.since_ms), "until": to_rfc3339(found.window.until_ms)},
        "card_ticks": found.card_ticks,
        "cards": to_json(found.cards),
        "cross": to_json(found.cells),
    }
    return json.dumps(document, allow_nan=False, indent=2) + "\n"


def render_older_text(found: OlderRules, style: Style) -> str:
    """Return the comparison for a terminal or a file, no line wider than the style's width."""
    span = f"{to_rfc3339(found.window.since_ms)} to {to_rfc3339(found.window.until_ms)}"
    heading = f"The rule of gpu-usage-audit 1.0 to 1.8 over the ticks from {span}"
    head = (*style.wrap(heading, indent=0), *style.wrap(_RULE, indent=0))
    blocks = (head, _cards(found, style), _cross(found, style), _differences(found, style))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _cards(found: OlderRules, style: Style) -> Iterator[str]:
    yield from style.heading("1. Card ticks by its rule")
    several = len({card.host for card in found.cards}) > 1
    columns = THEIRS if not any(card.theirs[NOT_COUNTED] for card in found.cards) else ALL_THEIRS
    rows = Rows(found.cards)
    rows.add("card", lambda card: _label(card, style, with_host=several), left=True)
    rows.add(columns, lambda card: [f"{card.theirs[state]:,}" for state in columns])
    yield from draw(rows.table(), style)


def _cross(found: OlderRules, style: Style) -> Iterator[str]:
    yield from style.heading("2. Its states (rows) and ours (columns), in card ticks")
    sums = {
        (theirs, ours): sum(cell.card_ticks for cell in found.cells if (cell.theirs, cell.ours) == (theirs, ours))
        for theirs in ALL_THEIRS
        for ours in STATES
    }
    shown = [theirs for theirs in ALL_THEIRS if theirs in THEIRS or any(sums[theirs, one] for one in STATES)]
    rows = Rows(shown)
    rows.add("", lambda theirs: theirs, left=True)
    rows.add(STATES, lambda theirs: [f"{sums[theirs, ours]:,}" for ours in STATES])
    yield from draw(rows.table(), style)
    same = sum(cell.card_ticks for cell in found.cells if not cell.why)
    share = 100 * same / found.card_ticks
    if same not in {0, found.card_ticks}:  # a part is never rounded to 0 or 100 %
        share = min(max(share, 0.01), 99.99)
    yield from style.wrap(f"{same:,} of {plural(found.card_ticks, 'card tick')} are the same by both ({share:.2f} %).")


def _differences(found: OlderRules, style: Style) -> Iterator[str]:
    yield from style.heading("3. Where ours differs, and why")
    different = [cell for cell in found.cells if cell.why]
    if not different:
        yield from style.wrap("Nowhere.")
    hours = HourFormat.fitting(sum(cell.gpu_ms for cell in found.cells))
    for cell in different:
        first = f"{cell.theirs} by it, {cell.ours} by ours: {plural(cell.card_ticks, 'card tick')}"
        because = WHY.get(cell.why, cell.why)
        yield from style.wrap(f"{first}, {hours.of(cell.gpu_ms)} GPU-hours: {because}.", indent=2, hanging=4)


def _label(card: OlderCard, style: Style, *, with_host: bool) -> str:
    index = NONE if card.index is None else str(card.index)
    host = f"{style.name(card.host, _NAME_WIDTH)} " if with_host else ""
    return f"{host}{index} {style.name(card.gpu, _NAME_WIDTH)}"
