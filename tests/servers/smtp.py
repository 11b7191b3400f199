"""SMTP servers on loopback: a real one (aiosmtpd) with faults, one that is silent, one that never ends its greeting."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from servers.process import free_ports


class Mailbox:
    """What an SMTP server accepted, in order; it refuses the recipients in ``refused``, and may drop after DATA."""

    def __init__(self, *, refused: frozenset[str] = frozenset(), drops_after_data: bool = False) -> None:
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self._refused = refused
        self._drops_after_data = drops_after_data

    def recipients(self) -> list[str]:
        return [recipient for recipients, _ in self.mails for recipient in recipients]

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address in self._refused:
            return "550 5.1.1 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - see above
        content = envelope.content
        assert isinstance(content, bytes)
        parsed = message_from_bytes(content, _class=EmailMessage, policy=policy.default)
        self.mails.append((list(envelope.rcpt_tos), parsed))
        if self._drops_after_data:
            transport = server.transport
            assert transport is not None
            transport.abort()  # type: ignore[attr-defined]
        return "250 OK"


@contextmanager
def mail_server(mailbox: Mailbox, *, login: tuple[str, str] | None = None) -> Iterator[int]:
    """Yield the port of a server that delivers into the mailbox; with ``login`` only to who knows user and password."""

    def authenticate(
        _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: LoginPassword
    ) -> AuthResult:
        is_known = (data.login.decode(), data.password.decode()) == login
        return AuthResult(success=is_known, handled=False)

    options = {"auth_required": True, "auth_require_tls": False, "authenticator": authenticate} if login else {}
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_ports(1)[0], **options)
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


@contextmanager
def silent_server() -> Iterator[int]:
    """Yield the port of a server that accepts connections and never sends a byte."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


@contextmanager
def endless_server() -> Iterator[int]:
    """Yield the port of a server whose greeting has one line after the other without an end."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            with contextlib.suppress(OSError):
                caller, _ = listening.accept()
                with caller:
                    while not ended.wait(0.02):
                        caller.sendall(b"220-wait\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
