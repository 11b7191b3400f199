"""Names of pods: what the kubelet's list contains, and ids alone wherever it does not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.cards import full_tick, process
from fakes.kubelet import CONTAINER_ID, POD_UID, FakeKubelet, kubelet, pod, pod_list
from fakes.pages import text_of
from gua.cli.main import main
from gua.core.errors import UsageError
from gua.core.ports import RawProcess
from gua.core.tick import ProcessReading, ReadError
from gua.exporter.catalogue import Catalogue
from gua.identity.pod_names import (
    CALL,
    MOST_BYTES,
    MOST_PODS,
    Kubelet,
    KubeletError,
    PodNames,
    fetch_pods,
    parse_kubelet,
    parse_pod_list,
    read_pod,
)
from gua.identity.process import Names, Owners, ProcessIdentity
from gua.otlp.decode import decode
from gua.otlp.encode import encode
from gua.procfs.reader import ProcFs

FIXTURES = Path(__file__).parents[2] / "fixtures"
KNOWN = Names(pod="train-0", namespace="lab", container="main")


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeKubelet]:
    with kubelet(tmp_path) as served:
        yield served


class Asked:
    """A kubelet without a network: answers in turn, and a clock that ticks on demand."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = [*answers]
        self.now = 0.0
        self.count = 0
        self.names = PodNames(Kubelet(host="n", port=1), fetch=self.fetch, monotonic=lambda: self.now)

    def fetch(self, _kubelet: Kubelet) -> bytes:
        self.count += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look(self, pod_uid: str | None = POD_UID, container_id: str | None = CONTAINER_ID) -> Names:
        """Return what a tick gets, and let the thread that it may have started end."""
        found = self.names.names(pod_uid, container_id)
        for thread in threading.enumerate():
            if thread.name == "gua-pods":
                thread.join(10)
        return found


def test_the_first_look_up_requests_the_list_and_the_next_one_uses_it() -> None:
    asked = Asked(pod_list(pod()))
    assert [asked.look(), asked.look(), asked.look()] == [Names(), KNOWN, KNOWN]
    assert asked.count == 1


def test_names_may_be_there_before_the_first_look() -> None:
    asked = Asked(pod_list(pod()))
    asked.names.begin()
    assert [asked.look(None), asked.look()] == [Names(), KNOWN]
    assert asked.count == 1


def test_no_list_is_requested_for_a_process_outside_of_a_pod() -> None:
    asked = Asked(pod_list(pod()))
    assert asked.look(None) == Names()
    assert asked.count == 0


def test_a_new_pod_requests_the_list_at_once_and_a_missing_one_every_30_seconds() -> None:
    asked = Asked(pod_list(pod()))
    asked.look("gone")
    counts = []
    for asked.now in (3, 29, 31, 60, 62):
        assert asked.look("gone") == Names()
        counts.append(asked.count)
    assert counts == [1, 1, 2, 2, 3]
    asked.answers = [pod_list(pod("new", name="b"))]
    asked.now += 1
    assert asked.look("new") == Names()
    assert asked.count == 3, "two seconds after the last time at the earliest"
    asked.now += 1
    asked.look("new")
    assert asked.look("new") == replace(KNOWN, pod="b")


def test_a_failure_is_reported_once_retried_after_30_seconds_and_keeps_known_names() -> None:
    asked = Asked(pod_list(pod()), KubeletError("no", code="403"), pod_list())
    asked.look()
    asked.now = 10
    asked.look("new", None)
    assert asked.names.trouble == "pods have ids but no names: https://n:1/pods: no"
    assert asked.names.errors() == [ReadError(call=CALL, code="403")]
    assert asked.names.errors() == []
    assert asked.look() == KNOWN
    asked.now = 39
    asked.look("newer", None)
    assert asked.count == 2
    asked.now = 41
    asked.look()  # also for who is known: trouble that has passed is taken back
    assert asked.count == 3
    assert asked.names.trouble is None
    assert asked.look() == KNOWN, "its processes may outlive it in the list"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"kind": "Status"}', b"\xff", b"[" * 200_000])
def test_garbage_is_ids_alone(body: bytes) -> None:
    asked = Asked(body)
    assert [asked.look(), asked.look()] == [Names(), Names()]
    assert asked.names.errors() == [ReadError(call=CALL, code="garbage")]


def test_a_list_of_more_pods_than_a_node_has_does_not_fill_the_memory() -> None:
    asked = Asked(pod_list(*(pod(f"u{each}", containers={}) for each in range(MOST_PODS + 5))))
    asked.look("u0", None)
    assert asked.look(f"u{MOST_PODS + 4}", None).pod == "train-0"
    assert asked.look("u0", None).pod is None


def test_a_look_never_waits_for_the_answer() -> None:
    late = threading.Event()

    def fetch(_kubelet: Kubelet) -> bytes:
        late.wait(30)
        return pod_list(pod())

    names = PodNames(Kubelet(host="n", port=1), fetch=fetch)
    assert [names.names(POD_UID, CONTAINER_ID) for _ in range(100)] == [Names()] * 100
    late.set()


def pods_of(body: bytes) -> dict[str, tuple[str, str, dict[str, str]]]:
    """Return namespace, name and containers by uid."""
    pods = filter(None, map(read_pod, parse_pod_list(body)))
    return {uid: (pod.namespace, pod.name, dict(pod.containers)) for pod in pods for uid in pod.uids}


def test_names_are_those_of_the_documented_list() -> None:
    containers = {"a1" * 32: "trainer", "b2" * 32: "fetch-data", "c3" * 32: "debugger-8xzrl"}
    static = ("kube-system", "kube-proxy-n1", {"d4" * 32: "kube-proxy"})
    assert pods_of((FIXTURES / "kubelet" / "pods.json").read_bytes()) == {
        POD_UID: ("lab", "trainer-7d4b9c5f6-x2x8p", containers),
        "5c8a7b1e-0000-4000-8000-000000000002": static,
        "3d2f1e0c9b8a79685746352413021f0e": static,
        "5c8a7b1e-0000-4000-8000-000000000003": ("lab", "waiting", {}),
    }


@pytest.mark.parametrize("name", ["", "A", "a\nb", "a b", "-a", "a" * 254, 7, None, ["a"], "<b>", "\u202ea"])
def test_what_cannot_be_a_name_is_none(name: object) -> None:
    told = pod()
    told["metadata"]["name"] = name
    assert pods_of(pod_list(told)) == {}


def test_the_fake_answers_in_the_shape_of_the_documented_list() -> None:
    assert pods_of(pod_list(pod())) == {POD_UID: ("lab", "train-0", {CONTAINER_ID: "main"})}


def test_the_kubelet_is_queried_with_the_current_token(fake: FakeKubelet) -> None:
    assert pods_of(fetch_pods(fake.kubelet, fake.account))[POD_UID][1] == "train-0"
    fake.rotate("the-second")
    assert fetch_pods(fake.kubelet, fake.account) == fake.body
    assert fake.asked == ["/pods", "/pods"]


@pytest.mark.parametrize(("status", "said"), [(401, "401"), (403, "nodes/pods"), (500, "500"), (302, "302")])
def test_a_refusal_says_what_is_missing(fake: FakeKubelet, status: int, said: str) -> None:
    fake.status = status
    with pytest.raises(KubeletError, match=said) as error:
        fetch_pods(fake.kubelet, fake.account)
    assert error.value.code == str(status)
    assert len(fake.asked) == 1


def test_an_answer_is_bounded_in_size_and_time_and_must_be_whole(fake: FakeKubelet) -> None:
    codes = []
    for body, length, byte_seconds in ((b" " * (MOST_BYTES + 1), None, 0), (b"{}", 9, 0), (b"{}" * 999, None, 0.02)):
        fake.body, fake.length, fake.byte_seconds = body, length, byte_seconds
        with pytest.raises(KubeletError) as error:
            fetch_pods(fake.kubelet, fake.account, all_seconds=3 if not byte_seconds else 0.3)
        codes.append(error.value.code)
    assert codes == ["size", "garbage", "timeout"]


def test_no_token_is_sent_to_a_server_outside_of_the_clusters_authority(tmp_path: Path, fake: FakeKubelet) -> None:
    with kubelet(tmp_path / "stranger") as stranger:
        with pytest.raises(KubeletError, match="--kubelet-insecure") as error:
            fetch_pods(stranger.kubelet, fake.account)
        assert error.value.code == "certificate"
        assert stranger.asked == []
        assert fetch_pods(replace(stranger.kubelet, insecure=True), fake.account) == stranger.body


def test_without_a_mounted_token_or_a_kubelet_there_is_a_word_for_it(fake: FakeKubelet, tmp_path: Path) -> None:
    codes = []
    for where, account in ((fake.kubelet, tmp_path), (Kubelet(host="127.0.0.1", port=1), fake.account)):
        with pytest.raises(KubeletError) as error:
            fetch_pods(where, account)
        codes.append(error.value.code)
    assert codes == ["account", "unreachable"]


def test_a_process_is_reported_with_the_names_of_its_pod() -> None:
    asked = Asked(pod_list(pod()))
    people = ProcessIdentity(
        ProcFs(FIXTURES / "proc" / "host"), Owners(look_up=lambda _: None), boot_time_ms=0, pods=asked.names
    )

    def told(pid: int) -> ProcessReading:
        asked.look()
        return people.identify(RawProcess(pid=pid, lists=frozenset(["compute"]), memory_bytes=5, utilization=0.5))

    found = told(4545)
    assert (found.pod_uid, found.pod_name, found.pod_namespace, found.container_name) == (
        POD_UID,
        "train-0",
        "lab",
        "main",
    )
    outside = told(4343)
    assert (outside.pod_uid, outside.pod_name, outside.pod_namespace, outside.container_name) == (None,) * 4


def test_each_series_of_a_process_and_otlp_have_the_pod_names_and_none_outside_of_a_pod() -> None:
    whole = full_tick()
    holder = replace(process(11), pod_name="train-0", pod_namespace="lab", container_name="main")
    named = replace(whole, cards=(replace(whole.cards[0], processes=(holder, process(12))),))
    told = 'k8s_container_name="main",k8s_namespace_name="lab",k8s_pod_name="train-0"'
    lines = [line for line in text_of(Catalogue().families(named)).splitlines() if "process_pid" in line]
    assert {told in line for line in lines if 'process_pid="11"' in line} == {True}
    assert {"k8s_" in line for line in lines if 'process_pid="12"' in line} == {False}
    [held] = decode(encode(named)).cards
    back, other = held.processes
    assert (back.pod_name, back.pod_namespace, back.container_name) == ("train-0", "lab", "main")
    assert (other.pod_name, other.pod_namespace, other.container_name) == (None,) * 3


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://10.0.0.7:10250/pods", "https://10.0.0.7:10250/pods"),
        ("https://node-1", "https://node-1:10250/pods"),
        ("https://[fd00::7]:10250/", "https://[fd00::7]:10250/pods"),
        ("https://fd00::7:10250/pods", "https://[fd00::7]:10250/pods"),
    ],
)
def test_a_kubelets_address_is_read_as_manifests_write_it(text: str, address: str) -> None:
    assert str(parse_kubelet(text)) == address


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "http://n:10255/pods",
        "https://",
        "https://n:0",
        "https://a@b",
        "https://n:x",
        "https://a b/",
        "https://a\n/",
    ],
)
def test_what_is_no_kubelet_is_refused_in_one_line(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="is no address of a kubelet"):
        parse_kubelet(text)
    monkeypatch.setenv("GUA_HOME", str(tmp_path))
    assert main(["exporter", "--kubelet", text]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_kubelet_insecure_without_kubelet_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["daemon", "--kubelet-insecure"]) == 2
    assert "--kubelet-insecure has no effect without --kubelet" in capsys.readouterr().err
