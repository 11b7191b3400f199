"""One section of a report as CSV (RFC 4180): a header row with units, numbers in full precision, unknown as nothing.

Text that a spreadsheet would take for a formula gets a ``'`` before it, as OWASP has it: names come from processes and
hosts, and a program may call itself ``=HYPERLINK(...)``.
"""

from __future__ import annotations

import csv
import io
from typing import Final

from gua.core.plaintext import safe
from gua.report.kit.fields import Cell
from gua.report.model import Report
from gua.report.section_list import section_named

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def render_csv(report: Report, name: str) -> str:
    """Return a section as CSV with a header row; no row where the report has nothing of it."""
    section = section_named(name)
    columns = section.csv.columns
    written = io.StringIO()
    writer = csv.writer(written)  # its default is RFC 4180: commas, CRLF, quotes where needed
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in section.cells(report))
    return written.getvalue()


def _cell(value: Cell) -> str | float:
    """Return what is written: numbers as they are, text harmless for a terminal and for a spreadsheet."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    text = safe(value)
    return f"'{text}" if value.startswith(_FORMULA) or text.startswith(_FORMULA) else text
