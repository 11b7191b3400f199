"""One question to the kubelet: bounded in time and size, with the service account's token as it is now."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gua.core.errors import GuaError
from gua.identity.kubelet import SERVICE_ACCOUNT, Kubelet

MOST_BYTES: Final = 8 * 2**20
_CALL_SECONDS: Final = 5.0
_ALL_SECONDS: Final = 10.0
_MOST_TOKEN: Final = 64 * 1024


class KubeletError(GuaError):
    """The kubelet told no names; ``code`` is why, in one word or number."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


def ask(kubelet: Kubelet, account: Path = SERVICE_ACCOUNT, *, all_seconds: float = _ALL_SECONDS) -> bytes:
    """Return the body of the kubelet's answer, at most 8 MiB, after ``all_seconds`` at most once it is connected.

    No proxy is asked and no redirect followed: the token goes to this address alone. Raises KubeletError.
    """
    try:
        connection = http.client.HTTPSConnection(
            kubelet.host, kubelet.port, timeout=_CALL_SECONDS, context=_context(kubelet, account)
        )
        token = _token(account)
        with contextlib.closing(connection):
            connection.connect()
            with _ended_after(all_seconds, connection):
                connection.request(
                    "GET",
                    kubelet.path,
                    headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
                )
                answer = connection.getresponse()
                body = answer.read(MOST_BYTES + 1) if answer.status == http.HTTPStatus.OK else b""
    except ssl.SSLCertVerificationError as error:
        msg = f"its certificate is not of this cluster's authority ({error.verify_message}): see --kubelet-insecure"
        raise KubeletError(msg, code="certificate") from None
    except TimeoutError:
        msg = "it does not answer in time"
        raise KubeletError(msg, code="timeout") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise KubeletError(str(error) or type(error).__name__, code="unreachable") from None
    if answer.status != http.HTTPStatus.OK:
        raise KubeletError(_refusal(answer.status), code=str(answer.status))
    if len(body) > MOST_BYTES:
        msg = f"its answer is longer than {MOST_BYTES // 2**20} MiB"
        raise KubeletError(msg, code="size")
    if answer.length:  # http.client reads a body that ends early without a word
        msg = "its answer ends early"
        raise KubeletError(msg, code="garbage")
    return body


def _context(kubelet: Kubelet, account: Path) -> ssl.SSLContext:
    if kubelet.insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=account / "ca.crt")
    except OSError as error:
        msg = f"{account}/ca.crt cannot be used ({error.strerror or error}): mount the service account's token"
        raise KubeletError(msg, code="account") from None


def _token(account: Path) -> str:
    try:
        with (account / "token").open(encoding="ascii") as file:
            return file.read(_MOST_TOKEN).strip()
    except (OSError, ValueError) as error:
        msg = f"{account}/token cannot be read ({type(error).__name__}): mount the service account's token"
        raise KubeletError(msg, code="account") from None


@contextlib.contextmanager
def _ended_after(seconds: float, connection: http.client.HTTPSConnection) -> Iterator[None]:
    """End the connection after a while: who sends a byte a second never runs into a call's own limit."""

    def end() -> None:
        late.set()
        with contextlib.suppress(OSError):
            if held is not None:
                held.shutdown(socket.SHUT_RDWR)

    late = threading.Event()
    held: socket.socket | None = connection.sock
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError


def _refusal(status: int) -> str:
    if status == http.HTTPStatus.UNAUTHORIZED:
        return "it does not know the token (401): does it take service accounts' tokens?"
    if status == http.HTTPStatus.FORBIDDEN:
        return "the service account may not get nodes/pods (403): see docs/kubernetes.md"
    return f"it answers {status}"
