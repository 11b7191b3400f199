"""Findings of checks with their remedies, as text and as JSON, schema "gua.doctor/1"."""

import json
import re
import textwrap
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

from gua.core.errors import GuaError
from gua.core.plaintext import safe
from gua.report.kit.figures import plural, ranges


class CheckState(StrEnum):
    """Result of a check; ``failed`` concerns something that the agent needs, ``skipped`` does not apply here."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Result of one check: a stable id, its subject, the detail, and a remedy unless all is well."""

    id: str
    title: str
    state: CheckState
    detail: str
    remedy: str | None = None


_TITLES: Final = {
    "library": "NVML library",
    "devices": "device files",
    "boot": "boot id",
    "proc": "processes",
    "pid_namespace": "PID namespace",
    "allocation_note": "allocation",
}


def _finding(state: CheckState, name: str, detail: str, remedy: str | None = None, title: str | None = None) -> Finding:
    """Return a finding; the default title is its id with spaces."""
    title = title or _TITLES.get(name, name.replace("_", " "))
    return Finding(id=name, title=title, state=state, detail=detail, remedy=remedy)


ok = partial(_finding, CheckState.OK)
"""Returns a finding that needs no action."""
skipped = partial(_finding, CheckState.SKIPPED)
"""Returns a finding for a check that does not apply here."""
warning = partial(_finding, CheckState.WARNING)
"""Returns a finding on something that the agent works without, with the remedy."""
failed = partial(_finding, CheckState.FAILED)
"""Returns a finding on something that the agent needs, with the remedy."""


def ok_if(good: bool, name: str, detail: str, otherwise: str, remedy: str) -> Finding:
    """Return an ok finding, or a warning with the remedy."""
    return ok(name, detail) if good else warning(name, otherwise, remedy)


def error_finding(name: str, error: GuaError | str, *, state: CheckState = CheckState.FAILED) -> Finding:
    """Return an error as a finding; its hints, or the text after its last colon, become the remedy."""
    text = str(error)
    if isinstance(error, GuaError) and error.hints:
        return _finding(state, name, text, "; ".join(error.hints))
    detail, colon, remedy = text.rpartition(": ")
    return _finding(state, name, detail if colon else text, remedy if colon else "correct what it names")


SCHEMA: Final = "gua.doctor/1"
_CARD: Final = re.compile(r"card ([0-9]+)( MIG)?", re.ASCII)
_MARKS: Final = {
    CheckState.OK: "ok",
    CheckState.WARNING: "warning",
    CheckState.FAILED: "FAILED",
    CheckState.SKIPPED: "-",
}


def render_json(findings: Sequence[Finding]) -> str:
    """Return the findings as one JSON object."""
    checks = [{name: None if text is None else safe(text) for name, text in asdict(one).items()} for one in findings]
    healthy = all(one.state is not CheckState.FAILED for one in findings)
    return json.dumps({"schema": SCHEMA, "healthy": healthy, "checks": checks}, indent=2) + "\n"


def render_text(findings: Sequence[Finding], width: int) -> str:
    """Return the findings as text: a line each, remedies below, and the counts at the end."""
    marks = max(map(len, _MARKS.values()))
    shown = folded(findings)
    titles = max((len(safe(one.title)) for one in shown), default=0)
    margin = " " * (marks + titles + 4)
    lines: list[str] = []
    for one in shown:
        head = f"{_MARKS[one.state]:<{marks}}  {safe(one.title):<{titles}}  "
        lines += _wrapped(safe(one.detail), width, first=head, rest=margin)
        if one.remedy and one.state in {CheckState.WARNING, CheckState.FAILED}:
            lines += _wrapped(safe(one.remedy), width, first=f"{margin}-> ", rest=f"{margin}   ")
    count = {kind: sum(one.state is kind for one in findings) for kind in CheckState}
    warnings = plural(count[CheckState.WARNING], "warning")
    verdict = f"{count[CheckState.FAILED]} failed" if count[CheckState.FAILED] else "nothing failed"
    return "\n".join([*lines, "", f"{verdict}, {warnings}"]) + "\n"


def folded(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with identical ones of several cards merged, at the place of the first."""
    alike: dict[Hashable, list[Finding]] = {}
    for one in findings:
        card = _CARD.fullmatch(one.title)
        detail = one.detail.replace(f" ({one.id.removeprefix('card.')})", "")
        key = (card[2], one.state, detail, one.remedy) if card else one
        alike.setdefault(key, []).append(one)
    return [same[0] if len(same) == 1 else _of_all(same) for same in alike.values()]


def _of_all(cards: Sequence[Finding]) -> Finding:
    first = cards[0]
    matches = [match for match in (_CARD.fullmatch(one.title) for one in cards) if match]
    return replace(
        first,
        title=f"cards {ranges(int(match[1]) for match in matches)}{matches[0][2] or ''}",
        detail=first.detail.replace(f" ({first.id.removeprefix('card.')})", f" ({len(cards)} cards)"),
    )


def _wrapped(text: str, width: int, *, first: str, rest: str) -> list[str]:
    # Paths and UUIDs stay whole even if they exceed the width.
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]
