"""The words that ticks, stored rows and reports have in common: what one of a few things a value is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Source(StrEnum):
    """Who made the tick (resource attribute ``gua.source``)."""

    AGENT = "agent"
    IMPORT = "import"
    SIMULATOR = "simulator"


class ProcessList(StrEnum):
    """Whether the list of a card's processes can be believed (``gua.gpu.process.list``)."""

    KNOWN = "known"
    FAILED = "failed"
    PID_NAMESPACE = "pid_namespace"
    ABSENT = "absent"


class ProcessType(StrEnum):
    """On which NVML list the process stood, or that the rules leave it out (``gua.process.type``)."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"
    MPS = "mps"
    IGNORED = "ignored"


class Mig(StrEnum):
    """The card's part in Multi-Instance GPU (``gua.gpu.mig``)."""

    NONE = "none"
    PARENT = "parent"
    INSTANCE = "instance"


class AllocationStatus(StrEnum):
    """Whether anybody was promised the card during the tick (``gua.gpu.allocation``)."""

    ALLOCATED = "allocated"
    UNALLOCATED = "unallocated"
    UNKNOWN = "unknown"


class Relation(StrEnum):
    """Whose counted processes were on an allocated card (``gua.allocation.relation``).

    CO_OWNERS: only processes of the card's other allocations, with which this one shares it.
    """

    OWNER = "owner"
    BOTH = "both"
    OTHERS = "others"
    CO_OWNERS = "co-owners"
    NOBODY = "nobody"
    UNKNOWN = "unknown"


class Use(StrEnum):
    """What became of a part of a card tick's GPU time."""

    USED = "used"
    HELD = "held"
    USED_BY_OTHERS = "used-by-others"
    EMPTY = "empty"
    UNALLOCATED_USE = "unallocated-use"
    FREE = "free"
    UNKNOWN = "unknown"


# Why a card's clocks were held down: the bits of NVML's clocks event reasons, and words for them.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
IDLENESS: Final = 0x01
POWER_CAP: Final = 0x04
HARDWARE: Final = 0x08 | 0x80
"""Hardware slowdown (heat, power brake, power spikes) and the external power brake."""
HEAT: Final = 0x20 | 0x40
"""By software and by hardware."""
_CLOCK_REASONS: Final = (
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
    return [word for bits, word in _CLOCK_REASONS if reasons & bits]
