"""A session of `requests` whose requests end when they must, and that sends no credentials but the user's headers."""

from __future__ import annotations

import functools
import socket
import weakref
from collections.abc import Mapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter


class HttpSession(requests.Session):
    """Proxies are those of the environment at the first request, as `requests` reads them; answers are streamed."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = True
        self.auth = _headers_only
        self._adapter = _Adapter()
        self._merged: tuple[Any, Any] | None = None
        self._prepared: tuple[Any, requests.PreparedRequest] | None = None
        self.mount("http://", self._adapter)
        self.mount("https://", self._adapter)

    def send_body(self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float) -> requests.Response:
        """Send a body, as :meth:`request` does; what is the same in each of them is put together once.

        Redirects are not followed. Raises what `requests` raises.
        """
        key = (url, headers)
        if self._prepared is None or self._prepared[0] != key or self.cookies:
            self._prepared = key, self.prepare_request(requests.Request("POST", url, headers=dict(headers)))
        request = self._prepared[1].copy()
        request.prepare_body(body, None)
        settings = self.merge_environment_settings(request.url or url, {}, None, None, None)
        return self.send(request, timeout=timeout_seconds, allow_redirects=False, **settings)

    def merge_environment_settings(
        self,
        url: str,
        proxies: dict[str, str] | None,
        stream: bool | None,  # noqa: FBT001 - as above
        verify: bool | str | None,  # noqa: FBT001 - as above
        cert: Any,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        """Let the certificate that was set win over REQUESTS_CA_BUNDLE; `requests` has it the other way round."""
        own = self.verify if isinstance(self.verify, str) else verify
        arguments = (url, dict(proxies or {}), stream, own, cert)
        # Only once: to go through the environment for proxies takes as long as half of the rest of a request.
        if self._merged is None or self._merged[0] != arguments:
            self._merged = arguments, super().merge_environment_settings(url, proxies, stream, own, cert)
        settings = self._merged[1]
        return {**settings, "proxies": dict(settings["proxies"])}

    def cut(self) -> None:
        """End the request in progress, as the peer would; callable from any thread."""
        self._adapter.cut()

    def stop(self) -> None:
        """End the request in progress and refuse any other."""
        self._adapter.stopped = True
        self._adapter.cut()


def _headers_only(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Add nothing: without an ``auth`` of its own a session sends the password that ~/.netrc has for the host."""
    return request


class _Adapter(HTTPAdapter):
    """Knows the sockets of its connections: `requests` limits each read, but no request as a whole."""

    def __init__(self) -> None:
        self.stopped = False
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(pool_connections=1, pool_maxsize=1)

    def send(  # noqa: PLR0913, PLR0917 - the signature is requests'
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - as above
        timeout: Any = None,  # noqa: ANN401 - as above
        verify: bool | str = True,  # noqa: FBT001, FBT002 - as above
        cert: Any = None,  # noqa: ANN401 - as above
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        if self.stopped:
            msg = "delivery was stopped"
            raise requests.ConnectionError(msg)
        try:
            return super().send(request, stream, timeout, verify, cert, proxies)
        except Exception as error:
            _forget_frames(error)
            raise

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: bool | str,  # noqa: FBT001 - the signature is requests'
        proxies: dict[str, str] | None = None,
        cert: Any = None,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        pool: Any = super().get_connection_with_tls_context(request, verify, proxies, cert)
        if not isinstance(pool.ConnectionCls, functools.partial):
            pool.ConnectionCls = functools.partial(_connection, _watched(pool.ConnectionCls), self._sockets)
        return pool

    def cut(self) -> None:
        for opened in self._sockets.copy():
            try:
                # The plain socket's, also under TLS: the thread that reads is in the middle of it.
                socket.socket.shutdown(opened, socket.SHUT_RDWR)
            except OSError:
                continue


def _connection(made: Any, sockets: weakref.WeakSet[socket.socket], **settings: Any) -> Any:  # noqa: ANN401 - urllib3's
    connection = made(**settings)
    connection.sockets = sockets
    return connection


@functools.cache
def _watched(base: Any) -> type:  # noqa: ANN401 - urllib3's connection classes
    """Return ``base`` with an eye on its sockets; once for each, as a class is never freed at once."""

    def connect(connection: Any) -> None:  # noqa: ANN401 - as above
        base.connect(connection)
        connection.sockets.add(connection.sock)

    return type(base.__name__, (base,), {"connect": connect})


def _forget_frames(error: BaseException) -> None:
    """Break the rings of errors, frames and connections, each with a MB of certificates, that urllib3 makes.

    The garbage collector would find them, some hundred attempts later.
    """
    waiting = [error]
    seen: list[BaseException] = []
    while waiting:
        known = waiting.pop()
        seen.append(known)
        known.__traceback__ = None
        wrapped = (getattr(known, "reason", None), *known.args, known.__cause__, known.__context__)
        waiting += [inner for inner in wrapped if isinstance(inner, BaseException) and inner not in seen]
