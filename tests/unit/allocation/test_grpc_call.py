"""One call of a gRPC server: what grpc itself serves, and answers that are none."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from fakes.patience import at_most
from fakes.pod_resources import pod_resources, talking
from gua.allocation.grpc_call import CallError, NoSocketError, call
from gua.allocation.hpack import headers
from gua.allocation.pod_resources import LIST

OK = b"\x88"  # :status 200
DONE = b"\x00\x0bgrpc-status\x010"


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def message(content: bytes) -> bytes:
    return b"\x00" + struct.pack(">I", len(content)) + content


def asked(path: Path, talk: Callable[[socket.socket], None], *, seconds: float = 60.0, most: int = 1000) -> bytes:
    with talking(path, talk):
        return call(path, LIST, seconds=seconds, most_bytes=most)


def saying(*frames: bytes) -> Callable[[socket.socket], None]:
    """Return a talk that says all of it, and waits until the other one leaves."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"".join(frames))
        while connection.recv(4096):
            pass

    return talk


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 200_000, 3 * 2**20])
def test_grpc_answers_and_every_byte_is_there(size: int, tmp_path: Path) -> None:
    answer = bytes(number % 251 for number in range(size))
    with pod_resources(tmp_path / "s", answer) as served:
        assert call(tmp_path / "s", LIST, b"\x0a\x01x", seconds=10) == answer
    assert served.requests == [b"\x0a\x01x"]


def test_what_grpc_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    with pod_resources(tmp_path / "s") as served:
        served.status = grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(CallError, match=re.escape("resource exhausted: rejected by rate limit: 7 %C3%A9")):
            call(tmp_path / "s", LIST, seconds=5)
        with pytest.raises(CallError, match="unimplemented"):
            call(tmp_path / "s", "/v1.Other/Get", seconds=5)


def test_a_server_that_takes_too_long_costs_the_limit_and_no_more(tmp_path: Path) -> None:
    with pod_resources(tmp_path / "s") as served:
        served.answers = False
        with at_most(50), pytest.raises(CallError, match=r"no answer within 0.2 s|deadline exceeded"):
            call(tmp_path / "s", LIST, seconds=0.2)


def test_an_answer_that_is_too_long_is_not_taken(tmp_path: Path) -> None:
    with pod_resources(tmp_path / "s", bytes(100_000)), pytest.raises(CallError, match=r"longer than 0.0.* MiB"):
        call(tmp_path / "s", LIST, seconds=5, most_bytes=50_000)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(NoSocketError, match="No such file"):
        call(tmp_path / "none", LIST, seconds=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(CallError, match="refused"):
        call(tmp_path / "file", LIST, seconds=1)
    with pytest.raises(CallError, match="too long"):
        call(tmp_path / ("s" * 200), LIST, seconds=1)


def test_frames_may_come_in_any_cut_and_with_padding(tmp_path: Path) -> None:
    answer = b"".join(
        (
            frame(4, 0, b"", 0),
            frame(6, 0, b"12345678", 0),
            frame(8, 0, struct.pack(">I", 1000), 0),
            frame(99, 0, b"what is to come"),
            frame(1, 0x8 | 0x20, b"\x02" + b"\x00\x00\x00\x00\x10" + OK[:0] + b"pp"),
            frame(9, 0x4, OK),
            frame(0, 0x8, b"\x03" + message(b"abcdef")[:7] + b"ppp"),
            frame(0, 0, message(b"abcdef")[7:]),
            frame(1, 0x1, DONE[:5]),
            frame(9, 0, DONE[5:9]),
            frame(9, 0x4, DONE[9:]),
        )
    )
    heard: list[bytes] = []

    def talk(connection: socket.socket) -> None:
        for byte in answer:
            connection.sendall(bytes((byte,)))
        while some := connection.recv(4096):
            heard.append(some)

    assert asked(tmp_path / "s", talk) == b"abcdef"
    said = b"".join(heard)
    assert frame(4, 0x1, b"", 0) in said
    assert frame(6, 0x1, b"12345678", 0) in said


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "too long"),
        ((b"\x00" * 9 * 100 + b"\xff" * 100,), "too long"),
        ((frame(1, 0x5, OK + DONE),), "no whole message"),
        ((frame(1, 0x4, OK), frame(0, 0, b"\x00\x00\x00\x00\x09abc"), frame(1, 0x5, DONE)), "no whole message"),
        ((frame(1, 0x4, OK), frame(0, 0, message(b"a") * 2), frame(1, 0x5, DONE)), "no whole message"),
        ((frame(1, 0x4, OK), frame(0, 0, b"\x01\x00\x00\x00\x01a"), frame(1, 0x5, DONE)), "no whole message"),
        ((frame(1, 0x4, OK), frame(0, 0x1, message(b"a"))), "no answer of gRPC"),
        ((frame(1, 0x5, b"\x8d"),), "no answer of gRPC"),
        ((frame(1, 0x5, b"\xff\xff\xff\xff\xff\xff"),), "does not end"),
        ((frame(1, 0x5, b"\xbe"),), "a table that there is none of"),
        ((frame(1, 0x5, b"\x00\x05gr"),), "cut off"),
        ((frame(3, 0, struct.pack(">I", 8)),), r"ended the call \(code 8\)"),
        ((frame(7, 0, bytes(8), 0),), "shuts down"),
        ((frame(1, 0x4, OK), frame(1, 0x5, OK + DONE[:-1] + b"7")), "permission denied"),
        ((frame(0, 0, bytes(900)), frame(0, 0, bytes(900))), "longer than"),
        (tuple(frame(9, 0, b"\x00" * 16_384) for _ in range(5)), "longer than"),
    ],
)
def test_garbage_is_told_as_such(frames: tuple[bytes, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(CallError, match=said):
        asked(tmp_path / "s", saying(*frames))


def test_one_that_hangs_up_or_says_nothing(tmp_path: Path) -> None:
    def leave(connection: socket.socket) -> None:
        connection.recv(10)

    with pytest.raises(CallError, match=r"closed the connection|reset|Broken pipe"):
        asked(tmp_path / "a", leave)
    with pytest.raises(CallError, match=r"no answer within 0.1 s"):
        asked(tmp_path / "b", saying(), seconds=0.1)


def test_a_byte_now_and_then_does_not_stretch_the_limit(tmp_path: Path) -> None:
    def drip(connection: socket.socket) -> None:
        for byte in frame(0, 0, bytes(1000)):
            connection.sendall(bytes((byte,)))
            time.sleep(0.01)

    # All of it takes 10 s, and is no answer.
    with pytest.raises(CallError, match="no answer within"):
        asked(tmp_path / "s", drip, seconds=0.3)


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
        ("25a849e95ba97d7f", "custom-key"),
        ("25a849e95bb8e8b4bf", "custom-value"),
        ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("9d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
        ("febfe7fd7fe7ffcfff9f", "(|#$^<"),  # by the codes of appendix B
    ],
)
def test_packed_headers_are_read_as_the_standard_shows_them(packed: str, text: str) -> None:
    # RFC 7541, C.4 and C.6
    content = bytes.fromhex(packed)
    block = b"\x3f\x00" + b"\x00\x01a" + bytes((0x80 | len(content),)) + content + b"\x48\x82\x64\x02"
    assert headers(block) == {"a": text, ":status": "302"}
