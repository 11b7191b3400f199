"""PodResources: what an answer says, a kubelet that grpc serves, and servers that give no answer."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from fakes.patience import at_most
from fakes.pod_resources import pod, pod_resources, talking, text
from gua.allocation import pod_resources_pb2
from gua.allocation.pod_resources import (
    CallError,
    ClaimedDevice,
    Device,
    NoSocketError,
    PodDevices,
    parse_pod_resources,
    query_pod_resources,
)

GPU = "nvidia.com/gpu"
SOURCES = Path(__file__).resolve().parents[3] / "src"


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


def test_claimed_devices_are_parsed_with_their_driver_and_names_for_the_runtime() -> None:
    (found,) = parse_pod_resources(
        pod(claims=[("gpu.nvidia.com", "node-1", "gpu-0", ["k8s.gpu.nvidia.com/claim=7-gpu-0"])])
    )
    assert found.claimed == {ClaimedDevice("gpu.nvidia.com", "gpu-0", ("k8s.gpu.nvidia.com/claim=7-gpu-0",))}


@pytest.mark.parametrize(
    "damaged",
    [
        b"garbage",
        b"\x0a",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a" + b"\xff" * 11,
        b"\x02\x00",
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


def test_grpc_serves_it_wherever_the_socket_is_and_every_pod_is_there(tmp_path: Path) -> None:
    folder = tmp_path / ("a b%41#?" + "x" * 120)
    folder.mkdir()
    pods = [pod(f"train-{number}", "lab", {GPU: [f"GPU-{number}"]}) for number in range(3000)]
    with pod_resources(folder / "s", b"".join(pods)) as served:
        found, age_seconds = query_pod_resources(folder / "s", seconds=30)
    assert [each.name for each in found] == [f"train-{number}" for number in range(3000)]

    assert 0 <= age_seconds < 60
    assert served.requests == [b""]


def test_a_grpc_error_is_reported_with_its_message(tmp_path: Path) -> None:
    with pod_resources(tmp_path / "s") as served:
        served.status = grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(CallError, match=re.escape("resource exhausted: rejected by rate limit: 7 é")):
            query_pod_resources(tmp_path / "s")
    with pod_resources(tmp_path / "other", method="/v1.Other/Get"), pytest.raises(CallError, match="unimplemented"):
        query_pod_resources(tmp_path / "other")


def test_a_server_that_takes_too_long_costs_the_limit_and_no_more(tmp_path: Path) -> None:
    with pod_resources(tmp_path / "s") as served:
        served.answers = False
        with at_most(50), pytest.raises(CallError, match=r"no answer within 0.2 s"):
            query_pod_resources(tmp_path / "s", seconds=0.2)


def test_an_answer_that_is_too_long_is_not_taken(tmp_path: Path) -> None:
    with pod_resources(tmp_path / "s", bytes(100_000)), pytest.raises(CallError, match=r"longer than 0.0.* MiB"):
        query_pod_resources(tmp_path / "s", most_bytes=50_000)


def test_an_answer_that_is_none_is_garbage(tmp_path: Path) -> None:
    with pod_resources(tmp_path / "s", b"garbage"), pytest.raises(CallError, match="its answer is garbage: Error pars"):
        query_pod_resources(tmp_path / "s")
    with pod_resources(tmp_path / "t", pod("Train")), pytest.raises(CallError, match="garbage: a pod without a proper"):
        query_pod_resources(tmp_path / "t")


def test_a_socket_without_a_listener_is_a_call_error_and_a_missing_one_a_no_socket_error(tmp_path: Path) -> None:
    with pytest.raises(NoSocketError, match=r"none: No such file"):
        query_pod_resources(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(CallError, match=r"^Connection refused") as refused:
        query_pod_resources(tmp_path / "file")
    assert not isinstance(refused.value, NoSocketError)
    with pytest.raises(NoSocketError, match=r"file/s: Not a directory"):
        query_pod_resources(tmp_path / "file" / "s")
    with pytest.raises(CallError, match="too long"):
        query_pod_resources(tmp_path / ("s" * 300))


def _hang_up(connection: socket.socket) -> None:
    connection.recv(10)


def _speak_http_1(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.recv(10_000)


def _say_nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def _drip(connection: socket.socket) -> None:
    """Begin as a server of HTTP/2 does, then send a frame of 1,000 bytes that takes 10 s."""
    with suppress(OSError):
        connection.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        for byte in bytes((0, 3, 232, 99, 0, 0, 0, 0, 0)) + bytes(1000):
            connection.sendall(bytes((byte,)))
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("talk", "seconds", "said"),
    [
        (_hang_up, 30, r"(reset|closed|Broken pipe)"),
        (_speak_http_1, 30, r"^Failed parsing HTTP/2"),
        (_say_nothing, 0.2, r"no answer within 0.2 s"),
        (_drip, 0.3, r"no answer within 0.3 s"),
    ],
)
def test_a_server_of_no_grpc_costs_a_line_and_the_limit_at_most(
    talk: Callable[[socket.socket], None], seconds: float, said: str, tmp_path: Path
) -> None:
    with talking(tmp_path / "s", talk), at_most(20), pytest.raises(CallError, match=said) as failed:
        query_pod_resources(tmp_path / "s", seconds=seconds)
    assert "\n" not in str(failed.value)


def test_grpc_is_loaded_where_there_is_a_socket_alone(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from gua.allocation.kubernetes import kubernetes_opener; "
        f"reader = kubernetes_opener(None, Path({str(tmp_path / 'none')!r})).open(); reader.query(); reader.close(); "
        "print('grpc' in sys.modules, 'google.protobuf' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]


def test_the_generated_messages_are_those_of_the_proto(tmp_path: Path) -> None:
    """What each version of grpcio-tools writes around them differs; the messages in it do not."""
    proto = "gua/allocation/pod_resources.proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(SOURCES), f"--python_out={tmp_path}", proto]
    subprocess.run(command, check=True, timeout=60, cwd=SOURCES, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    written = Path("gua/allocation/pod_resources_pb2.py")
    [made] = re.findall(r"AddSerializedFile\((.*)\)", (tmp_path / written).read_text())
    [kept] = re.findall(r"AddSerializedFile\((.*)\)", (SOURCES / written).read_text())
    assert made == kept
    assert "ValidateProtobufRuntimeVersion" not in Path(pod_resources_pb2.__file__).read_text()
