"""What one check found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gua.core.errors import GuaError


class CheckState(StrEnum):
    """How a check came out; ``failed`` is something that the agent needs, ``skipped`` does not apply here."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One check: a stable id, what was looked at, what was seen, and what to do unless all is well."""

    id: str
    title: str
    state: CheckState
    detail: str
    remedy: str | None = None


def ok(name: str, title: str, detail: str) -> Finding:
    """Return a finding that asks for nothing."""
    return Finding(id=name, title=title, state=CheckState.OK, detail=detail)


def skipped(name: str, title: str, detail: str) -> Finding:
    """Return a finding about something that does not apply here."""
    return Finding(id=name, title=title, state=CheckState.SKIPPED, detail=detail)


def warning(name: str, title: str, detail: str, remedy: str) -> Finding:
    """Return a finding about something that the agent can do without, and what is lost."""
    return Finding(id=name, title=title, state=CheckState.WARNING, detail=detail, remedy=remedy)


def failed(name: str, title: str, detail: str, remedy: str) -> Finding:
    """Return a finding about something that the agent needs."""
    return Finding(id=name, title=title, state=CheckState.FAILED, detail=detail, remedy=remedy)


def of_error(name: str, title: str, error: GuaError | str, *, state: CheckState = CheckState.FAILED) -> Finding:
    """Return an error as a finding: its message says what and, after the last colon, what to do."""
    text = str(error)
    if isinstance(error, GuaError) and error.hints:
        return Finding(id=name, title=title, state=state, detail=text, remedy="; ".join(error.hints))
    detail, colon, remedy = text.rpartition(": ")
    return Finding(
        id=name,
        title=title,
        state=state,
        detail=detail if colon else text,
        remedy=remedy if colon else "correct what it names",
    )
