"""What pods have by the kubelet's own types: every form of device id, and a server that fails."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from driver.scenario import uuid
from gua.allocation.kubernetes import KubernetesReader, kubernetes_opener
from gua.allocation.pod_resources import query_pod_resources
from gua.allocation.sources import ReaderLook
from gua.core.allocation import CardKey
from gua.core.words import AllocationStatus, Relation
from servers.agent import Agent, assert_spans_never_overlap
from servers.pod_resources import PodResourcesServer, claimed, told
from servers.process import poll
from servers.user import shared_folder

pytestmark = pytest.mark.usefixtures("_pod_resources")

GPU = "nvidia.com/gpu"
A, B, C, D = (f"GPU-{letter * 8}-0000-4000-8000-000000000000" for letter in "abcd")
M1, M2 = (f"MIG-{digit * 8}-0000-5000-8000-000000000000" for digit in "12")
CARDS = (
    CardKey(A, 0, 0),
    CardKey(B, 1, 1),
    CardKey(C, 2, 2),
    CardKey(D, 3, 3),
    CardKey(M1, 3, 3, None, D, 1),
    CardKey(M2, 3, 3, None, D, 5),
)
NOW = 1_774_396_800_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PodResourcesServer]:
    with PodResourcesServer(tmp_path / "pod-resources") as started:
        yield started


def look(server: PodResourcesServer) -> ReaderLook:
    """Return the look after a query."""
    reader = KubernetesReader(lambda: query_pod_resources(server.socket))
    reader.query()
    return reader.look(NOW - 1000, NOW, CARDS)


def cards(found: ReaderLook) -> dict[str, set[str]]:
    return {each.id: set(each.cards) for each in found.allocations}


def test_every_form_of_id_by_the_kubelets_own_types(server: PodResourcesServer) -> None:
    server.answer(
        told("uuid", {GPU: [A]}),
        told("two", {GPU: [A]}, {GPU: [A, B], "rdma/hca": ["mlx5_0"]}),
        told("shared-1", {GPU: [f"{B}::0", f"{B}::7"]}),
        told("shared-2", {"nvidia.com/gpu.shared": [f"{B}::3"]}),
        told("index", {GPU: ["2"]}),
        told("instance", {"nvidia.com/mig-1g.10gb": [M1]}),
        told("single", {GPU: [M2]}),
        told("gke", {GPU: ["nvidia2"]}),
        told("gke-shared", {GPU: ["nvidia2/vgpu1"]}),
        told("gke-instance", {GPU: ["nvidia3/gi5"]}),
        told("dra", claims=[claimed("gpu-1", "k8s.gpu.nvidia.com/claim=7e1c-gpu-1")]),
        told("dra-uuid", claims=[claimed("gpu-9", f"k8s.gpu.nvidia.com/device={C}")]),
        told("dra-other", claims=[claimed("channel-0", driver="compute-domain.nvidia.com")]),
        told("amd", {"amd.com/gpu": ["0"]}),
        told("web", {}),
    )
    found = look(server)
    assert (found.reason, found.unknown_cards) == (None, frozenset())
    assert cards(found) == {
        "lab/uuid": {A},
        "lab/two": {A, B},
        "lab/shared-1": {B},
        "lab/shared-2": {B},
        "lab/index": {C},
        "lab/instance": {M1},
        "lab/single": {M2},
        "lab/gke": {C},
        "lab/gke-shared": {C},
        "lab/gke-instance": {M2},
        "lab/dra": {B},
        "lab/dra-uuid": {C},
    }


def test_an_instance_claimed_by_its_placement_may_be_any_instance_of_its_gpu(server: PodResourcesServer) -> None:
    server.answer(told("dra", claims=[claimed("gpu-3-mig-1g10gb-19-4")]))
    found = look(server)
    assert (found.allocations, found.unknown_cards, found.reason) == ((), {M1, M2}, None)


def test_no_pod_at_all_and_a_thousand(server: PodResourcesServer) -> None:
    server.answer()
    assert look(server) == ReaderLook(notes=look(server).notes)
    server.answer(*(told(f"p-{number}", {GPU: [f"{A}::{number}"]}) for number in range(1000)))
    assert len(look(server).allocations) == 1000


def test_a_list_of_more_than_4_mib_is_refused(server: PodResourcesServer) -> None:
    server.answer(*(told(f"p-{number}", {GPU: [f"{A}::{number}"] * 100}) for number in range(1000)))
    assert look(server).reason == "the kubelet: its answer is longer than 4 MiB"


def test_a_server_that_fails_says_why(server: PodResourcesServer) -> None:
    server.say("{")
    assert str(look(server).reason).startswith("the kubelet: unavailable: proto:")
    server.answer(told("a", {GPU: ["GPU-7"]}), told("b", {GPU: [A]}))
    found = look(server)
    assert (found.reason, cards(found)) == ("the kubelet: device 'GPU-7' is no card of this host", {"lab/b": {A}})


def test_a_kubelet_that_ends_hangs_and_comes_back(server: PodResourcesServer) -> None:
    server.answer(told("train", {GPU: [A]}))
    reader = KubernetesReader(lambda: query_pod_resources(server.socket))

    def queried() -> ReaderLook:
        reader.query()
        begun = time.monotonic()
        found = reader.look(NOW - 1000, NOW, CARDS)
        assert time.monotonic() - begun < 2.5  # a request here would wait for 3 s
        return found

    since = queried().allocations[0].since_ms
    server.process.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{server.process.pid}/stat")
    poll(lambda: stat.read_text().rpartition(") ")[2].startswith("T"), "all of its threads to stop")
    assert queried().reason == "the kubelet: no answer within 3 s"
    server.process.send_signal(signal.SIGCONT)
    assert cards(queried()) == {"lab/train": {A}}
    server.process.kill()
    assert queried().reason == "the kubelet: Connection refused"
    server.socket.unlink()
    assert str(queried().reason).endswith("kubelet.sock: No such file or directory")
    server.start(age_seconds=5)
    found = queried()
    assert found.reason == "the kubelet was started 5 s ago: it may not know all pods yet"
    assert (cards(found), found.allocations[0].since_ms) == ({"lab/train": {A}}, since), "it is the same allocation"
    server.process.kill()
    server.start()
    assert queried().reason is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_socket_that_only_root_may_use_is_reported_as_permission_denied() -> None:
    with shared_folder() as folder, PodResourcesServer(folder / "pod-resources") as server:
        server.answer()
        server.socket.chmod(0o755)
        os.seteuid(65534)
        try:
            reason = look(server).reason
        finally:
            os.seteuid(0)
    assert str(reason).endswith("kubelet.sock: Permission denied")


def test_the_agents_thread_follows_what_changes(server: PodResourcesServer) -> None:
    server.answer(told("train", {GPU: [A]}))
    reader = kubernetes_opener(None, server.socket).open()

    def ids() -> list[str]:
        return [each.id for each in reader.look(NOW - 1000, NOW, CARDS).allocations if each.until_ms is None]

    poll(lambda: ids() == ["lab/train"], "the first answer")
    server.answer(told("next", {GPU: [B]}))
    assert isinstance(reader, KubernetesReader)
    reader.hurry()
    poll(lambda: ids() == ["lab/next"], "the next answer")
    reader.close()


def test_an_agents_ticks_follow_the_kubelet_and_are_in_time_while_it_hangs(
    server: PodResourcesServer, agent: Agent
) -> None:
    working, held, empty = uuid(1), uuid(2), uuid(3)
    server.answer(told("train", {GPU: [working, held]}), told("other", {"rdma/hca": ["0"]}))
    agent.start("--allocation", "kubernetes", "--pod-resources", str(server.socket))

    def newest() -> dict[str, AllocationStatus | None]:
        return {card.uuid: card.allocation for card in agent.ticks()[-1].cards}

    poll(lambda: newest()[working] is AllocationStatus.ALLOCATED, "the first answer")
    assert newest() == {
        working: AllocationStatus.ALLOCATED,
        held: AllocationStatus.ALLOCATED,
        empty: AllocationStatus.UNALLOCATED,
    }
    (allocation,) = next(card for card in agent.ticks()[-1].cards if card.uuid == working).allocations
    assert (allocation.source, allocation.id, allocation.owner, allocation.pod_name) == (
        "kubernetes",
        "lab/train",
        "lab",
        "train",
    )
    # The test's own process is on it, which is in no pod.
    assert allocation.relation is Relation.OTHERS

    server.process.send_signal(signal.SIGSTOP)
    poll(lambda: set(newest().values()) == {AllocationStatus.UNKNOWN}, "the agent to notice")
    (source,) = agent.ticks()[-1].allocation_sources
    assert (source.source, source.reason) == ("kubernetes", "the kubelet: no answer within 3 s")
    server.process.send_signal(signal.SIGCONT)
    poll(lambda: newest()[working] is AllocationStatus.ALLOCATED, "the agent to be told again")
    ticks = agent.ticks()
    # One that waited for the kubelet would come 3 s after the one before; a busy machine may miss one.
    assert max(after.ts_ms - before.ts_ms for before, after in pairwise(ticks)) < 2900
    assert_spans_never_overlap(ticks)
    agent.stop()
