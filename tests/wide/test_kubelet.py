"""A real kubelet, containerd and device plugin: what pods were allocated and what became of it, tick by tick.

Three samplers look at the same cards at the same moments: by PodResources and the list of pods, by limits in that list
alone, and by PodResources and folders of logs. Processes on cards are those of the pods' own containers. Expected is
what the script did, and when.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from gua.agent.sampler import Sampler
from gua.allocation.kubernetes import KubernetesReader, pods_by_folders
from gua.allocation.pod_resources import NoSocketError, PodDevices, query_pod_resources
from gua.allocation.sources import Sources
from gua.core.allocation import parts
from gua.core.facts import card_facts
from gua.core.ports import Mark, RawCard, RawProcess
from gua.core.rules import Rules, classify
from gua.core.tick import CardReading, Origin, ReadError, Tick
from gua.core.words import AllocationStatus, ProcessList, Source, Use
from gua.identity.process import Owners, ProcessIdentity
from gua.procfs.reader import ProcFs, SystemClock, stored_boot_time_ms
from servers.kubelet import PLUGINS, Node, missing

TICK_SECONDS = 10.0
# When in a tick things happen: early enough for a busy kubelet to know of them before it is queried.
EVENT_SECONDS = 3.0
MIB = 2**20
CARDS = [f"GPU-{digit * 8}-0000-4000-8000-000000000000" for digit in "12345"]
# Kubernetes reports whole seconds, and starting a container takes a moment.
NEAR_MS = 2500


class Cards:
    """Five cards; ``at_work`` and ``holding`` are pids by UUID, ``was_busy`` cards that worked in the tick."""

    def __init__(self) -> None:
        self.at_work: dict[str, int] = {}
        self.holding: dict[str, int] = {}
        self.was_busy: set[str] = set()

    def read(self) -> tuple[Sequence[RawCard], Sequence[ReadError]]:
        return [self._card(index, uuid) for index, uuid in enumerate(CARDS)], ()

    def _card(self, index: int, uuid: str) -> RawCard:
        pids = [pid for pid in (self.at_work.get(uuid), self.holding.get(uuid)) if pid is not None]
        pids = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        return RawCard(
            reading=CardReading(
                uuid=uuid,
                duration_ms=1,
                gpu_time_ms=0,
                index=index,
                process_list=ProcessList.KNOWN,
                utilization=0.9 if self.at_work.get(uuid) in pids or uuid in self.was_busy else 0.0,
                memory_used_bytes=900 * MIB * len(pids),
                memory_limit_bytes=80_000 * MIB,
                memory_reserved_bytes=500 * MIB,
            ),
            gpu_fraction=(1, 1),
            processes=tuple(
                RawProcess(pid=pid, lists=frozenset({"compute"}), memory_bytes=900 * MIB, utilization=None)
                for pid in pids
            ),
            minor=index,
        )

    def drain(self) -> None:
        """Have no samples."""

    def close(self) -> None:
        """Have nothing open."""


class Look(NamedTuple):
    """A card in a tick: by pod the use and time [ms] of its allocation; unallocated time, and unknown time."""

    status: AllocationStatus | None
    uses: dict[str, tuple[Use, int]]
    nobodys_ms: int
    unknown_ms: int


class Watch:
    """A sampler with the Kubernetes source alone."""

    def __init__(self, node: Node, cards: Cards, folder: Path) -> None:
        self.way = folder.name
        host, pods = ProcFs(Path("/proc")), None if self.way == "folders" else node.names()
        clock = SystemClock(host)
        self.reader = KubernetesReader(
            _no_socket if self.way == "limits" else lambda: query_pod_resources(node.socket),
            pods,
            folders=lambda: pods_by_folders(node.logs),
        )
        self._sampler = Sampler(
            cards=cards,
            processes=ProcessIdentity(
                host, Owners(lambda _uid: None), boot_time_ms=stored_boot_time_ms(host, folder / "boot"), pods=pods
            ),
            clock=clock,
            origin=Origin(host="node-1", source=Source.AGENT, interval_ms=int(TICK_SECONDS * 1000)),
            initial_pid_namespace=True,
            allocations=Sources([self.reader]),
        )
        self._mark: Mark | None = None

    def tick(self) -> Tick:
        sample = self._sampler.sample(self._mark)
        self._mark = sample.mark
        assert sample.tick is not None
        return sample.tick


def _no_socket() -> tuple[tuple[PodDevices, ...], float | None]:
    msg = "kubelet.sock: No such file or directory"
    raise NoSocketError(msg)


def looked(tick: Tick) -> dict[str, Look]:
    """Return what a tick says of each card."""
    return {card.uuid: _looked(card) for card in tick.cards}


def _looked(card: CardReading) -> Look:
    allocated: dict[str, tuple[Use, int]] = {}
    nobodys = card.unallocated_gpu_time_ms or 0
    for part in parts(card, classify(card_facts(card), Rules()).state):
        if part.allocation is not None:
            allocated[part.allocation.pod_name or part.allocation.id] = part.use, part.gpu_time_ms
    unknown = card.gpu_time_ms - nobodys - sum(ms for _, ms in allocated.values())
    assert unknown >= 0
    return Look(card.allocation, allocated, nobodys, unknown)


class Day:
    """Ticks of both samplers, as they come, and the node that they look at."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node = node
        self.cards = Cards()
        folders = [folder / way for way in ("devices", "limits", "folders")]
        self.watches = [Watch(node, self.cards, made) for made in folders if not made.mkdir()]
        for watch in self.watches:
            watch.reader.begin()
        self.begun = time.monotonic()
        self.ticks = 0
        self.known = {watch.way: 0 for watch in self.watches}
        time.sleep(0.5)
        for watch in self.watches:
            watch.tick()

    def tick(self, *, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Look]:
        """Return what the next tick says by PodResources, after something was done 3 s after it began.

        What the others report must be the same, or unknown; when something began or ended, folders do not show.
        """
        self.ticks += 1
        due = self.begun + self.ticks * TICK_SECONDS
        time.sleep(max(0.0, due - TICK_SECONDS + EVENT_SECONDS - time.monotonic()))
        meanwhile()
        left = due - time.monotonic()
        assert left > 0, "what was done took longer than the tick"
        time.sleep(left)
        looks = {watch.way: looked(watch.tick()) for watch in self.watches}
        for way, uuid in itertools.product(looks, CARDS):
            look, beside = looks[way][uuid], looks["devices"][uuid]
            if AllocationStatus.UNKNOWN in {look.status, beside.status}:
                continue
            self.known[way] += 1
            assert (look.status, look.uses.keys()) == (beside.status, beside.uses.keys()), (self.ticks, way, uuid)
            for pod, (use, ms) in look.uses.items():
                assert use is beside.uses[pod][0], (self.ticks, way, uuid)
                assert way == "folders" or abs(ms - beside.uses[pod][1]) < NEAR_MS, (self.ticks, way, uuid)
        return looks["devices"]

    def owned(self) -> dict[str, list[str]]:
        """Return cards by pod, as the kubelet itself keeps them on its disk."""
        kept = json.loads((PLUGINS / "kubelet_internal_checkpoint").read_text())["Data"]["PodDeviceEntries"] or []
        names = {pod["metadata"]["uid"]: name for name, pod in self.node.listed().items()}
        return {
            names[entry["PodUID"]]: [uuid for ids in entry["DeviceIDs"].values() for uuid in ids]
            for entry in kept
            if entry["PodUID"] in names
        }


def allocated(pod: str, use: Use, ms: float, *, rest: str = "nobody") -> Callable[[Look], bool]:
    """Return a check that so much of a tick was allocated to a pod, with this use, and the rest unallocated."""

    def is_so(look: Look) -> bool:
        ours = look.uses.get(f"{pod}-node-1")
        left = look.nobodys_ms if rest == "nobody" else look.unknown_ms
        return (
            look.status is AllocationStatus.ALLOCATED
            and len(look.uses) == 1
            and ours is not None
            and ours[0] is use
            and abs(ours[1] - ms) < NEAR_MS
            and abs(ours[1] + left - TICK_SECONDS * 1000) < NEAR_MS
        )

    return is_so


def free(look: Look) -> bool:
    """Return whether a whole tick was unallocated."""
    return look.status is AllocationStatus.UNALLOCATED and look.unknown_ms == 0 and not look.uses


def unknown(look: Look) -> bool:
    """Return whether nothing is known of a tick."""
    return look.status is AllocationStatus.UNKNOWN and look.nobodys_ms == 0 and not look.uses


WHOLE, EVENT = TICK_SECONDS * 1000, EVENT_SECONDS * 1000


@pytest.fixture
def node() -> Iterator[Node]:
    if reason := missing():
        pytest.skip(f"left out: {reason}")
    with Node(CARDS) as started:
        yield started


def test_a_day_of_pods_is_right_to_the_tick(node: Node, tmp_path: Path) -> None:  # noqa: PLR0915 - one day, in order
    day = Day(node, tmp_path)
    pids: dict[str, int] = {}

    def begin() -> None:
        for pod, cards in (("train", 1), ("pair", 2), ("idle", 1), ("web", 0)):
            node.run(pod, cards)
            pids[pod] = node.pid(pod) or 0

    # The kubelet was just started: nothing is free before it can know all of its pods.
    assert all(map(unknown, day.tick().values()))
    looks: dict[str, Look] = {}
    for _ in range(4):
        looks = day.tick()
        assert all(free(look) or unknown(look) for look in looks.values())
    assert all(map(free, looks.values())), looks

    # Within a tick four pods begin; three have cards, and one of these uses its card.
    looks = day.tick(meanwhile=begin)
    owned = day.owned()
    (train,), (one, other), (idle,) = owned["train"], owned["pair"], owned["idle"]
    (nobodys,) = set(CARDS) - {train, one, other, idle}
    for uuid, pod in ((train, "train"), (one, "pair"), (other, "pair"), (idle, "idle")):
        assert allocated(pod, Use.EMPTY, WHOLE - EVENT)(looks[uuid]), (pod, looks[uuid])
    assert free(looks[nobodys])

    # One uses its card, one holds one of two, one does nothing; a process without a pod is on an unallocated card.
    stranger = subprocess.Popen(["sleep", "1000"])
    day.cards.at_work = {train: pids["train"], nobodys: stranger.pid}
    day.cards.holding = {one: pids["pair"]}
    for _ in range(2):
        looks = day.tick()
        assert allocated("train", Use.USED, WHOLE)(looks[train]), looks[train]
        assert allocated("pair", Use.HELD, WHOLE)(looks[one]), looks[one]
        assert allocated("pair", Use.EMPTY, WHOLE)(looks[other]), looks[other]
        assert allocated("idle", Use.EMPTY, WHOLE)(looks[idle]), looks[idle]
        assert free(looks[nobodys]), looks[nobodys]

    # The stranger, and a pod that was allocated none, go to a card that is another's.
    day.cards.at_work = {train: pids["train"], idle: stranger.pid}
    day.cards.holding |= {idle: pids["web"]}
    looks = day.tick()
    assert allocated("idle", Use.USED_BY_OTHERS, WHOLE)(looks[idle]), looks[idle]
    stranger.kill()
    stranger.wait()
    day.cards.at_work, day.cards.holding = {train: pids["train"]}, {one: pids["pair"]}

    # Within ticks one ends by itself, and one is deleted.
    day.cards.was_busy = {train}
    looks = day.tick(meanwhile=lambda: os.kill(pids["train"], signal.SIGTERM))
    assert allocated("train", Use.USED, EVENT)(looks[train]), looks[train]
    assert allocated("idle", Use.EMPTY, WHOLE)(looks[idle]), looks[idle]
    day.cards.was_busy = set()
    looks = day.tick(meanwhile=lambda: node.delete("idle"))
    assert free(looks[train])
    (at_end,) = looks[idle].uses.values()
    assert at_end[0] is Use.EMPTY
    assert at_end[1] <= WHOLE, "when a pod's file was taken away is noticed with the next answer"
    day.cards.holding = {one: pids["pair"], other: pids["pair"]}
    looks = day.tick()
    assert all(allocated("pair", Use.HELD, WHOLE)(looks[uuid]) for uuid in (one, other)), looks
    assert all(map(free, (looks[train], looks[idle], looks[nobodys]))), looks

    # A minute without a kubelet: unknown, whatever was known before and whoever is there.
    node.kubelet.stop()
    for _ in range(6):
        looks = day.tick()
        assert all(map(unknown, looks.values())), looks
    node.start_kubelet()
    looks = day.tick()
    assert all(allocated("pair", Use.HELD, WHOLE)(looks[uuid]) for uuid in (one, other)), looks
    assert all(map(unknown, (looks[train], looks[idle], looks[nobodys]))), looks
    for _ in range(3):
        looks = day.tick()
        assert all(allocated("pair", Use.HELD, WHOLE)(looks[uuid]) for uuid in (one, other)), looks
    assert all(map(free, (looks[train], looks[idle], looks[nobodys]))), looks

    day.tick(meanwhile=lambda: node.delete("pair"))
    assert all(map(free, day.tick().values()))
    assert day.known["folders"] > 0.9 * day.known["devices"]
    assert day.known["limits"] > day.ticks, "limits alone must tell something, too"
    print(f"{day.ticks} ticks of {len(CARDS)} cards, known: {day.known}")  # noqa: T201 - what make test -s shows
