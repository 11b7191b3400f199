"""What the kubelet reports becomes allocations of cards; where it reports nothing, no card is free."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from fakes.pod_resources import pod as answered
from fakes.pod_resources import pod_resources, talking
from gua.allocation.kubernetes import OF_SOME_POD, KubernetesReader, Place, kubernetes_opener, pods_by_folders
from gua.allocation.pod_resources import (
    CallError,
    ClaimedDevice,
    Device,
    NoSocketError,
    PodDevices,
    query_pod_resources,
)
from gua.allocation.sources import ReaderLook, Sources
from gua.core.allocation import Allocation, CardKey
from gua.core.errors import GuaError, TransientError
from gua.core.pods import ListedPod

GPU = "nvidia.com/gpu"
A, B = "GPU-aaaaaaaa-0000-4000-8000-000000000000", "GPU-bbbbbbbb-0000-4000-8000-000000000000"
CARDS = (CardKey(A, 0, 0), CardKey(B, 1, 1))
START = 1_774_396_800_000


def devices(name: str = "train", *ids: str, claimed: Sequence[ClaimedDevice] = ()) -> PodDevices:
    return PodDevices(
        name=name, namespace="lab", devices=frozenset(Device(GPU, each) for each in ids), claimed=frozenset(claimed)
    )


def listed(name: str = "train", uid: str | None = None, *, limit: int = 1, **more: object) -> ListedPod:
    pod = ListedPod(name=name, namespace="lab", uids=(uid or f"uid-{name}",), limits={GPU: limit}, since_ms=START)
    return replace(pod, **more)  # type: ignore[arg-type]


class Kubelet:
    """A kubelet with a clock that moves on demand; answers that are errors are raised."""

    def __init__(
        self,
        *devices: PodDevices | Exception,
        pods: Sequence[ListedPod] | Exception | None = (),
        own_pod: Place | None = None,
        folders: Callable[[], tuple[ListedPod, ...]] = tuple,
    ) -> None:
        self.devices = devices
        self.pods = pods
        self.now = 1000.0
        self.age_seconds: float | None = None
        self.count = {"devices": 0, "pods": 0}
        self.reader = KubernetesReader(
            self.query_devices,
            None if pods is None else self,
            own_pod=own_pod,
            folders=folders,
            monotonic=lambda: self.now,
        )

    def query_devices(self) -> tuple[tuple[PodDevices, ...], float | None]:
        self.count["devices"] += 1
        for each in self.devices:
            if isinstance(each, Exception):
                raise each
        told = tuple(each for each in self.devices if isinstance(each, PodDevices))
        return told, self.age_seconds

    def query(self) -> Sequence[ListedPod]:
        self.count["pods"] += 1
        if isinstance(self.pods, Exception):
            raise self.pods
        return self.pods or ()

    def listen(self, listener: Callable[[], None]) -> None:
        """Report nothing."""

    def look(self, second: float, cards: Sequence[CardKey] = CARDS, *, ask: bool = True) -> ReaderLook:
        """Return what a tick of 30 s gets that ends so many seconds after the start; queried 2 s before."""
        if ask:
            self.now = 1000.0 + second - 2
            self.reader.query()
        self.now = 1000.0 + second
        return self.reader.look(START + int(second * 1000) - 30_000, START + int(second * 1000), cards)


def told(look: ReaderLook) -> dict[str, tuple[str, int, int | None]]:
    """Return cards, begin and end [s] by id."""
    return {
        each.id: (
            "".join("AB"[(A, B).index(uuid)] for uuid in sorted(each.cards)),
            (each.since_ms - START) // 1000,
            None if each.until_ms is None else (each.until_ms - START) // 1000,
        )
        for each in look.allocations
    }


NO_SOCKET = NoSocketError("/s: No such file or directory")


def test_a_pod_has_its_cards_since_it_started_by_its_uid_and_its_namespace_is_the_owner() -> None:
    look = Kubelet(devices("train", A), pods=[listed()]).look(60)
    assert look.allocations == (
        Allocation(
            source="kubernetes",
            id="uid-train",
            cards=frozenset({A}),
            since_ms=START,
            owner="lab",
            kind="pod",
            pod_uid="uid-train",
            pod_name="train",
            pod_namespace="lab",
        ),
    )
    assert (look.reason, look.unknown_cards, look.notes) == (None, frozenset(), ())


def test_pods_are_counted_not_slots() -> None:
    kubelet = Kubelet(devices("a", f"{A}::0", f"{A}::3"), devices("b", f"{A}::1"), pods=[listed("a"), listed("b")])
    assert told(kubelet.look(60)) == {"uid-a": ("A", 0, None), "uid-b": ("A", 0, None)}


def test_a_pod_that_ends_between_ticks_has_its_card_until_its_last_container_ended() -> None:
    kubelet = Kubelet(devices("train", A), pods=[listed()])
    kubelet.look(60)
    kubelet.devices, kubelet.pods = (), [listed(has_ended=True, ended_ms=START + 71_000)]
    assert told(kubelet.look(90)) == {"uid-train": ("A", 0, 71)}
    assert told(kubelet.look(120)) == {}


def test_a_pod_that_vanished_ended_at_the_query_that_missed_it() -> None:
    kubelet = Kubelet(devices("train", A), pods=[listed()])
    kubelet.look(60)
    kubelet.devices, kubelet.pods = (), []
    assert told(kubelet.look(90)) == {"uid-train": ("A", 0, 88)}


def test_one_that_ended_before_the_tick_is_not_in_it() -> None:
    kubelet = Kubelet(devices("train", A), pods=[listed()])
    kubelet.look(60)
    kubelet.devices, kubelet.pods = (), [listed(has_ended=True, ended_ms=START + 59_000)]
    assert told(kubelet.look(90)) == {}


def test_an_ended_pod_that_an_older_kubelet_still_lists_is_left_out() -> None:
    kubelet = Kubelet(devices("train", A), devices("next", B), pods=[listed(has_ended=True), listed("next")])
    assert told(kubelet.look(60)) == {"uid-next": ("B", 0, None)}
    kubelet.pods = [listed(uid="old", has_ended=True), listed(uid="new"), listed("next")]
    kubelet.now += 60
    assert told(kubelet.look(120))["new"] == ("A", 0, None), "another one of that name runs"


def test_without_a_list_pods_have_names_and_begin_when_they_were_seen() -> None:
    kubelet = Kubelet(devices("train", A), pods=None)
    look = kubelet.look(60)
    assert told(look) == {"lab/train": ("A", 58, None)}
    assert look.allocations[0].pod_uid is None
    assert told(kubelet.look(90)) == {"lab/train": ("A", 58, None)}
    assert "users of allocated cards are unknown" in look.notes[0]


def test_without_a_pod_list_log_folders_yield_the_uids(tmp_path: Path) -> None:
    hash_, uid, newer = "0" * 32, str(UUID(int=1)), str(UUID(int=2))
    names = [
        f"lab_train_{uid}",
        f"lab_train_{newer}",
        f"lab_static_{hash_}",
        "lab_train",
        f"lab_a_b_{uid}",
        f"_x_{uid}",
    ]
    for second, name in enumerate(names):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (second, second))
    assert [(pod.place, pod.uids) for pod in pods_by_folders(tmp_path)] == [
        (("lab", "train"), (newer,)),
        (("lab", "static"), (hash_,)),
    ]
    assert pods_by_folders(tmp_path / "none") == ()
    kubelet = Kubelet(devices("train", A), pods=None, folders=lambda: pods_by_folders(tmp_path))
    look = kubelet.look(60)
    assert (told(look), look.notes) == ({newer: ("A", 58, None)}, ())
    assert look.allocations[0].pod_uid == newer


def test_a_look_at_no_card_says_whether_the_kubelet_answers() -> None:
    kubelet = Kubelet(devices("train", A), pods=[listed()])
    assert kubelet.look(60, ()) == ReaderLook()
    assert told(kubelet.look(90)) == {"uid-train": ("A", 0, None)}


def test_a_list_that_fails_costs_uids_and_ends_and_no_card() -> None:
    kubelet = Kubelet(devices("train", A), pods=TransientError("it answers 403"))
    assert told(kubelet.look(60)) == {"lab/train": ("A", 58, None)}
    kubelet.pods = [listed()]
    assert told(kubelet.look(90)) == {"uid-train": ("A", 0, None)}, "the same, by its other name: it did not end"
    kubelet.pods = TransientError("no")
    assert told(kubelet.look(180)) == {"uid-train": ("A", 0, None)}


def test_a_name_that_is_too_long_for_an_id_is_cut_and_stays_apart() -> None:
    names = [f"{'n' * 200}-{last}" for last in "ab"]
    look = Kubelet(devices(names[0], A), devices(names[1], B), pods=None).look(60)
    ids = [each.id for each in look.allocations]
    assert len(set(ids)) == 2
    assert max(map(len, ids)) <= 128


def test_the_pod_list_is_requested_when_other_pods_have_devices_or_it_is_old() -> None:
    kubelet = Kubelet(devices("train", A), pods=[listed()])
    counts = []
    for second in (5, 10, 15):
        kubelet.look(second)
        counts.append(kubelet.count["pods"])
    kubelet.devices = (devices("train", A), devices("next", B))
    kubelet.look(20)
    kubelet.pods = [listed(), listed("next")]
    kubelet.look(25)  # it was not in the list
    kubelet.look(30)
    kubelet.devices = (devices("next", B),)
    kubelet.look(35)
    counts.append(kubelet.count["pods"])
    kubelet.look(61)
    assert [*counts, kubelet.count["pods"]] == [1, 1, 1, 4, 5]


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (CallError("no answer within 3 s"), "the kubelet: no answer within 3 s"),
        (CallError("Connection refused"), "the kubelet: Connection refused"),
        (NO_SOCKET, "the kubelet: /s: No such file or directory"),
        (ZeroDivisionError(), "the kubelet: unexpected ZeroDivisionError"),
    ],
)
def test_a_kubelet_that_fails_is_a_failed_source_and_then_right_again(failure: Exception, said: str) -> None:
    kubelet = Kubelet(devices("train", A), pods=None)
    kubelet.look(60)
    kubelet.devices = (failure,)
    assert kubelet.look(90) == ReaderLook(reason=said)
    kubelet.devices = (devices("train", A),)
    assert told(kubelet.look(120)) == {"lab/train": ("A", 58, None)}
    kubelet.devices = (failure,)
    kubelet.look(150)
    kubelet.devices = ()
    assert kubelet.look(180).allocations == (), "when it ended meanwhile, nobody knows"


def test_before_the_first_answer_and_after_a_long_silence_the_source_has_failed() -> None:
    kubelet = Kubelet(devices("train", A))
    assert kubelet.look(30, ask=False).reason == "the kubelet was not queried yet"
    assert kubelet.look(60).reason is None
    assert kubelet.look(148, ask=False).reason is None
    assert kubelet.look(149, ask=False).reason == "the kubelet gave no answer for 91 s"


def test_a_device_that_is_no_card_here_is_a_failure_beside_what_is_known() -> None:
    look = Kubelet(devices("a", A), devices("b", "GPU-7"), pods=None).look(60)
    assert told(look) == {"lab/a": ("A", 58, None)}
    assert look.reason == "the kubelet: device 'GPU-7' is no card of this host"


def test_devices_of_others_are_no_matter() -> None:
    other = PodDevices(name="net", namespace="lab", devices=frozenset({Device("rdma/hca", "0")}))
    look = Kubelet(other, pods=[listed("net", limit=0)]).look(60)
    assert look == ReaderLook()


def test_one_of_two_possible_cards_is_identified_by_the_pods_own_processes_or_unknown() -> None:
    cards = (CardKey(A, 0, 1), CardKey(B, 1, 0))
    kubelet = Kubelet(devices("a", claimed=[ClaimedDevice("gpu.nvidia.com", "gpu-0")]), pods=[listed("a")])
    look = kubelet.look(60, cards)
    assert (look.allocations, look.unknown_cards, look.reason) == ((), {A, B}, None)
    look = kubelet.look(90, (cards[0], cards[1]._replace(pods=frozenset({"uid-a"}))))
    assert (told(look), look.unknown_cards) == ({"uid-a": ("B", 0, None)}, frozenset())
    assert told(kubelet.look(120, cards)) == {"uid-a": ("B", 0, None)}, "also when its process is gone"


def test_claims_that_the_kubelet_does_not_report_leave_no_card_free() -> None:
    kubelet = Kubelet(devices("a", A), pods=[listed("a"), listed("dra", limit=0, has_claims=True)])
    assert kubelet.look(60).unknown_cards == {A, B}
    kubelet.devices = (*kubelet.devices, devices("dra", claimed=[ClaimedDevice("dra.net", "eth1")]))
    assert kubelet.look(90).unknown_cards == frozenset()


def test_without_a_socket_limits_have_to_do() -> None:
    kubelet = Kubelet(NO_SOCKET, pods=[listed("a", limit=2)])
    look = kubelet.look(60)
    assert told(look) == {"uid-a": ("AB", 0, None)}
    assert "counted by limits of pods" in look.notes[0]
    kubelet.pods = TransientError("it answers 403")
    assert kubelet.look(120) == ReaderLook(reason="the kubelet: it answers 403")


def test_by_limits_a_card_stays_allocated_to_the_pod_whose_processes_were_on_it() -> None:
    kubelet = Kubelet(NO_SOCKET, pods=[listed("a")])
    assert kubelet.look(60).unknown_cards == {A, B}
    on = (CARDS[0], CARDS[1]._replace(pods=frozenset({"uid-a", "stranger"})))
    assert told(kubelet.look(90, on)) == {"uid-a": ("B", 0, None)}
    look = kubelet.look(120)
    assert (told(look), look.unknown_cards) == ({"uid-a": ("B", 0, None)}, frozenset())
    kubelet.pods = [listed("a", "other")]
    assert kubelet.look(150).unknown_cards == {A, B}, "another pod of that name"
    kubelet.pods = [listed("a")]
    assert kubelet.look(180).unknown_cards == {A, B}, "a file of a static pod that is there again has its uid again"


def test_an_allocation_of_an_unidentified_pod_continues_once_processes_identify_it() -> None:
    kubelet = Kubelet(NO_SOCKET, pods=[listed("a"), listed("b")])
    assert told(kubelet.look(60)) == {OF_SOME_POD: ("AB", 58, None)}
    on = (CARDS[0]._replace(pods=frozenset({"uid-a"})), CARDS[1])
    assert told(kubelet.look(90, on)) == {"uid-a": ("A", 0, None), "uid-b": ("B", 0, None)}
    kubelet.pods = []
    assert told(kubelet.look(120)) == {"uid-a": ("A", 0, 118), "uid-b": ("B", 0, 118)}


def test_a_kubelet_that_was_just_started_may_not_know_its_pods_yet() -> None:
    kubelet = Kubelet(devices("train", A), devices("other", B), pods=[listed(), listed("other")])
    kubelet.look(60)
    kubelet.devices, kubelet.age_seconds = (devices("train", A),), 4
    look = kubelet.look(90)
    assert told(look) == {"uid-train": ("A", 0, None)}, "neither is the other one told to have ended"
    assert look.reason == "the kubelet was started 4 s ago: it may not know all pods yet"
    assert kubelet.reader.due() == kubelet.now - 2 + 5, "it is asked again soon"
    kubelet.age_seconds = 34
    assert kubelet.look(120) == replace(look, reason=None), "when that one ended meanwhile, nobody knows"
    kubelet.age_seconds = -7
    assert kubelet.look(150).reason is None, "the clock was set"


def test_an_agent_in_a_pod_knows_a_list_that_is_not_whole_by_its_own_absence() -> None:
    kubelet = Kubelet(devices("train", A), pods=[listed()], own_pod=("gua", "gua-x"))
    assert kubelet.look(60).reason == "the kubelet does not list all pods: the agent's is missing"
    kubelet.devices = (*kubelet.devices, PodDevices(name="gua-x", namespace="gua"))
    kubelet.age_seconds = 1
    assert kubelet.look(90).reason is None
    kubelet.devices = (NO_SOCKET,)
    assert kubelet.look(120).reason == "the kubelet does not list all pods: the agent's is missing"
    kubelet.pods = [listed(), listed("gua-x", limit=0, namespace="gua")]
    assert kubelet.look(150).reason is None


@pytest.mark.parametrize("devices_told", [(), (NO_SOCKET,)])
def test_a_card_with_a_process_of_a_pod_that_is_not_listed_is_unknown(devices_told: tuple[Exception, ...]) -> None:
    kubelet = Kubelet(*devices_told, pods=[listed("web", limit=0)])
    cards = (CARDS[0]._replace(pods=frozenset({"uid-gone"})), CARDS[1]._replace(pods=frozenset({"uid-web"})))
    look = kubelet.look(60, cards)
    assert (look.allocations, look.unknown_cards, look.reason) == ((), {A}, None)


def test_the_reader_queries_two_seconds_before_a_tick_every_thirty_seconds_and_soon_after_a_failure() -> None:
    kubelet = Kubelet(devices("train", A))
    reader = kubelet.reader

    def due(since_tick: float, interval: float) -> float:
        """Return the seconds to the next query if the last one was just now and a tick ended so many seconds ago."""
        reader.query()
        kubelet.now -= since_tick
        reader.look(START, START + int(interval * 1000), CARDS)
        kubelet.now += since_tick
        return reader.due() - kubelet.now

    assert due(28, 30) == 30
    assert due(10, 30) == 18
    assert due(2, 10) == 8
    assert due(21, 30) == 8
    assert due(-7, 1) == 8
    assert due(0, 600) == 30
    reader.hurry()
    assert due(0, 600) == 2
    kubelet.devices = (CallError("no"),)
    assert due(0, 600) == 5


def test_the_thread_queries_by_itself_and_ends_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pod_resources(path, answered("train", "lab", {GPU: [A]})) as served:
        reader = kubernetes_opener(None, path).open()
        sources = Sources([reader])
        deadline = time.monotonic() + 10
        while not sources.look(START, START + 30_000, CARDS).allocations:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert served.asked == 1
    sources.close()
    for thread in threading.enumerate():
        if thread.name == "gua-kubernetes":
            thread.join(5)
            assert not thread.is_alive()


def test_a_kubelet_that_hangs_does_not_hold_up_a_look(tmp_path: Path) -> None:
    told = threading.Event()
    with talking(tmp_path / "s", lambda _connection: told.wait(60)):
        reader = kubernetes_opener(None, tmp_path / "s").open()
        # One that waited would get an error for the missing answer.
        assert reader.look(START, START + 30_000, CARDS) == ReaderLook(reason="the kubelet was not queried yet")
        reader.close()
        told.set()


def test_the_source_is_found_by_the_socket_or_by_the_list(tmp_path: Path) -> None:
    kubelet = Kubelet()
    missing = tmp_path / "none" / "kubelet.sock"
    assert kubernetes_opener(None, missing).detect() is None
    assert kubernetes_opener(kubelet, missing).detect() == "limits of pods in the kubelet's list"
    (tmp_path / "s").write_text("")
    assert kubernetes_opener(kubelet, tmp_path / "s").detect() == f"the kubelet's {tmp_path / 's'}"
    with pytest.raises(GuaError, match="No such file"):
        query_pod_resources(missing)
