"""Which sections the first screen is made of: no more of them is asked of the store."""

from __future__ import annotations

from typing import Final

BRIEF: Final = ("headline", "now", "groups", "cards", "usage", "allocation")
SECTIONS: Final = (*BRIEF, "time-of-day")
