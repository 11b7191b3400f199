"""Enumerations and bit masks shared by ticks, stored rows and reports."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Source(StrEnum):
    """Producer of the tick (resource attribute ``gua.source``)."""

    AGENT = "agent"
    IMPORT = "import"
    PROGRAM = "program"
    SIMULATOR = "simulator"


class ProcessList(StrEnum):
    """Whether the card's process list is valid, or why it is not (``gua.gpu.process.list``)."""

    KNOWN = "known"
    FAILED = "failed"
    PID_NAMESPACE = "pid_namespace"
    ABSENT = "absent"


class ProcessType(StrEnum):
    """NVML process list that names the process, or that the rules ignore it (``gua.process.type``)."""

    COMPUTE = "compute"
    GRAPHICS = "graphics"
    MPS = "mps"
    IGNORED = "ignored"


class Mig(StrEnum):
    """Role of the card in Multi-Instance GPU mode (``gua.gpu.mig``)."""

    NONE = "none"
    PARENT = "parent"
    INSTANCE = "instance"


class AllocationStatus(StrEnum):
    """Whether the card was allocated during the tick (``gua.gpu.allocation``)."""

    ALLOCATED = "allocated"
    UNALLOCATED = "unallocated"
    UNKNOWN = "unknown"


class Relation(StrEnum):
    """Which counted processes were on an allocated card (``gua.allocation.relation``).

    CO_OWNERS: only processes of the card's other allocations at the same time. SOLE: the processes are unknown, and it
    was the card's only allocation: what the card did counts as its own.
    """

    OWNER = "owner"
    BOTH = "both"
    OTHERS = "others"
    CO_OWNERS = "co-owners"
    NOBODY = "nobody"
    SOLE = "sole"
    UNKNOWN = "unknown"


class Use(StrEnum):
    """Use of a part of a card tick's GPU time by its allocation's owner or others, as in docs/rules.md."""

    USED = "used"
    HELD = "held"
    USED_BY_OTHERS = "used-by-others"
    EMPTY = "empty"
    UNALLOCATED_USE = "unallocated-use"
    FREE = "free"
    UNKNOWN = "unknown"


# Bits of NVML's clocks event reasons (why clocks are reduced), and their words in reports.
# https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
IDLENESS: Final = 0x01
POWER_CAP: Final = 0x04
HARDWARE: Final = 0x08 | 0x80
"""Hardware slowdown (heat, power brake or power spikes), and the external power brake."""
HEAT: Final = 0x20 | 0x40
"""Thermal slowdown by software and by hardware."""
_CLOCK_REASONS: Final = (
    (HEAT, "heat"),
    (HARDWARE, "hardware"),
    (POWER_CAP, "power cap"),
    (IDLENESS, "idleness"),
    (0x02, "settings"),
    (0x10, "sync boost"),
    (0x100, "display"),
)
_RESET: Final = "nvidia-smi --gpu-reset -i {}"
# NVML's documented recovery actions and how to do them, for a card's index. Others have no name: 5 is a bus reset in
# nvidia-ml-py 13.580, and recovery of the IMEX domain from 13.610 on.
# https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html
_RECOVERY_ACTIONS: Final[Mapping[int, tuple[str, str]]] = {
    0: ("none", ""),
    1: ("reset", f"end its processes, then {_RESET}"),
    2: ("reboot", "reboot the host"),
    3: ("drain", "end its processes with peer-to-peer traffic, turn off UVM persistence mode, and look again"),
    4: ("drain and reset", f"start no new work on it; when its processes have ended, {_RESET}"),
}
ROW_REMAPS: Final[Mapping[int, str]] = {0: "nothing to do", 1: "pending", 2: "failed", 3: "pending and failed"}


def held_down_by(reasons: int) -> list[str]:
    """Return the words for the set bits, slowdowns first. Unknown bits are skipped."""
    return [word for bits, word in _CLOCK_REASONS if reasons & bits]


def recovery_action(code: int) -> str:
    """Return the name of a recovery action: ``none``, ``reset``, ``code 9`` for one without a name."""
    return _RECOVERY_ACTIONS.get(code, (f"code {code}", ""))[0]


def recovery_need(code: int) -> str:
    """Return what a card needs: ``a reset``, ``attention (recovery action code 9)``."""
    name = recovery_action(code)
    return f"a {name}" if code in _RECOVERY_ACTIONS else f"attention (recovery action {name})"


def recovery_steps(code: int, index: int | None) -> str:
    """Return how to do a recovery action; a card of unknown index is ``N`` in commands."""
    steps = _RECOVERY_ACTIONS.get(code, ("", "look at nvidia-smi -q and at dmesg"))[1]
    return steps.format("N" if index is None else index)
