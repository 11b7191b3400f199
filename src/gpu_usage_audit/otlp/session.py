"""A session of `requests` whose requests end when they must, and that sends no credentials but the user's headers."""

from __future__ import annotations

import socket
import threading
import weakref
from typing import Any

import requests
from requests.adapters import HTTPAdapter


class Session(requests.Session):
    """Proxies are those of the environment, as `requests` reads them; answers are streamed."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = True
        self.auth = _headers_only
        self._adapter = _Adapter()
        self.mount("http://", self._adapter)
        self.mount("https://", self._adapter)

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
        return super().merge_environment_settings(url, proxies, stream, own, cert)

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
        self._lock = threading.Lock()
        self._watched: dict[type, type] = {}
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
        return super().send(request, stream, timeout, verify, cert, proxies)

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: bool | str,  # noqa: FBT001 - the signature is requests'
        proxies: dict[str, str] | None = None,
        cert: Any = None,  # noqa: ANN401 - as above
    ) -> Any:  # noqa: ANN401 - as above
        pool = super().get_connection_with_tls_context(request, verify, proxies, cert)
        if pool.ConnectionCls not in self._watched.values():
            pool.ConnectionCls = self._watched_class(pool.ConnectionCls)
        return pool

    def cut(self) -> None:
        with self._lock:
            for opened in tuple(self._sockets):
                try:
                    # The plain socket's, also under TLS: the thread that reads is in the middle of it.
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)
                except OSError:
                    continue

    def _watched_class(self, base: Any) -> type:  # noqa: ANN401 - urllib3's connection classes
        if base not in self._watched:

            def connect(connection: Any) -> None:  # noqa: ANN401 - as above
                base.connect(connection)
                with self._lock:
                    self._sockets.add(connection.sock)

            self._watched[base] = type(base.__name__, (base,), {"connect": connect})
        return self._watched[base]
