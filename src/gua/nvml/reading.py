"""What a card and an instance have in common once they were read."""

from __future__ import annotations

from dataclasses import replace

from gua.core.tick import CardReading, ProcessList
from gua.nvml.calls import Calls
from gua.nvml.memory import DeviceMemory
from gua.nvml.processes import Listing
from gua.nvml.utilization import Instant


def failed_since(calls: Calls, before: int) -> bool | None:
    """Return that a card has not failed if anything was answered since ``before``; else nobody knows.

    Only what the card does proves it: who it is, how it is cut and how it is addressed, the driver may tell of a
    card that is dead.
    """
    return False if calls.answers > before else None


def read_with(card: CardReading, memory: DeviceMemory, listing: Listing, instant: Instant | None = None) -> CardReading:
    """Return the card with its memory, whether its list is known, and its utilization right now."""
    now = Instant() if instant is None else instant
    return replace(
        card,
        process_list=ProcessList.KNOWN if listing.known else ProcessList.FAILED,
        memory_used_bytes=memory.used,
        memory_limit_bytes=memory.limit,
        memory_reserved_bytes=memory.reserved,
        utilization=now.general,
        utilization_encoder=now.encoder,
        utilization_decoder=now.decoder,
    )
