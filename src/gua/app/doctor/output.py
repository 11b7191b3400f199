"""Findings as text and as JSON, schema "gua.doctor/1"."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Sequence
from typing import Final

from gua.app.doctor.finding import CheckState, Finding
from gua.core.plaintext import safe
from gua.report.kit.figures import plural

SCHEMA: Final = "gua.doctor/1"
_NARROWEST: Final = 40
_WIDEST: Final = 120
_MARKS: Final = {
    CheckState.OK: "ok",
    CheckState.WARNING: "warning",
    CheckState.FAILED: "FAILED",
    CheckState.SKIPPED: "-",
}


def render_json(findings: Sequence[Finding]) -> str:
    """Return the findings as one object."""
    return (
        json.dumps(
            {
                "schema": SCHEMA,
                "healthy": all(one.state is not CheckState.FAILED for one in findings),
                "checks": [
                    {
                        "id": safe(one.id),
                        "title": safe(one.title),
                        "state": one.state.value,
                        "detail": safe(one.detail),
                        "remedy": None if one.remedy is None else safe(one.remedy),
                    }
                    for one in findings
                ],
            },
            indent=2,
        )
        + "\n"
    )


def render_text(findings: Sequence[Finding], width: int) -> str:
    """Return a line a check, what to do below it, and the sum of it."""
    marks = max(map(len, _MARKS.values()))
    titles = max((len(safe(one.title)) for one in findings), default=0)
    margin = " " * (marks + titles + 4)
    lines: list[str] = []
    for one in findings:
        head = f"{_MARKS[one.state]:<{marks}}  {safe(one.title):<{titles}}  "
        lines += _wrapped(safe(one.detail), width, first=head, rest=margin)
        if one.remedy and one.state in {CheckState.WARNING, CheckState.FAILED}:
            lines += _wrapped(safe(one.remedy), width, first=f"{margin}-> ", rest=f"{margin}   ")
    count = {kind: sum(one.state is kind for one in findings) for kind in CheckState}
    warnings = plural(count[CheckState.WARNING], "warning")
    verdict = f"{count[CheckState.FAILED]} failed" if count[CheckState.FAILED] else "nothing failed"
    return "\n".join([*lines, "", f"{verdict}, {warnings}"]) + "\n"


def _wrapped(text: str, width: int, *, first: str, rest: str) -> list[str]:
    # A path or a uuid is worth more in one piece than within the margin.
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


def text_width() -> int:
    """Return how wide text is to be: as the terminal, within reason."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, _NARROWEST), _WIDEST)
