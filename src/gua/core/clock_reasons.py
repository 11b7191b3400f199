"""Why a card's clocks were held down: the bits of NVML's clocks event reasons, and words for them.

https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

IDLENESS: Final = 0x01
POWER_CAP: Final = 0x04
HARDWARE: Final = 0x08 | 0x80
"""Hardware slowdown (heat, power brake, power spikes) and the external power brake."""
HEAT: Final = 0x20 | 0x40
"""By software and by hardware."""
_WORDS: Final = (
    (HEAT, "heat"),
    (HARDWARE, "hardware"),
    (POWER_CAP, "power cap"),
    (IDLENESS, "idleness"),
    (0x02, "settings"),
    (0x10, "sync boost"),
    (0x100, "display"),
)
ROW_REMAPS: Final[Mapping[int, str]] = {0: "nothing to do", 1: "pending", 2: "failed", 3: "pending and failed"}


def held_down_by(reasons: int) -> list[str]:
    """Return the words for the bits that are set, slowdowns first; bits that nobody knows have none."""
    return [word for bits, word in _WORDS if reasons & bits]
