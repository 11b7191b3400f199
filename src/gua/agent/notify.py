"""What systemd wants to hear from a service of Type=notify: sd_notify(3), without its library."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from gua.core.plaintext import safe
from gua.state.socket_address import address_of

_LONGEST_STATUS = 200


class Notifier:
    """Tells the service manager how the agent is; says nothing where there is none, and never raises."""

    def __init__(self, environ: Mapping[str, str], *, pid: int | None = None) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self.watchdog_seconds = _watchdog_seconds(environ, os.getpid() if pid is None else pid)
        """How long systemd waits for a sign of life before it kills the agent, ``None`` if it does not.
        Give one at least twice in that time, from the loop itself, so that it tells of the loop."""

    @property
    def supervised(self) -> bool:
        """Whether a service manager listens."""
        return self._address is not None

    def ready(self, status: str = "", *, main_pid: int | None = None) -> None:
        """Tell that the first tick is done: what depends on the agent may start."""
        self._send("READY=1", _status(status), f"MAINPID={main_pid}" if main_pid else "")

    def status(self, text: str) -> None:
        """Set the line that ``systemctl status`` shows."""
        self._send(_status(text))

    def alive(self) -> None:
        """Give the watchdog a sign of life."""
        self._send("WATCHDOG=1")

    def stopping(self, status: str = "") -> None:
        """Tell that the agent is ending, as it was asked to."""
        self._send("STOPPING=1", _status(status))

    def _send(self, *lines: str) -> None:
        message = "\n".join(line for line in lines if line)
        if self._address is None or not message:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.settimeout(0)  # a manager that does not read must not stop the agent
            with _short(self._address) as address:
                sending.sendto(message.encode("utf-8", "replace"), address)


def _address(text: str) -> str | None:
    """Return the socket's address; ``@`` begins an abstract one, other families (vsock) are not spoken here."""
    if text.startswith("@"):
        return f"\0{text[1:]}"
    return text if text.startswith("/") else None


def _short(address: str) -> AbstractContextManager[str]:
    return nullcontext(address) if address.startswith("\0") else address_of(Path(address))


def _watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    meant_for = environ.get("WATCHDOG_PID", "")
    if meant_for and meant_for != str(pid):
        return None
    text = environ.get("WATCHDOG_USEC", "")
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text)):
        return None
    return int(text) / 1_000_000


def _status(text: str) -> str:
    return f"STATUS={safe(text, _LONGEST_STATUS)}" if text else ""
