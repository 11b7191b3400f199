"""What a list of pods says of devices: how many, since when, and who has ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fakes.kubelet import pod, pod_list
from gua.core.errors import GuaError
from gua.core.pods import ListedPod
from gua.identity.pod_names import Kubelet, KubeletError, PodNames, parse_pod_list, read_pod

GPU = "nvidia.com/gpu"
STARTED = 1_774_396_800_000  # 2026-03-25T00:00:00Z
RUNNING = {"running": {"startedAt": "2026-03-25T00:00:05Z"}}


def limited(*counts: object) -> list[dict[str, Any]]:
    return [
        {"name": f"c{place}", "resources": {"limits": {GPU: count, "cpu": "2"}}} for place, count in enumerate(counts)
    ]


def pod_with(spec: dict[str, Any], status: dict[str, Any] | None = None, **metadata: object) -> dict[str, Any]:
    made = pod()
    made["spec"] |= spec
    made["status"] |= {"startTime": "2026-03-25T00:00:00Z"} | (status or {})
    made["metadata"] |= metadata
    return made


def allocated(item: dict[str, Any]) -> ListedPod:
    (found,) = map(read_pod, parse_pod_list(pod_list(item)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        ({"containers": []}, {}),
        ({"containers": limited("2")}, {GPU: 2}),
        ({"containers": limited(2, "1", "0")}, {GPU: 3}),
        ({"containers": limited("1"), "initContainers": limited("4", "2")}, {GPU: 4}),
        ({"containers": limited("3"), "initContainers": limited("2")}, {GPU: 3}),
        # a sidecar keeps its own, also beside those that begin after it
        ({"containers": limited("1"), "initContainers": [{**limited("1")[0], "restartPolicy": "Always"}]}, {GPU: 2}),
        (
            {
                "containers": limited("1"),
                "initContainers": [{**limited("1")[0], "restartPolicy": "Always"}, *limited("3")],
            },
            {GPU: 4},
        ),
        ({"containers": limited("0")}, {}),
        ({"containers": limited("many")}, {GPU: None}),
        ({"containers": limited("-1")}, {GPU: None}),
        ({"containers": limited(1.5)}, {GPU: None}),
        ({"containers": limited({})}, {GPU: None}),
        ({"containers": limited("1", None)}, {GPU: None}),
        ({"containers": [{"name": "c", "resources": {"limits": {"amd.com/gpu": "1", "cpu": "1"}}}]}, {}),
        (
            {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}]},
            {"nvidia.com/mig-1g.5gb": 1},
        ),
        ({"containers": ["c", {"resources": 7}, {"resources": {"limits": []}}], "initContainers": {}}, {}),
        ({"containers": [{"resources": {"requests": {GPU: "1"}}}]}, {}),
    ],
)
def test_limits_are_counted_as_the_scheduler_counts_them(spec: dict[str, Any], limits: dict[str, int | None]) -> None:
    assert allocated(pod_with(spec)).limits == limits


def test_a_pods_labels_declare_what_it_is_for() -> None:
    assert allocated(pod_with({})).workload == (None, None)
    labelled = pod_with({}, labels={"gua/kind": "serving", "gua/model": "qwen-32b", "app": "x"})
    assert allocated(labelled).workload == ("serving", "qwen-32b")
    assert allocated(pod_with({}, labels={"gua/kind": 7, "gua/model": "\x1b[2J"})).workload == (None, None)
    assert allocated(pod_with({}, labels=["gua/kind"])).workload == (None, None)


def test_a_pod_has_its_start_and_the_uid_of_its_cgroup_first() -> None:
    found = allocated(pod_with({}, annotations={"kubernetes.io/config.hash": "hash"}))
    assert (found.name, found.namespace, found.uids) == ("train-0", "lab", ("hash", pod()["metadata"]["uid"]))
    assert (found.since_ms, found.has_ended, found.has_claims) == (STARTED, False, False)
    assert allocated(pod_with({"resourceClaims": [{"name": "gpu"}]})).has_claims


@pytest.mark.parametrize(
    ("status", "metadata", "ended"),
    [
        ({"phase": "Running"}, {}, False),
        ({"phase": "Pending"}, {}, False),
        ({"phase": "Succeeded"}, {}, True),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, {}, True),
        ({"containerStatuses": [{"state": RUNNING}]}, {"deletionTimestamp": "2026-03-25T01:00:00Z"}, False),
        ({"containerStatuses": [{"state": {"terminated": {}}}]}, {}, False),  # it is started again
        ({"containerStatuses": [{"state": {"terminated": {}}}]}, {"deletionTimestamp": "2026-03-25T01:00:00Z"}, True),
        (
            {"containerStatuses": [{"state": {"terminated": {}}}, {"state": RUNNING}]},
            {"deletionTimestamp": "2026-03-25T01:00:00Z"},
            False,
        ),
        ({"containerStatuses": []}, {"deletionTimestamp": "2026-03-25T01:00:00Z"}, False),
    ],
)
def test_a_pod_has_ended_when_its_containers_have(
    status: dict[str, Any], metadata: dict[str, Any], *, ended: bool
) -> None:
    assert allocated(pod_with({}, status, **metadata)).has_ended is ended


def test_it_ended_when_its_last_container_did() -> None:
    states = [{"state": {"terminated": {"finishedAt": f"2026-03-25T00:00:{second}Z"}}} for second in ("30", "50", "40")]
    assert allocated(pod_with({}, {"phase": "Succeeded", "containerStatuses": states})).ended_ms == STARTED + 50_000
    assert allocated(pod_with({}, {"phase": "Running", "containerStatuses": states})).ended_ms is None
    assert allocated(pod_with({}, {"phase": "Failed", "containerStatuses": []})).ended_ms is None


@pytest.mark.parametrize(
    "moment", [None, 7, "", "yesterday", "2026-03-25T00:00:00", "0001-01-01T00:00:00Z", "9" * 5000]
)
def test_a_start_that_is_none_is_not_known(moment: object) -> None:
    assert allocated(pod_with({}, {"startTime": moment})).since_ms is None


@pytest.mark.parametrize(
    "item", [{}, {"metadata": {"name": "a"}}, pod(uid=""), pod(name="A B"), pod(namespace="\x1b[2J")]
)
def test_a_pod_without_name_or_uid_makes_the_allocations_unknown_and_leaves_the_names(item: dict[str, Any]) -> None:
    assert read_pod(item) is None
    names = PodNames(Kubelet(host="n", port=1), fetch=lambda _kubelet: pod_list(pod(), item))
    with pytest.raises(GuaError, match="without uid or name"):
        names.query()
    assert names.names(pod()["metadata"]["uid"], None).pod == "train-0"
    assert names.trouble is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"{", "no list of pods"),
        (KubeletError("it answers 503", code="503"), "503"),
        (OSError("x"), "unexpected OSError"),
    ],
)
def test_a_missing_list_is_an_error_for_the_caller(answer: bytes | Exception, said: str) -> None:
    def fetch(_kubelet: Kubelet) -> bytes:
        if isinstance(answer, Exception):
            raise answer
        return answer

    names = PodNames(Kubelet(host="n", port=1), fetch=fetch)
    with pytest.raises(GuaError, match=said):
        names.query()
    assert names.trouble is not None
    assert len(names.errors()) == 1


def test_a_listener_is_notified_of_new_pods_only_and_not_of_its_own_query() -> None:
    heard: list[int] = []
    answers = [*[pod_list(pod("one"))] * 2, pod_list(pod("one"), pod("two", name="b"))]
    now = [0.0]
    names = PodNames(Kubelet(host="n", port=1), fetch=lambda _kubelet: answers.pop(0), monotonic=lambda: now[0])
    names.listen(lambda: heard.append(len(answers)))
    names.query()
    assert heard == []
    for uid in ("two", "two", "one"):
        now[0] += 60
        names.names(uid, None)
        for thread in threading.enumerate():
            if thread.name == "gua-pods":
                thread.join(10)
    assert heard == [0], "after the third list, which was the first with two in it"
