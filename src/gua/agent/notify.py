"""Notifications for a systemd service of Type=notify (sd_notify(3)), for which Python has no module."""

import contextlib
import socket
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from gua.core.plaintext import safe
from gua.state.socket_address import short_address

_LONGEST_STATUS = 200


class Notifier:
    """Client of the service manager. It does nothing without one and never raises.

    ``supervised`` is whether a service manager receives the notifications.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        # ``@`` marks an abstract address; other address families (vsock) are not supported.
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.supervised = address.startswith(("@", "/"))

    def ready(self, status: str) -> None:
        """Report that the first tick was made, with the line that ``systemctl status`` shows."""
        self._send(f"READY=1\nSTATUS={safe(status, _LONGEST_STATUS)}")

    def alive(self) -> None:
        """Reset the watchdog."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Report that the agent is shutting down as requested."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self.supervised:
            return
        short = nullcontext(self._address) if self._address.startswith("\0") else short_address(Path(self._address))
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.settimeout(0)  # a manager that does not read must not block the agent
            with short as address:
                sending.sendto(message.encode("utf-8", "replace"), address)
