"""Holders from the section now: put together by job and pod, and never where a part is used or unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from fakes import reports
from fakes.store import FakeStore
from gua.app import held_now as module
from gua.app.held_now import HeldNow, grouped_holders, held_now
from gua.notices.held import Held, HeldState, HolderKind
from gua.report.now_alone import NowAlone
from gua.report.sections.now_rows import SILENT, AllocatedCard, CardNow, Holder, Now, OtherHolder

HOUR_MS: Final = 3_600_000
AT_MS: Final = 1_795_878_300_000
GIB: Final = 2**30
LABELS: Final = {"n1": {"team": "vision"}}
CARD: Final = {"host": "n1", "gpu": "GPU-a", "index": 0, "card_name": "H100", "card_state": "idle-held"}


def idle(hours: float = 3, **changes: Any) -> Holder:  # noqa: ANN401 - a field each
    """Return a process of alice that is idle for so many hours."""
    idle_ms = round(hours * HOUR_MS)
    known = {**CARD, "as_of_ms": AT_MS, "owner": "alice", "program": "python", "pid": 42, "created_ms": 7_000}
    known |= {"memory_bytes": 2 * GIB, "idle_since_ms": AT_MS - idle_ms, "idle_ms": idle_ms, "wasted_gpu_ms": 0.0}
    return Holder(**{**known, "is_lower_bound": False, "is_alone": True, **changes})


def busy(**changes: Any) -> OtherHolder:  # noqa: ANN401 - a field each
    known = {**CARD, "card_state": "active", "as_of_ms": AT_MS, "owner": "alice", "program": "python", "pid": 43}
    return OtherHolder(**{**known, "created_ms": 8_000, "memory_bytes": GIB, "since_ms": AT_MS - HOUR_MS, **changes})


def allocation(use: str, hours: float = 5, **changes: Any) -> AllocatedCard:  # noqa: ANN401 - a field each
    in_use_ms = round(hours * HOUR_MS)
    known = {**CARD, "card_state": "truly-idle", "as_of_ms": AT_MS, "source": "slurm", "allocation_id": "7"}
    known |= {"owner": "alice", "allocation_kind": "job", "job_name": "train", "allocated_since_ms": None}
    known |= {"allocated_until_ms": None, "use": use, "use_since_ms": AT_MS - in_use_ms, "in_use_ms": in_use_ms}
    return AllocatedCard(**{**known, "is_lower_bound": False, **changes})


def grouped(*parts: Holder | OtherHolder | AllocatedCard, labels: Any = LABELS, **others: Any) -> HeldNow:  # noqa: ANN401
    now = Now(
        as_of_ms=AT_MS,
        cards={},
        free=(),
        holders=tuple(one for one in parts if isinstance(one, Holder)),
        others=tuple(one for one in parts if isinstance(one, OtherHolder)),
        allocations=tuple(one for one in parts if isinstance(one, AllocatedCard)),
        **others,
    )
    return grouped_holders(now, labels, at_ms=AT_MS)


def one(found: HeldNow) -> Held:
    (held,) = found.held
    return held


def test_a_process_is_known_by_host_pid_and_start() -> None:
    held = one(grouped(idle()))
    assert (held.kind, held.key, held.state) == (HolderKind.PROCESS, "n1 42 7000", HeldState.IDLE_HELD)
    assert (held.owner, held.program, held.pid, held.workload) == ("alice", "python", 42, "Python")
    assert (held.idle_ms, held.since_ms, held.last_ms) == (3 * HOUR_MS, AT_MS - 3 * HOUR_MS, AT_MS)
    assert held.host_labels == {"team": "vision"}


def test_the_same_pid_with_another_start_is_another_holder() -> None:
    found = grouped(idle(), idle(created_ms=7_001))
    assert [held.key for held in found.held] == ["n1 42 7000", "n1 42 7001"]


def test_a_process_of_unknown_start_gets_no_notice_and_is_reported() -> None:
    found = grouped(idle(created_ms=None))
    assert found.held == ()
    assert found.unknown == ("n1 GPU 0: pid 42 has no known start, so it cannot be identified",)


def test_a_process_on_two_cards_is_one_holder_idle_as_long_as_on_the_shorter() -> None:
    held = one(grouped(idle(5, gpu="GPU-b", index=1, memory_bytes=GIB), idle(3)))
    assert [(card.gpu, card.memory_bytes) for card in held.cards] == [("GPU-a", 2 * GIB), ("GPU-b", GIB)]
    assert (held.idle_ms, held.since_ms) == (3 * HOUR_MS, AT_MS - 3 * HOUR_MS)


def test_a_process_that_is_active_on_one_of_its_cards_is_not_idle() -> None:
    found = grouped(idle(), busy(gpu="GPU-b", index=1, pid=42, created_ms=7_000))
    assert found.held == ()
    assert found.used == {(HolderKind.PROCESS, "n1 42 7000")}


def test_a_job_of_several_processes_cards_and_hosts_is_one_holder() -> None:
    held = one(
        grouped(
            idle(4, slurm_job_id="7"),
            idle(3, slurm_job_id="7", pid=50, created_ms=None),
            idle(9, slurm_job_id="7", host="n2", gpu="GPU-z", as_of_ms=AT_MS - 5_000),
        )
    )
    assert (held.kind, held.key, held.job) == (HolderKind.JOB, "7", "7")
    assert [(card.host, card.gpu, card.memory_bytes) for card in held.cards] == [
        ("n1", "GPU-a", 4 * GIB),
        ("n2", "GPU-z", 2 * GIB),
    ]
    assert (held.idle_ms, held.last_ms) == (3 * HOUR_MS, AT_MS - 5_000)


def test_the_memory_of_a_job_is_unknown_if_that_of_a_process_is() -> None:
    held = one(grouped(idle(4, slurm_job_id="7"), idle(3, slurm_job_id="7", pid=50, memory_bytes=None)))
    assert held.memory_bytes is None


def test_a_job_with_one_active_process_on_any_host_is_not_idle() -> None:
    assert grouped(idle(slurm_job_id="7"), busy(host="n2", gpu="GPU-z", slurm_job_id="7")).held == ()


def test_another_job_that_is_active_on_the_same_card_keeps_no_job_from_being_idle() -> None:
    assert one(grouped(idle(slurm_job_id="7"), busy(slurm_job_id="8"))).key == "7"


def test_a_pod_with_one_active_container_is_not_idle() -> None:
    assert grouped(idle(pod_uid="u"), busy(pod_uid="u", gpu="GPU-b")).held == ()


def test_jobs_of_two_clusters_with_the_same_id_are_two_holders() -> None:
    labels = {"n1": {"cluster": "west"}, "n2": {"cluster": "east"}}
    found = grouped(idle(slurm_job_id="7"), busy(slurm_job_id="7", host="n2"), labels=labels)
    assert one(found).key == "west/7"
    assert found.used == {(HolderKind.JOB, "east/7")}


def test_a_job_whose_other_process_is_on_a_silent_card_is_unknown() -> None:
    gone = busy(host="n2", gpu="GPU-z", slurm_job_id="7", card_state=SILENT)
    found = grouped(idle(slurm_job_id="7"), unobserved=(gone,))
    assert found.held == ()
    assert found.unknown == ("n1 GPU 0: pid 42: what it, its job or its pod does elsewhere is unknown",)
    assert (HolderKind.JOB, "7") in found.used


def test_an_idle_process_on_a_card_of_unknown_state_is_unknown_with_all_of_its_job() -> None:
    blind = idle(slurm_job_id="7", gpu="GPU-b", index=1, card_state="unknown")
    found = grouped(idle(slurm_job_id="7"), blind, idle(pid=9, card_state="unknown"), idle(pid=10))
    assert one(found).pid == 10
    assert len(found.unknown) == 3


def test_a_silent_card_of_another_job_makes_no_job_unknown() -> None:
    assert grouped(idle(slurm_job_id="7"), unobserved=(busy(slurm_job_id="8", card_state=SILENT),)).held


def test_a_job_that_uses_another_of_its_cards_by_its_allocation_is_not_idle() -> None:
    used = allocation("used", gpu="GPU-b", index=1, card_state="active")
    assert grouped(idle(slurm_job_id="7"), used).held == ()


def test_a_job_with_another_card_of_unknown_use_is_unknown() -> None:
    unknown = allocation("unknown", gpu="GPU-b", index=1, card_state="unknown")
    found = grouped(idle(slurm_job_id="7"), unknown)
    assert found.held == ()
    assert len(found.unknown) == 1


def test_an_idle_held_card_of_unknown_use_leaves_its_job_idle() -> None:
    unknown = allocation("unknown", gpu="GPU-b", index=1, card_state="idle-held")
    assert one(grouped(idle(slurm_job_id="7"), unknown)).key == "7"


def test_an_idle_job_has_the_name_of_its_allocation() -> None:
    held = one(grouped(idle(slurm_job_id="7"), allocation("held")))
    assert (held.job_name, held.state, held.owner) == ("train", HeldState.IDLE_HELD, "alice")


def test_an_empty_allocation_of_two_cards_is_one_holder() -> None:
    held = one(grouped(allocation("empty"), allocation("empty", 2, gpu="GPU-b", index=1)))
    assert (held.state, held.kind, held.key, held.job) == (HeldState.EMPTY, HolderKind.JOB, "7", "7")
    assert (held.idle_ms, len(held.cards), held.memory_bytes) == (2 * HOUR_MS, 2, None)


def test_an_empty_card_of_a_job_that_uses_another_is_held_and_the_job_is_marked_as_used() -> None:
    found = grouped(allocation("empty"), allocation("used", gpu="GPU-b", card_state="active"))
    assert one(found).cards[0].gpu == "GPU-a"
    assert found.used == {(HolderKind.JOB, "7")}


def test_an_allocation_whose_use_is_not_empty_is_no_holder() -> None:
    for use in ("used", "held", "used-by-others", "unknown"):
        assert grouped(allocation(use)).held == ()


def test_a_pod_has_its_namespace_and_name_from_its_allocation_and_its_owner_too() -> None:
    of_pod = allocation("held", source="kubernetes", allocation_id="u", owner="team-a", job_name="nb-0")
    held = one(grouped(idle(pod_uid="u", owner="root"), of_pod))
    assert (held.kind, held.key, held.pod) == (HolderKind.POD, "u", "team-a/nb-0")
    assert (held.owner, held.namespace, held.job) == ("team-a", "team-a", None)


def test_a_pod_of_unknown_name_has_its_uid() -> None:
    assert one(grouped(idle(pod_uid="u"))).pod == "u"
    empty = allocation("empty", source="kubernetes", allocation_id="u", job_name=None)
    assert one(grouped(empty)).pod == "u"


def test_an_empty_reservation_is_known_by_source_host_and_id() -> None:
    held = one(grouped(allocation("empty", source="gua", allocation_id="3")))
    assert (held.kind, held.key, held.job) == (HolderKind.ALLOCATION, "gua n1 3", None)


def test_memory_without_a_process_is_held_by_its_card() -> None:
    held = one(grouped(idle(pid=None, owner=None, program=None, created_ms=None, memory_bytes=None)))
    assert (held.state, held.kind, held.key) == (HeldState.NO_PROCESS, HolderKind.CARD, "n1 GPU-a")


def test_silent_cards_and_cards_of_unknown_state_are_reported_by_host() -> None:
    cards = [("n1", "a", SILENT), ("n1", "b", SILENT), ("n2", "c", "unknown"), ("n2", "d", "active")]
    by_card = tuple(CardNow(host=host, gpu=gpu, index=0, state=state) for host, gpu, state in cards)
    assert grouped(by_card=by_card).unknown == (
        "n1: 2 GPUs without a notice: no tick for three intervals",
        "n2: 1 GPU without a notice: their state is unknown at the newest tick",
    )


@pytest.mark.parametrize(("intervals_ms", "seconds"), [([30_000, 30_000], 30), ([30_000, 10_000], None)])
def test_messages_have_the_threshold_of_the_store_and_an_interval_that_all_hosts_share(
    intervals_ms: list[int], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = reports.week_report()
    extents = [replace(report.extents[0], interval_ms=interval_ms) for interval_ms in intervals_ms]
    found = NowAlone(now=report[Now], rules=report.rules, extents=tuple(extents))
    monkeypatch.setattr(module, "collect_now", lambda *_: found)
    monkeypatch.setattr(module.fleet, "labels", lambda _: {})
    held = held_now(FakeStore({}), at_ms=report.window.until_ms, lookback_ms=1)
    assert (held.active_percent, held.interval_seconds) == (5, seconds)
