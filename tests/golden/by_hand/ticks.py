"""The ten ticks of README.md beside this file."""

from __future__ import annotations

from dataclasses import replace

from fakes.attribution import attribute
from gua.core.tick import CardReading, Origin, ProcessReading, Tick
from gua.core.words import Mig, ProcessList, ProcessType, Source

MINUTE_MS = 60_000
START_MS = 1_774_430_640_000  # 2026-03-25T09:24:00Z
GIB = 2**30

ORIGIN = Origin(host="lab-1", source=Source.AGENT, interval_ms=MINUTE_MS, instance_id="by-hand")

ALICE = ProcessReading(pid=11, created_ms=START_MS, owner="alice", uid=1001, comm="python", memory_bytes=8 * GIB)
ALICE_2 = replace(ALICE, pid=12)
BOB = ProcessReading(pid=21, created_ms=START_MS, owner="bob", uid=1002, comm="train", memory_bytes=8 * GIB)
CAROL = ProcessReading(
    pid=31, created_ms=START_MS, owner="carol", uid=1003, comm="sim", memory_bytes=4 * GIB, container_id="c0ffee"
)
XORG = ProcessReading(
    pid=41, owner="root", uid=0, comm="Xorg", type=ProcessType.IGNORED, memory_bytes=50 * 2**20, created_ms=START_MS
)


def card(
    index: int, utilization: float | None, *processes: ProcessReading, used_bytes: int | None = None
) -> CardReading:
    """Return one card over a minute; its memory in use is its processes' by default."""
    return attribute(
        CardReading(
            uuid=f"GPU-{'ab'[index]}",
            index=index,
            name="NVIDIA H100 80GB HBM3",
            model="H100",
            mig=Mig.NONE,
            duration_ms=MINUTE_MS,
            gpu_time_ms=MINUTE_MS,
            utilization=utilization,
            memory_used_bytes=sum(each.memory_bytes or 0 for each in processes) if used_bytes is None else used_bytes,
            memory_limit_bytes=80 * GIB,
            memory_reserved_bytes=500 * 2**20,
            failed=False,
            process_list=ProcessList.KNOWN,
            processes=processes,
        )
    )


LOST = CardReading(
    uuid="GPU-b",
    index=1,
    duration_ms=MINUTE_MS,
    gpu_time_ms=MINUTE_MS,
    failed=True,
    process_list=ProcessList.FAILED,
    name="NVIDIA H100 80GB HBM3",
    model="H100",
    mig=Mig.NONE,
)

# (minutes after START_MS at which the tick ends, card a, card b)
READ = (
    (1, card(0, 0.9, ALICE, BOB), card(1, 0.0, XORG)),
    (2, card(0, 0.1, ALICE, BOB), card(1, 0.0, XORG)),
    (3, card(0, 0.0, ALICE, BOB), card(1, 0.0, XORG)),
    (4, card(0, 0.09, ALICE), card(1, 0.0, XORG)),
    (5, card(0, None, ALICE), card(1, 0.0, XORG)),
    (6, card(0, 0.0), card(1, 0.0, XORG)),
    (10, card(0, 0.8, ALICE, ALICE_2, BOB), card(1, 0.7, CAROL)),
    (11, card(0, 0.8, ALICE, ALICE_2, BOB), card(1, 0.7, CAROL)),
    (12, card(0, 0.0, used_bytes=5 * GIB), LOST),
    (13, card(0, 0.0), card(1, 0.7, CAROL)),
)

TICKS = [
    Tick(ts_ms=START_MS + minutes * MINUTE_MS, origin=ORIGIN, cards=(card_a, card_b))
    for minutes, card_a, card_b in READ
]
