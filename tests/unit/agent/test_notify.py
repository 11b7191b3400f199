from __future__ import annotations

import socket
import uuid
from pathlib import Path

import pytest

from fakes.sockets import bound
from gua.agent.notify import Notifier


def test_systemd_hears_of_every_step(tmp_path: Path) -> None:
    with bound(tmp_path / "notify", socket.SOCK_DGRAM) as manager:
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert notifier.supervised
        notifier.ready("8 cards")
        notifier.alive()
        notifier.stopping()
        assert [manager.recv(4096).decode() for _ in range(3)] == [
            "READY=1\nSTATUS=8 cards",
            "WATCHDOG=1",
            "STOPPING=1",
        ]


def test_a_path_longer_than_an_address_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("f" * 120)
    folder.mkdir()
    with bound(folder / "notify", socket.SOCK_DGRAM) as manager:
        Notifier({"NOTIFY_SOCKET": str(folder / "notify")}).alive()
        assert manager.recv(4096) == b"WATCHDOG=1"


def test_an_abstract_socket_is_reached() -> None:
    name = f"gua-test-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).alive()
        assert manager.recv(4096) == b"WATCHDOG=1"


def test_a_status_cannot_carry_a_second_message(tmp_path: Path) -> None:
    with bound(tmp_path / "notify", socket.SOCK_DGRAM) as manager:
        Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).ready("a\nMAINPID=1\x1b[2J" + "x" * 1000)
        message = manager.recv(4096).decode()
        assert message.startswith("READY=1\nSTATUS=a MAINPID=1[2Jxxx")
        assert len(message) <= 220


@pytest.mark.parametrize(
    "address", ["", "vsock:2:1234", "relative", "/nowhere/at/all", "/" + "x" * 200, "@" + "y" * 200]
)
def test_notifications_without_a_listener_do_nothing(address: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address} if address else {})
    assert notifier.supervised == address.startswith(("/", "@"))
    notifier.ready("up")
    notifier.alive()
    notifier.stopping()


def test_a_manager_that_does_not_read_does_not_stop_the_agent(tmp_path: Path) -> None:
    with bound(tmp_path / "notify", socket.SOCK_DGRAM):
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        for _ in range(2_000):
            notifier.alive()
