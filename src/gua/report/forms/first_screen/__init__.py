"""Sections of the first screen, and the follow-up commands; imports no rendering code."""

from dataclasses import dataclass
from typing import Final

BRIEF: Final = ("headline", "now", "groups", "cards", "usage", "allocation")
SECTIONS: Final = (*BRIEF, "time-of-day")
"""All sections that the first screen reads from the store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The command that made the report, and the one that explains its cards; ``None`` if the store is temporary.

    ``store`` is the option that names the store to other commands, ``None`` if it is not writable. ``then`` is a
    further command to show.
    """

    report: str = "gua report"
    explain: str | None = "gua explain"
    store: str | None = ""
    then: str = ""
