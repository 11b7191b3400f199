"""Every form in which Kubernetes names a device."""

from __future__ import annotations

import pytest

from gua.allocation.card_names import CardTable, UnknownDeviceError
from gua.allocation.pod_resources import ClaimedDevice, Device
from gua.core.allocation import CardKey

GPU = "nvidia.com/gpu"
A = "GPU-aaaaaaaa-0000-4000-8000-000000000000"
B = "GPU-bbbbbbbb-0000-4000-8000-000000000000"
C = "GPU-cccccccc-0000-4000-8000-000000000000"
M1 = "MIG-11111111-0000-5000-8000-000000000000"
M2 = "MIG-22222222-0000-5000-8000-000000000000"
# Index and number of the device file differ for A and B; C is partitioned.
HOST = CardTable(
    [
        CardKey(A, 0, 1, "0000:01:00.0"),
        CardKey(B, 1, 0, "0000:02:00.0"),
        CardKey(C, 2, 2, "0000:03:00.0"),
        CardKey(M1, 2, 2, "0000:03:00.0", C, 1),
        CardKey(M2, 2, 2, "0000:03:00.0", C, 5),
    ]
)


@pytest.mark.parametrize(
    ("resource", "id_", "cards"),
    [
        (GPU, A, {A}),
        (GPU, A.upper(), {A}),
        (GPU, "0", {A}),
        (GPU, "1", {B}),
        (GPU, "nvidia0", {B}),
        (GPU, "nvidia1", {A}),
        (GPU, f"{A}::3", {A}),
        ("nvidia.com/gpu.shared", f"{B}::11", {B}),
        (GPU, "1::0", {B}),
        (GPU, "nvidia0/vgpu4", {B}),
        (GPU, M1, {M1}),
        ("nvidia.com/mig-1g.10gb", M1, {M1}),
        ("nvidia.com/mig-1g.10gb.me", M2, {M2}),
        ("nvidia.com/mig-1g.10gb.shared", f"{M2}::1", {M2}),
        ("nvidia.com/mig-3g.20gb", f"MIG-{C}/5/0", {M2}),
        (GPU, "nvidia2/gi1", {M1}),
        (GPU, "nvidia2/gi5/vgpu0", {M2}),
        ("nvidia.com/mig-1g.10gb", "2:0", {M1, M2}),  # the driver's order of instances is not known
        ("site.example/big-gpu", B, {B}),  # plugins rename resources, a UUID is a UUID
        ("site.example/big-gpu", f"{B}::0", {B}),
        ("rdma/hca", "0", set()),
        ("amd.com/gpu", "0", set()),
        ("intel.com/sriov", "0000:01:00.0", set()),
        ("nvidia.com/hostdev", "0", set()),
        ("amd.com/gpu", "GPU-dddddddd-0000-4000-8000-000000000000", set()),
    ],
)
def test_a_plugins_id_is_a_card(resource: str, id_: str, cards: set[str]) -> None:
    assert HOST.find_device(Device(resource, id_)) == cards


@pytest.mark.parametrize(
    "id_",
    [
        "",
        "7",
        "-1",
        "0x0",
        "٣",
        "0\n",
        "9:0",
        "nvidia",
        "nvidia7",
        "nvidia0/",
        "nvidia2/gi9",
        "GPU-",
        "GPU-dddddddd-0000-4000-8000-000000000000",
        f"{A}::",
        "GPU-a::3::4",
        "MIG-1",
        f"MIG-{A}/5/0",
        "\x1b[2J",
        "A" * 10_000,
    ],
)
def test_an_id_of_no_card_is_refused_and_matches_none(id_: str) -> None:
    with pytest.raises(UnknownDeviceError, match="is no card of this host") as refused:
        HOST.find_device(Device(GPU, id_))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("name", "cdi", "cards"),
    [
        ("gpu-2", (), {C}),
        ("gpu-0", (), {A, B}),  # by the number of the device file, or by index before 25.8
        ("gpu-1", (), {A, B}),
        ("gpu-2-mig-1g10gb-19-0", (), {M1, M2}),
        ("gpu-2-mig-19-0-1", (), {M1, M2}),
        ("gpu-0", ("runtime.nvidia.com/gpu=all", f"k8s.gpu.nvidia.com/device={B}"), {B}),
        ("gpu-bbbbbbbb-0000-4000-8000-000000000000", (), {B}),
        ("gpu-2-mig-19-0-1", (f"k8s.gpu.nvidia.com/claim=9-{M2}",), {M2}),
        ("gpu-0", ("k8s.gpu.nvidia.com/claim=aaaaaaaa-0000-4000-8000-000000000000-gpu-0",), {A, B}),  # a claim's uid
        ("gpu-vfio-0", (), set()),
    ],
)
def test_a_claimed_device_is_a_card_or_one_of_some(name: str, cdi: tuple[str, ...], cards: set[str]) -> None:
    assert HOST.find_device(ClaimedDevice("gpu.nvidia.com", name, cdi)) == cards


@pytest.mark.parametrize("name", ["", "gpu", "gpu-9", "gpu-0-mig-19-0-1", "gpu-x", "mig-0", "gpu-0 "])
def test_a_claimed_device_that_is_no_card_is_refused(name: str) -> None:
    with pytest.raises(UnknownDeviceError, match="is no card of this host"):
        HOST.find_device(ClaimedDevice("gpu.nvidia.com", name))


def test_other_drivers_devices_are_not_cards() -> None:
    assert HOST.find_device(ClaimedDevice("compute-domain.nvidia.com", "channel-0")) == set()
    assert HOST.find_device(ClaimedDevice("gpu.example.com", "gpu-0")) == set()
    assert HOST.find_device(ClaimedDevice("dra.net", "eth1")) == set()


def test_whole_cards_and_instances_are_distinguished() -> None:
    assert [card.uuid for card in HOST.whole()] == [A, B]
    assert [card.uuid for card in HOST.instances()] == [M1, M2]
