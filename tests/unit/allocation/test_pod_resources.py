"""What PodResources say, and bytes that say nothing."""

from __future__ import annotations

import random

import pytest

from fakes.pod_resources import pod, text
from gua.allocation.pod_resources import ClaimedDevice, Device, PodDevices, parse_pod_resources

GPU = "nvidia.com/gpu"


def test_devices_of_all_containers_are_the_pods_each_once() -> None:
    answer = pod("train-0", "lab", {GPU: ["GPU-1", "GPU-2"], "rdma/hca": ["mlx5_0"]}, {GPU: ["GPU-2"]})
    expected = frozenset({Device(GPU, "GPU-1"), Device(GPU, "GPU-2"), Device("rdma/hca", "mlx5_0")})
    assert parse_pod_resources(answer) == (PodDevices(name="train-0", namespace="lab", devices=expected),)


def test_a_pod_without_devices_is_one_of_the_kubelets_pods() -> None:
    assert parse_pod_resources(pod("web", "lab") + pod("train", "lab", {GPU: ["0"]})) == (
        PodDevices(name="web", namespace="lab"),
        PodDevices(name="train", namespace="lab", devices=frozenset({Device(GPU, "0")})),
    )
    assert parse_pod_resources(b"") == ()


def test_claimed_devices_are_told_with_their_driver_and_names_for_the_runtime() -> None:
    (found,) = parse_pod_resources(
        pod(claims=[("gpu.nvidia.com", "node-1", "gpu-0", ["k8s.gpu.nvidia.com/claim=7-gpu-0"])])
    )
    assert found.claimed == {ClaimedDevice("gpu.nvidia.com", "node-1", "gpu-0", ("k8s.gpu.nvidia.com/claim=7-gpu-0",))}


@pytest.mark.parametrize(
    "damaged",
    [
        b"garbage",
        b"\x0a",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a" + b"\xff" * 11,
        b"\x02\x00",
        b"\x0b\x0c",
        b"\x0d\x00\x00",
        b"\x09\x00",
        text(1, text(1, b"\xff\xfe") + text(2, "lab")),
        text(1, text(1, "train")),
        text(1, text(1, "Train\x1b[2J") + text(2, "lab")),
        text(1, text(1, "train") + text(2, "../lab")),
        pod()[:-1],
    ],
)
def test_damaged_bytes_are_refused_and_not_half_read(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_pod_resources(pod() + damaged)


def test_whatever_the_bytes_nothing_but_a_value_error_comes_of_it() -> None:
    chance = random.Random(16)  # noqa: S311 - the same bytes each time
    whole = pod("train-0", "lab", {GPU: ["GPU-1", "GPU-2"]}, claims=[("gpu.nvidia.com", "n", "gpu-0", ["c"])])
    for _ in range(3000):
        bytes_ = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            bytes_[chance.randrange(len(bytes_))] = chance.randrange(256)
        try:
            parse_pod_resources(bytes(bytes_))
        except ValueError:
            continue
