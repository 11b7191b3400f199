"""The words that ticks, stored rows and reports have in common: what one of a few things a value is."""

from __future__ import annotations

from enum import StrEnum


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
