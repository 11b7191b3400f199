"""The report as one JSON object, schema ``gua.report/1`` (keys are only added), and sections as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Final, cast

from gua.core.plaintext import safe
from gua.report.kit.fields import Cell, hours, number, to_json
from gua.report.model import Report
from gua.report.section_list import section_named, sections_of

SCHEMA: Final = "gua.report/1"


def json_pieces(report: Report) -> Iterator[str]:
    """Yield the report as JSON text: hours, shares and ratios as numbers, times RFC 3339 in UTC, unknown ``null``.

    Each key and each row of a section is one line. ``indent`` would use json's slow encoder in Python
    (``bench/bench_names.py``). Rows are encoded one by one: 10,000 cards' rows take five times the memory of their
    text.
    """
    before = "{\n"
    for key, value in _keys(report):
        yield f"{before}  {_json_text(key)}: "
        yield from _lines_of(value)
        before = ",\n"
    yield "\n}\n"


def _lines_of(value: object) -> Iterator[str]:
    has_lines = isinstance(value, Iterator) or (isinstance(value, list) and any(isinstance(row, dict) for row in value))
    if not has_lines:
        yield _json_text(value)
        return
    before = "[\n"
    for row in cast("Iterable[object]", value):
        yield f"{before}    {_json_text(row)}"
        before = ",\n"
    yield "[]" if before == "[\n" else "\n  ]"


def _json_text(value: object) -> str:
    return json.dumps(value, allow_nan=False)


def _keys(report: Report) -> Iterator[tuple[str, object]]:
    """Yield keys and values in a constant order; the value of a section of rows alone is an iterator.

    A section that was not requested has no key; a requested one without data is ``None``.
    """
    sections = sections_of(report.sections)
    yield from {
        "schema": SCHEMA,
        "window": to_json(report.window),
        "sections": [section.name for section in sections],
        "hosts": list(report.hosts),
        "sources": sorted({extent.source for extent in report.extents}),
        "rules": {setting.key: number(setting.value) for setting in report.rules},
        "coverage": to_json(report.coverage),
        "unknown": {reason.reason: hours(reason.gpu_ms) for reason in report.unknown},
        "streaks_skipped_card_hours": report.streaks_skipped,
    }.items()
    for section in sections:
        yield from section.to_json(report).items()
    yield from {
        "overlaps": to_json(report.overlaps),
        "filters": to_json(report.filters),
        "imported": list(report.imported),
        "silent": to_json(report.silent),
        "claimed": to_json(report.claimed),
        "skewed": to_json(report.skewed),
    }.items()


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def render_csv(report: Report, name: str) -> str:
    """Return a section as CSV with a header row, without rows if the report has no data for it."""
    section = section_named(name)
    columns = section.csv.columns
    written = io.StringIO()
    writer = csv.writer(written)  # the default is RFC 4180: commas, CRLF, quotes where needed
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in section.cells(report))
    return written.getvalue()


def _cell(value: Cell) -> str | float:
    """Return the CSV cell: numbers unchanged, text sanitized for terminals and spreadsheets."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = safe(value)
    return f"'{text}" if value.startswith(_FORMULA) or text.startswith(_FORMULA) else text
