"""Explanation as text for terminals from 20 columns on, and as JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, Final

from gua.core.moments import local_day, local_time, to_rfc3339, zone
from gua.core.plaintext import cells, pad, pad_left
from gua.core.rules import State
from gua.core.words import HARDWARE, HEAT, POWER_CAP, ROW_REMAPS, held_down_by, recovery_need
from gua.report.explain.explain import ExplainedPart, ExplainedTick, Explanation
from gua.report.explain.model import (
    CARD_VALUES,
    FLAG,
    JUDGED_VALUES,
    NO,
    NOT_KNOWN,
    PROCESS_FACTS,
    PROCESS_VALUES,
    YES,
    ExplainedProcessRow,
    TickRow,
    Value,
    ratio_text,
)
from gua.report.kit.basis import REASONS, SOURCES, moment, size
from gua.report.kit.fields import json_of
from gua.report.kit.figures import plural, span
from gua.report.kit.style import Style
from gua.report.states import UNOBSERVED

NOT_ALLOCATED: Final = "Not allocated"
_LABEL_WIDTH: Final = 22
_SIDE_BY_SIDE_FROM: Final = 48
_NAME_WIDTH: Final = 60
_LEAST_HOLE_MS: Final = 1000
_SURROUNDINGS: Final = ("container_id", "pod_uid", "slurm_job_id", "systemd_unit")
_WORK: Final = ("workload_kind", "workload_model")  # unknown for most processes
NOBODY: Final = (
    "No process was there: none was listed at the start or at the end of the tick, none had utilization samples in "
    "it, and no memory was held. The time counts as active, as something may have run between two reads. Over ten "
    "minutes of it are stuck utilization, which gua doctor on the host explains."
)
_RATIOS: Final = ("active_utilization", "held_memory_ratio")


def render_explanation(explanation: Explanation, style: Style) -> str:
    """Return the explanation as text, no line wider than the style's width."""
    lines = [*_what(explanation, style), "", *_settings(explanation, style)]
    if explanation.covering is not None:
        lines += ["", *_why(explanation.covering, style)]
        for part in explanation.covering.parts:
            lines += ["", *_use(part, explanation, style)]
    lines += ["", *_values(explanation, style)]
    lines += _processes(explanation, style)
    return "\n".join(lines) + "\n"


def _what(explanation: Explanation, style: Style) -> Iterator[str]:
    card, tick = explanation.card, explanation.covering
    index = "" if card.gpu_index is None else f" {card.gpu_index}"
    name = style.name(card.name, _NAME_WIDTH) if card.name else "a card of unknown name"
    host, gpu = style.name(card.host, _NAME_WIDTH), style.name(card.gpu, _NAME_WIDTH)
    yield from style.wrap(f"Card{index} of {host}: {name}, {gpu}", indent=0, hanging=2)
    at = f"{moment(explanation.at_ms, explanation.timezone)} {explanation.timezone}"
    if tick is None:
        yield from style.wrap(
            f"{at}: {UNOBSERVED}. No tick covers that moment: {_hole(explanation)}", indent=0, hanging=2
        )
        return
    state, reason = tick.row.state, tick.row.reason
    why = f" ({REASONS.get(reason, style.name(reason))})" if reason else ""
    lines = style.wrap(f"{at}: {state}{why}, by line {tick.branches[-1].line} of the rules.", indent=0, hanging=2)
    for line in lines:
        yield style.state(line, state)
    source = tick.row.source or NOT_KNOWN
    covered, length_seconds = tick.row.utilization_coverage_ms, (tick.row.ts_ms - tick.start_ms) / 1000
    coverage = "utilization is one instant value, no sample covers the time before"
    if covered is None:
        coverage = "how much of it utilization samples cover is not known"
    elif covered:
        coverage = f"utilization samples cover {covered / 1000:.1f} of its {length_seconds:.1f} s"
    start, end = (moment(unix_ms, explanation.timezone) for unix_ms in (tick.start_ms, tick.row.ts_ms))
    text = (
        f"It lies in the tick from {start} to {end} ({length_seconds:.1f} s); {coverage}; "
        f"{SOURCES.get(source) or style.name(source)}."
    )
    yield from style.wrap(text, indent=2)
    if troubles := list(_troubles(tick)):
        yield from style.wrap(f"The driver reports: {'; '.join(troubles)}.", indent=2)
    if tick.row.without_process:
        yield from style.wrap(NOBODY, indent=2)
    if not tick.agrees:
        decided = tick.branches[-1].state
        yield from style.warning(
            f"The rules of this gua come to {decided}: the store's are of another version, see gua schema check"
        )


def _troubles(tick: ExplainedTick) -> Iterator[str]:
    """Yield what slowed the card down or indicates a fault: clock limits, XID, ECC errors, row remapping."""
    row = tick.row
    if slowed := held_down_by((row.clock_reasons or 0) & (HEAT | HARDWARE | POWER_CAP)):
        yield f"clocks held down by {', '.join(slowed)}"
    if row.xid_errors or row.xid is not None:
        yield plural(row.xid_errors or 1, "XID event") + ("" if row.xid is None else f", the newest {row.xid}")
    if row.ecc_errors:
        yield plural(row.ecc_errors, "uncorrected ECC error")
    if row.row_remap:
        yield f"remapping of memory rows {ROW_REMAPS.get(row.row_remap, str(row.row_remap))}"
    if row.recovery_action:
        yield f"the card needs {recovery_need(row.recovery_action)}"


def _hole(explanation: Explanation) -> str:
    at_ms, before, after = explanation.at_ms, "", ""
    if explanation.before is not None:
        end_ms = explanation.before[1]
        before = f"the tick before ended {span(at_ms - end_ms)} earlier, at {moment(end_ms, explanation.timezone)}"
    if explanation.after is not None:
        start_ms = explanation.after[0]
        after = f"the next began {span(start_ms - at_ms)} later, at {moment(start_ms, explanation.timezone)}"
    if not before:
        return f"there is none before it, {after}."
    return f"{before}; {after or 'there is none after it'}."


def _why(tick: ExplainedTick, style: Style) -> Iterator[str]:
    yield from style.heading("Why: the first line of the rules that fits decides")
    for branch in tick.branches:
        outcome = f"{branch.state}" + (f", {branch.reason}" if branch.reason and branch.fits else "")
        fits = YES if branch.fits else NO
        if style.width < _SIDE_BY_SIDE_FROM:
            label = f"{branch.line} {outcome}: {fits}"
        else:
            label = f"{branch.line:<3}{outcome:<{_LABEL_WIDTH - 6}}{fits}"
        lines = _labelled(label, branch.text, style)
        yield from (style.state(line, branch.state) if branch.fits else line for line in lines)


def _use(part: ExplainedPart, explanation: Explanation, style: Style) -> Iterator[str]:
    """Yield a part's allocation, its use, and the rules' lines that decided it."""
    row = part.row
    if row.source:
        title = f"Allocation {style.name(row.source, _NAME_WIDTH)} {style.name(row.allocation_id, _NAME_WIDTH)}"
    else:
        title = NOT_ALLOCATED if row.is_allocation_known else "Unknown whether allocated"
    yield from style.heading(f"{title}: {row.use}, by line {part.lines[-1].line} of the uses")
    yield from style.wrap(", ".join(_allocation(part, explanation, style)), indent=2)
    for one in part.lines:
        yield from _labelled(f"{one.line:<3}{YES if one.fits else NO}", one.text, style)


def _allocation(part: ExplainedPart, explanation: Explanation, style: Style) -> Iterator[str]:
    """Yield a part's owner, job or pod, start and end, and its GPU time in the tick [s]."""
    row = part.row
    if row.source:
        yield f"of {NOT_KNOWN if row.owner is None else style.name(row.owner, _NAME_WIDTH)}"
        pod = "/".join(filter(None, (row.pod_namespace, row.pod_name)))
        for label, name in (("", row.kind), ("job ", row.job_name), ("pod ", pod or row.pod_uid)):
            if name:
                yield f"{label}{style.name(name, _NAME_WIDTH)}"
        if row.since_ms is not None:
            yield f"since {moment(row.since_ms, explanation.timezone)}"
        yield "until nobody says" if row.until_ms is None else f"until {moment(row.until_ms, explanation.timezone)}"
    yield f"{row.gpu_time_ms / 1000:.1f} s of the tick's GPU time"


def _settings(explanation: Explanation, style: Style) -> Iterator[str]:
    yield style.title("Settings in force")
    for setting in explanation.settings:
        value = ratio_text(round(setting.value * 10_000)) if setting.key in _RATIOS else size(setting.value)
        changed = "the default" if setting.is_default else "changed, not the default"
        yield from _labelled(style.name(setting.key, _LABEL_WIDTH), f"{value}  ({changed})", style)


def _values(explanation: Explanation, style: Style) -> Iterator[str]:
    columns = _Columns(explanation, style)
    yield from columns.head("Values")
    yield from columns.row("state", [tick.row.state for tick in columns.ticks])
    yield from columns.row("why unknown", [tick.row.reason or "" for tick in columns.ticks])
    ends = {tick.row.ts_ms: before.row.ts_ms for before, tick in pairwise(explanation.ticks)}
    holes = [tick.start_ms - ends.get(tick.row.ts_ms, tick.start_ms) for tick in columns.ticks]
    yield from columns.row("unobserved before it", [span(hole) if hole >= _LEAST_HOLE_MS else "" for hole in holes])
    rows = [tick.row for tick in columns.ticks]
    values = [one for one in CARD_VALUES if not one.is_optional or any(one.of(row) is not None for row in rows)]
    zeros = [value for value in values if all(value.of(row) == 0 for row in rows)]
    judged = [one for one in JUDGED_VALUES if not one.is_optional or any(one.of(row) for row in rows)]
    yield from columns.rows((*judged, *(value for value in values if value not in zeros)), rows)
    if zeros:
        text = f"and {plural(len(zeros), 'value')} of 0 or no in all of these ticks, which --json has"
        yield from style.wrap(text, indent=2)
    yield from columns.left_out()


def _processes(explanation: Explanation, style: Style) -> Iterator[str]:
    columns = _Columns(explanation, style)
    known: dict[tuple[int, int | None], ExplainedProcessRow] = {}
    for tick in columns.ticks:
        for process in tick.processes:
            known[process.pid, process.created_ms] = process
    if not known:
        yield ""
        yield from style.wrap("No process is listed in these ticks.", indent=0)
        return
    for (pid, created_ms), newest in known.items():
        yield ""
        began = f"started {moment(created_ms, explanation.timezone)}" if created_ms is not None else "start not known"
        yield from columns.head(f"Process {pid}")
        # Unknown for most processes: no container, no declared workload.
        rare = {*_SURROUNDINGS, *_WORK}
        known_facts = [fact for fact in PROCESS_FACTS if fact.of(newest) is not None or fact.column not in rare]
        facts = [f"{fact.label} {style.name(fact.text(fact.of(newest)), _NAME_WIDTH)}" for fact in known_facts]
        if all(getattr(newest, column) is None for column in _SURROUNDINGS):
            facts.append("no container, pod, job or unit known")
        yield from style.wrap(", ".join([began, *facts]), indent=2)
        rows = [
            next((row for row in tick.processes if (row.pid, row.created_ms) == (pid, created_ms)), None)
            for tick in columns.ticks
        ]
        yield from columns.row("state", ["not there" if row is None else row.state for row in rows])
        yield from columns.rows(PROCESS_VALUES, rows)


class _Columns:
    """A table with a column a tick: the covering tick, marked, and as many neighbours as fit."""

    def __init__(self, explanation: Explanation, style: Style) -> None:
        self._explanation = explanation
        self._style = style
        self._zone = zone(explanation.timezone)
        days = {local_day(tick.row.ts_ms, self._zone) for tick in explanation.ticks}
        self._one_day = days <= {local_day(explanation.at_ms, self._zone)}
        values = [value for value in (*JUDGED_VALUES, *CARD_VALUES) if value.unit]
        texts = [value.text(value.of(tick.row)) for tick in explanation.ticks for value in values]
        states = [text or "" for tick in explanation.ticks for text in (tick.row.state, tick.row.reason)]
        self._width = max([11 if self._one_day else 15, *map(cells, (*states, *texts))])
        room = max((style.width - 2 - _LABEL_WIDTH) // (self._width + 2), 1)
        most = room if style.width >= _SIDE_BY_SIDE_FROM else 1
        middle = explanation.at_ms if explanation.covering is None else explanation.covering.row.ts_ms
        near = sorted(explanation.ticks, key=lambda tick: abs(tick.row.ts_ms - middle))[:most]
        self.ticks = sorted(near, key=lambda tick: tick.row.ts_ms)

    def head(self, title: str) -> Iterator[str]:
        """Yield the title with the end of each column's tick."""
        times = [self._time(tick) for tick in self.ticks]
        if self._style.width < _SIDE_BY_SIDE_FROM:
            yield self._style.title(title)
            yield from self.row("tick", times)
            return
        line = self._line(title, times, indent=0)
        yield self._style.title(line.rstrip())

    def row(self, label: str, texts: Sequence[str]) -> Iterator[str]:
        """Yield a line with one text a tick, nothing if all are empty."""
        if not any(texts):
            return
        if self._style.width < _SIDE_BY_SIDE_FROM:
            yield from _labelled(label, texts[0], self._style)
            return
        line = self._line(label, texts, indent=2)
        yield self._style.state(line, texts[-1]) if texts[-1] in set(State) and len(set(texts)) == 1 else line

    def rows(self, values: Iterable[Value], rows: Sequence[TickRow | ExplainedProcessRow | None]) -> Iterator[str]:
        """Yield a line for each value."""
        for value in values:
            texts = ["" if row is None else value.text(value.of(row)) for row in rows]
            yield from self.row(value.label, texts if value.unit else [self._style.name(text, 13) for text in texts])

    def left_out(self) -> Iterator[str]:
        """Yield the number of ticks that did not fit."""
        rest = len(self._explanation.ticks) - len(self.ticks)
        if rest > 0:
            text = f"{rest} more of these ticks with a wider terminal (--width), all of them with --json"
            yield from self._style.wrap(text, indent=2)

    def _line(self, label: str, texts: Sequence[str], *, indent: int) -> str:
        head = pad(" " * indent + label, 2 + _LABEL_WIDTH)
        return (head + "".join("  " + pad_left(text, self._width) for text in texts)).rstrip()

    def _time(self, tick: ExplainedTick) -> str:
        mark = ">" if tick is self._explanation.covering else ""
        local = local_time(tick.row.ts_ms, self._zone)
        return f"{mark}{local:%H:%M:%S}" if self._one_day else f"{mark}{local:%m-%d %H:%M:%S}"


def _labelled(label: str, text: str, style: Style) -> Iterator[str]:
    """Yield ``label  text``; in a narrow terminal the text is below its label."""
    if style.width < _SIDE_BY_SIDE_FROM:
        yield from style.wrap(label, indent=1, hanging=2)
        yield from style.wrap(text, indent=3)
        return
    for place, line in enumerate(style.wrap(text, indent=4 + _LABEL_WIDTH)):
        yield line if place else f"  {pad(label, _LABEL_WIDTH)}  {line.lstrip()}"


SCHEMA: Final = "gua.explain/1"
_WHOSE: Final = ("owner", "uid", "kind", "job_name", "pod_uid", "pod_name", "pod_namespace")


def render_explanation_json(explanation: Explanation) -> str:
    """Return the explanation as JSON; times are RFC 3339 UTC, unknown is null, an uncovered time is ``unobserved``."""
    card, tick = explanation.card, explanation.covering
    explained = {
        "schema": SCHEMA,
        "host": card.host,
        "card": {name: value for name, value in json_of(card).items() if name != "host"},
        "time": to_rfc3339(explanation.at_ms),
        "timezone": explanation.timezone,
        "state": UNOBSERVED if tick is None else tick.row.state,
        "reason": None if tick is None else tick.row.reason,
        "rule": None if tick is None else tick.branches[-1].line,
        "rules": [asdict(one) for one in explanation.settings],
        "covered_by": None if tick is None else to_rfc3339(tick.row.ts_ms),
        "before": _span(explanation.before),
        "after": _span(explanation.after),
        "ticks": [_tick_json(one) for one in explanation.ticks],
    }
    return json.dumps(explained, indent=2, allow_nan=False) + "\n"


def _span(span: tuple[int, int] | None) -> dict[str, str] | None:
    return None if span is None else {"start": to_rfc3339(span[0]), "end": to_rfc3339(span[1])}


def _tick_json(tick: ExplainedTick) -> dict[str, Any]:
    return {
        "time": to_rfc3339(tick.row.ts_ms),
        "start": to_rfc3339(tick.start_ms),
        "state": tick.row.state,
        "reason": tick.row.reason,
        "rule": tick.branches[-1].line,
        "rules_agree": tick.agrees,
        "lines": [branch._asdict() for branch in tick.branches],
        "judged": _values_json(JUDGED_VALUES, tick.row),
        "values": _values_json(CARD_VALUES, tick.row),
        "processes": [
            {
                "pid": process.pid,
                "created": None if process.created_ms is None else to_rfc3339(process.created_ms),
                "state": process.state,
                **{fact.column: fact.of(process) for fact in PROCESS_FACTS},
                "values": _values_json(PROCESS_VALUES, process),
            }
            for process in tick.processes
        ],
        "parts": [_part_json(part) for part in tick.parts],
    }


def _part_json(part: ExplainedPart) -> dict[str, Any]:
    row = part.row
    return {
        "source": row.source or None,
        "allocation_id": row.allocation_id or None,
        **{name: getattr(row, name) for name in _WHOSE},
        "since": None if row.since_ms is None else to_rfc3339(row.since_ms),
        "until": None if row.until_ms is None else to_rfc3339(row.until_ms),
        "relation": row.relation if row.source else None,
        "use": row.use,
        "line": part.lines[-1].line,
        "rules_agree": part.agrees,
        "lines": [one._asdict() for one in part.lines],
        "covered_seconds": row.duration_ms / 1000,
        "gpu_seconds": row.gpu_time_ms / 1000,
    }


def _values_json(values: Iterable[Value], row: TickRow | ExplainedProcessRow) -> list[dict[str, Any]]:
    return [
        {
            "name": value.column,
            "value": value.number(value.of(row)),
            "unit": None if value.unit == FLAG else value.unit,
        }
        for value in values
    ]
