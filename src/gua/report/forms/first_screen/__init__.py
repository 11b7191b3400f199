"""The first screen: which sections it is made of, and the commands that go on from it; imports nothing that draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BRIEF: Final = ("headline", "now", "groups", "cards", "usage", "allocation")
SECTIONS: Final = (*BRIEF, "time-of-day")
"""No more of them is asked of the store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The command that made a report, and what explains its cards; ``None`` where their store is gone.

    ``store`` is what names the store to other commands, ``None`` where nothing can be written into it.
    """

    report: str = "gua report"
    explain: str | None = "gua explain"
    store: str | None = ""
    then: str = ""
