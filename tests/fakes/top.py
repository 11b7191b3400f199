"""Cards and holders of a small fleet as ``gua top`` has them, from any source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gua.report.top.model import Snapshot, TopAllocation, TopCard, TopHolder

NOW_MS = 1_774_440_000_000
GIB = 2**30
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def card(index: int | None = 0, **values: Any) -> TopCard:  # noqa: ANN401 - whatever a card has
    """Return a card that has been idle-held for an hour."""
    known: dict[str, Any] = {
        "host": "gpu-1",
        "gpu": f"GPU-{index}",
        "index": index,
        "name": "NVIDIA H100 80GB HBM3",
        "mig": "none",
        "state": "idle-held",
        "reason": None,
        "state_ms": HOUR_MS,
        "state_is_lower_bound": False,
        "utilization": 0.012,
        "held_lower_bytes": 40 * GIB,
        "memory_used_bytes": 40 * GIB,
        "memory_limit_bytes": 80 * GIB,
        "power_watts": 121.7,
        "temperature_celsius": 40.0,
        "interval_ms": 30_000,
        "age_ms": 12_000,
        "now_ms": NOW_MS,
        "free_ms": None,
        "without_process": None,
        "allocation": None,
        **values,
    }
    return TopCard(**{"last_state": known["state"], **known})


def allocated(*allocations: TopAllocation) -> dict[str, Any]:
    """Return the values of a card that has these allocations, or that is not allocated."""
    return {"allocation": "allocated" if allocations else "unallocated", "allocations": allocations}


def allocation(identity: str = "77", **values: Any) -> TopAllocation:  # noqa: ANN401 - whatever an allocation has
    """Return ana's job, which has had no process for an hour."""
    known: dict[str, Any] = {
        "source": "slurm",
        "owner": "ana",
        "job_name": "train",
        "use": "empty",
        "use_ms": HOUR_MS,
        "use_is_lower_bound": False,
        **values,
    }
    return TopAllocation(id=identity, **known)


def holder(pid: int = 4242, **values: Any) -> TopHolder:  # noqa: ANN401 - whatever a holder has
    """Return a process that has been idle for an hour on the first card."""
    known: dict[str, Any] = {
        "host": "gpu-1",
        "gpu": "GPU-0",
        "index": 0,
        "card_name": "NVIDIA H100 80GB HBM3",
        "pid": pid,
        "created_ms": NOW_MS - 5 * HOUR_MS,
        "owner": "alice",
        "program": "python",
        "type": "compute",
        "state": "idle",
        "idle_ms": HOUR_MS,
        "idle_is_lower_bound": False,
        "memory_bytes": 40 * GIB,
        "utilization": 0.0,
        "container_id": None,
        "pod_uid": None,
        "slurm_job_id": None,
        "systemd_unit": None,
        **values,
    }
    return TopHolder(**known)


def snapshot(cards: tuple[TopCard, ...], holders: tuple[TopHolder, ...] = (), **values: Any) -> Snapshot:  # noqa: ANN401 - as above
    """Return the snapshot of a store at ``NOW_MS``."""
    known: dict[str, Any] = {"source": "store", "where": "chdb:///var/lib/gua/store", "taken_ms": NOW_MS, **values}
    return Snapshot(cards=cards, holders=holders, **known)


def lab() -> Snapshot:
    """Return a host with a card in every state."""
    return snapshot(
        (
            card(0, state_ms=3 * HOUR_MS),
            card(1, state="active", utilization=0.873, memory_used_bytes=71 * GIB, power_watts=612.0),
            card(2, state="truly-idle", utilization=0.0, memory_used_bytes=0, state_ms=26 * HOUR_MS),
            card(
                3,
                state="unknown",
                reason="pid_namespace",
                utilization=None,
                memory_used_bytes=GIB,
                state_is_lower_bound=True,
            ),
            card(4, state="unobserved", last_state="idle-held", reason="silent", state_ms=HOUR_MS, age_ms=HOUR_MS),
            card(
                5, mig="parent", state="truly-idle", utilization=None, memory_used_bytes=None, memory_limit_bytes=None
            ),
            card(
                5,
                gpu="MIG-1",
                mig="instance",
                name="NVIDIA H100 80GB HBM3 MIG 3g.40gb",
                memory_limit_bytes=40 * GIB,
                power_watts=None,
                temperature_celsius=None,
            ),
        ),
        (
            holder(4242, idle_ms=3 * HOUR_MS, slurm_job_id="77"),
            holder(
                4243, gpu="GPU-1", index=1, owner="bob", program="train", state="active", idle_ms=None, utilization=0.8
            ),
            holder(
                4244, gpu="GPU-1", index=1, owner="bob", program="evaluate", idle_ms=20 * MINUTE_MS, memory_bytes=GIB
            ),
            holder(
                4245,
                gpu="GPU-3",
                index=3,
                owner=None,
                program=None,
                state="unknown",
                idle_ms=None,
                memory_bytes=None,
                utilization=None,
            ),
            holder(4246, gpu="GPU-4", index=4, state="unobserved", idle_ms=None, systemd_unit="jupyter.service"),
            holder(
                4247,
                gpu="MIG-1",
                index=5,
                idle_ms=90 * MINUTE_MS,
                idle_is_lower_bound=True,
                container_id="c0ffee" * 10,
                pod_uid="b011d3bd-1f11-463c-a7b4-5094676bdbe9",
            ),
        ),
        conditions=("the spool was damaged and is kept as /var/lib/gua/spool.db.corrupt",),
    )


def allocated_lab() -> Snapshot:
    """Return the host with cards allocated to one, to several and to no owner, and one card of unknown allocation."""
    values = (
        allocated(allocation(use="held", use_ms=3 * HOUR_MS, owner="alice")),
        allocated(),
        allocated(allocation(use_is_lower_bound=True), allocation("78", owner="bob", use="used-by-others")),
        {"allocation": "unknown"},
        allocated(allocation()),
        allocated(),
        allocated(allocation("lab/train-0", source="kubernetes", owner="lab/train-0", use="unknown", use_ms=None)),
    )
    snapshot_of_lab = lab()
    cards = (replace(one, **each) for one, each in zip(snapshot_of_lab.cards, values, strict=True))
    return replace(snapshot_of_lab, cards=tuple(cards))


def fleet(hosts: int = 40, cards: int = 8) -> Snapshot:
    """Return a fleet with every third card held."""
    found = tuple(
        card(
            place,
            host=f"gpu-{host:03d}",
            gpu=f"GPU-{host}-{place}",
            state="idle-held" if (host + place) % 3 == 0 else "active",
            state_ms=(host * cards + place) * MINUTE_MS,
        )
        for host in range(hosts)
        for place in range(cards)
    )
    return snapshot(
        found,
        tuple(
            holder(1000 + number, host=one.host, gpu=one.gpu, index=one.index, idle_ms=one.state_ms)
            for number, one in enumerate(found)
            if one.state == "idle-held"
        ),
    )


def status(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever an agent says
    """Return what an agent with one idle-held card says of itself."""
    return {
        "schema": "gua.status/1",
        "running": True,
        "stalled": False,
        "conditions": [],
        "agent": {"host": "gpu-1", "interval_seconds": 30.0},
        "cards": [
            {
                "index": 0,
                "uuid": "GPU-0",
                "name": "NVIDIA H100 80GB HBM3",
                "mig": "none",
                "state": "idle-held",
                "reason": None,
                "state_seconds": 3600.0,
                "state_is_lower_bound": True,
                "utilization": 0.01,
                "held_lower_bytes": 8 * GIB,
                "memory_used_bytes": 8 * GIB,
                "memory_limit_bytes": 80 * GIB,
                "power_watts": 121.0,
                "temperature_celsius": 40,
                "sample_age_seconds": 12.0,
                "holders": [
                    {
                        "pid": 1, "owner": "alice", "comm": "python", "type": "compute", "memory_bytes": 8 * GIB,
                        "utilization": 0.0, "state": "idle", "since": "2020-01-01T00:00:00Z", "slurm_job_id": "7",
                    },
                    {"pid": 2, "comm": "Xorg", "type": "ignored", "state": "idle"},
                ],
            }
        ],
        **values,
    }  # fmt: skip
