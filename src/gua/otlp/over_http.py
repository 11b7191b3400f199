"""OTLP/HTTP client: sends each body unchanged and maps the response to gua's errors.

Uses urllib3 directly: requests on top of it costs an agent 5 MB, and has no timeout for a whole request.
"""

import ipaddress
import os
import socket
import ssl
import threading
import time
import weakref
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from http.client import BadStatusLine, RemoteDisconnected
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from gua.core.errors import DataError, GuaError, TransientError, UnavailableError
from gua.core.plaintext import safe
from gua.otlp.endpoint import Acceptance, Settings, parse_acceptance, parse_reason, parse_retry_after

USER_AGENT: Final = "gua"
_MAX_ANSWER_BYTES: Final = 64 * 1024
_MAX_REASON: Final = 200
_WBITS: Final = {"gzip": 31, "deflate": 15}  # HTTP's "deflate" is the zlib format (RFC 9110, 8.4.1.2)
_LEVEL: Final = 3
_RETRYABLE: Final = (408, 429, 500, 502, 503, 504)
# Statuses about the request's content. Other 4xx (404, 401, ...) are about the URL or the credentials: ticks are not
# at fault, and must not count as refused.
_REFUSED: Final = (400, 413, 422)
# urllib3's timeout applies to each read; the connection is cut this long after the whole request's timeout.
_GRACE_SECONDS: Final = 0.25
_BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_HANG_UPS: Final = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)


class HttpTransport:
    """:class:`~gua.otlp.send.Transport` for HTTP; the connection stays open between requests."""

    max_request_bytes = 4 * 2**20

    def __init__(self, settings: Settings) -> None:
        """Prepare the headers; opens no connection."""
        self._settings = settings
        self._headers = {
            **settings.headers,
            "content-type": "application/x-protobuf",
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
            **({} if settings.compression == "none" else {"content-encoding": settings.compression}),
        }
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._files: list[tuple[str, int]] | None = None
        self._manager: urllib3.PoolManager | None = None
        self._late = self._stopped = False

    def pack(self, raws: Iterable[bytes]) -> bytes:
        """Return the compressed body; compresses each request separately to limit memory."""
        if self._settings.compression == "none":
            return b"".join(raws)
        packer = zlib.compressobj(_LEVEL, wbits=_WBITS[self._settings.compression])
        return b"".join([*map(packer.compress, raws), packer.flush()])

    def send(self, body: bytes) -> Acceptance:
        """Send once. Raises the errors of ``Transport.send``."""
        self._late = False
        deadline = threading.Timer(self._settings.timeout_seconds + _GRACE_SECONDS, self._give_up)
        deadline.daemon = True
        deadline.start()
        try:
            return self._answered(self._post(body))
        finally:
            deadline.cancel()

    def close(self) -> None:
        """Abort the request in progress, refuse later ones, and close the connection."""
        self._stopped = True
        self._cut()
        if self._manager is not None:
            self._manager.clear()

    def _give_up(self) -> None:
        self._late = True
        self._cut()

    def _cut(self) -> None:
        """Abort the request in progress as if the server had closed the connection; callable from any thread."""
        for opened in self._sockets.copy():
            # On the plain socket, also under TLS, as the reading thread is using the TLS object.
            with suppress(OSError):
                socket.socket.shutdown(opened, socket.SHUT_RDWR)

    def _post(self, body: bytes) -> urllib3.BaseHTTPResponse:
        """Return the response; retries once if a kept-alive connection turns out to be closed."""
        deadline = time.monotonic() + self._settings.timeout_seconds
        answered = self._attempt(body, self._settings.timeout_seconds)
        if isinstance(answered, urllib3.exceptions.ProtocolError | urllib3.exceptions.SSLError):
            left = deadline - time.monotonic()
            answered = self._attempt(body, left) if left > 0 else answered
        if isinstance(answered, urllib3.BaseHTTPResponse):
            return answered
        raise self._unreachable(answered)

    def _attempt(self, body: bytes, timeout_seconds: float) -> urllib3.BaseHTTPResponse | Exception:
        """Return the response with its body unread, or the error; does not follow redirects."""
        try:
            if self._stopped:
                msg = "delivery was stopped"
                return urllib3.exceptions.HTTPError(msg)
            settings = self._settings
            certificates = [
                path for path in (settings.certificate, settings.client_certificate, settings.client_key) if path
            ]
            # A new connection pool if a certificate file has changed.
            files = [(str(path), path.stat().st_mtime_ns) for path in certificates]
            if self._manager is None or files != self._files:
                self._manager, self._files = _manager(settings, self._sockets), files
            return self._manager.urlopen(
                "POST",
                self._settings.url,
                body=body,
                headers=self._headers,
                redirect=False,
                retries=False,
                timeout=timeout_seconds,
                preload_content=False,
            )
        except Exception as error:  # noqa: BLE001 - urllib3 passes errors of ssl and http.client through
            # Without the traceback: its frames reference the body.
            return error.with_traceback(None)

    def _answered(self, response: urllib3.BaseHTTPResponse) -> Acceptance:
        try:
            body = response.read(_MAX_ANSWER_BYTES, decode_content=True)
        except Exception as error:  # noqa: BLE001 - urllib3 passes errors of ssl and http.client through
            raise self._unreachable(error) from None
        finally:
            response.close()
        status = response.status
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return parse_acceptance(body)
        reason = parse_reason(body, without=self._settings.without_secrets)
        try:
            phrase = f"({reason})" if reason else HTTPStatus(status).phrase
        except ValueError:
            phrase = "(unknown)"
        raise self._refusal(status, phrase, response.headers.get("Retry-After"))

    def _refusal(self, status: int, phrase: str, retry_after: str | None) -> GuaError:
        refusal = f"{self._settings.shown} answered {status} {phrase}"
        if status in _RETRYABLE:
            msg = f"{refusal}: it is overloaded or down, try again later"
            return TransientError(msg, retry_after_seconds=parse_retry_after(retry_after))
        if status in _REFUSED:
            return DataError(refusal)
        if status in (401, 403, 407):
            return UnavailableError(f"{refusal}: {self._settings.credentials_remedy}")
        msg = (
            f"{refusal}: check the URL, an OTLP/HTTP receiver listens on port 4318 at /v1/metrics{self._settings.hint}"
        )
        return UnavailableError(msg)

    def _unreachable(self, error: Exception) -> UnavailableError:
        shown, hint = self._settings.shown, self._settings.hint
        causes = [*_causes(error)]
        for cause in causes:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return self._settings.untrusted(cause.verify_message)
            if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
                why = str(cause.reason or cause)
                needs_certificate = "CERTIFICATE_REQUIRED" in why or "HANDSHAKE_FAILURE" in why
                return self._settings.tls_failed(why, client_certificate=needs_certificate)
        if isinstance(error, ValueError) or (isinstance(error, OSError) and error.filename):
            return UnavailableError(
                f"{shown} cannot be used ({self._one_line(error)}): check URL, proxy and certificates"
            )
        if self._late or any(isinstance(cause, TimeoutError | urllib3.exceptions.ReadTimeoutError) for cause in causes):
            msg = f"{shown} did not answer within {self._settings.timeout_seconds:g} s: it is slow or down{hint}"
            return TransientError(msg)
        through = " through its proxy" if isinstance(error, urllib3.exceptions.ProxyError) else ""
        if any(isinstance(cause, BadStatusLine) and not isinstance(cause, RemoteDisconnected) for cause in causes):
            msg = f"what {shown} answers is not HTTP: check the port{hint or self._settings.other_protocol}"
            return TransientError(msg)
        hung_up = any(isinstance(cause, _HANG_UPS) for cause in causes)
        hint = (self._settings.client_hint if hung_up else "") + hint
        return TransientError(f"cannot reach {shown}{through} ({self._one_line(causes[-1])}): check that it runs{hint}")

    def _one_line(self, error: BaseException) -> str:
        message = self._settings.without_secrets(str(getattr(error, "strerror", None) or error))
        return safe(message, _MAX_REASON) or type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first. Each library stores the inner error in another attribute."""
    seen: list[BaseException] = []
    below: BaseException | None = error
    while below is not None and below not in seen:
        seen.append(below)
        yield below
        wrapped = [getattr(below, "reason", None), *reversed(below.args), below.__cause__, below.__context__]
        below = next((inner for inner in wrapped if isinstance(inner, BaseException) and inner not in seen), None)


def _manager(settings: Settings, sockets: weakref.WeakSet[socket.socket]) -> urllib3.PoolManager:
    """Return a pool of one connection through the environment's proxy; its socket is added to ``sockets``."""
    keywords: dict[str, Any] = {"num_pools": 1, "maxsize": 1}
    if settings.secure:
        context = create_urllib3_context()
        bundle = settings.certificate or next((path for name in _BUNDLES if (path := os.environ.get(name))), None)
        if bundle is None:
            import certifi  # noqa: PLC0415 - only needed without a CA file

            bundle = certifi.where()
        if Path(bundle).is_dir():
            context.load_verify_locations(capath=bundle)
        else:
            context.load_verify_locations(cafile=bundle)
        if settings.client_certificate:
            context.load_cert_chain(settings.client_certificate, settings.client_key)
        keywords["ssl_context"] = context
    proxy = _proxy(settings.url)
    if proxy is None:
        manager = urllib3.PoolManager(**keywords)
    else:
        parts = urlsplit(proxy)
        user = None if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers = urllib3.make_headers(proxy_basic_auth=user)
        manager = urllib3.ProxyManager(proxy, proxy_headers=headers, **keywords)
    pools: dict[str, Any] = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {
        scheme: type(pool.__name__, (pool,), {"ConnectionCls": _watched(pool.ConnectionCls, sockets)})
        for scheme, pool in pools.items()
    }
    return manager


def _watched(base: Any, sockets: weakref.WeakSet[socket.socket]) -> type:  # noqa: ANN401 - urllib3's connection classes
    """Return a subclass of ``base`` that adds its sockets to ``sockets``."""

    def connect(connection: Any) -> None:  # noqa: ANN401 - as above
        base.connect(connection)
        sockets.add(connection.sock)

    return type(base.__name__, (base,), {"connect": connect})


def _proxy(url: str) -> str | None:
    """Return the environment's proxy for this URL (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY), or ``None``."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc) or _is_within(host, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_within(host: str, networks: str) -> bool:
    """Return whether ``host`` is an address in one of the comma-separated networks; host names are skipped."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for network in networks.split(","):
        try:
            if address in ipaddress.ip_network(network.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False
