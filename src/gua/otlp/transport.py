"""One attempt to hand over one request, whatever carries it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gua.otlp.answer import Acceptance


class Transport(Protocol):
    """A way to one endpoint. ``close`` may be called from any thread and ends the attempt in progress."""

    max_request_bytes: int
    """How large a request may be before compression."""

    def pack(self, raws: Iterable[bytes]) -> bytes:
        """Return what is sent for these OTLP requests, as one.

        Messages of one type joined are their merge: one request with the resources of all.
        """
        ...

    def send(self, body: bytes) -> Acceptance:
        """Send once, within the timeout.

        Raises TransientError for what may pass, DataError if this content is refused, and UnavailableError if
        nothing would be taken as long as the settings stay.
        """
        ...

    def close(self) -> None:
        """Let go of the connections."""
        ...
