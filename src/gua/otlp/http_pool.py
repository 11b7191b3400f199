"""The connections of an OTLP/HTTP endpoint: requests that end when they must, through the proxies of the environment.

`urllib3` itself: `requests` on top of it takes 5 MB more of an agent, and limits no request as a whole.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from gua.otlp.endpoint import Settings

_BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class HttpPool:
    """One connection to an endpoint, kept open between requests."""

    def __init__(self, settings: Settings) -> None:
        """Connect to nothing yet. Proxies are those of the environment now."""
        self._settings = settings
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._stopped = False
        self._files: list[tuple[str, int]] | None = None
        self._manager: urllib3.PoolManager | None = None

    def post(self, headers: Mapping[str, str], body: bytes, timeout_seconds: float) -> urllib3.BaseHTTPResponse:
        """Return the answer, its body not read yet; redirects are not followed.

        Raises what `urllib3`, ssl and http.client raise, and OSError for a certificate that cannot be read.
        """
        if self._stopped:
            msg = "delivery was stopped"
            raise urllib3.exceptions.HTTPError(msg)
        return self._current().urlopen(
            "POST",
            self._settings.url,
            body=body,
            headers=headers,
            redirect=False,
            retries=False,
            timeout=timeout_seconds,
            preload_content=False,
        )

    def cut(self) -> None:
        """End the request in progress, as the peer would; callable from any thread."""
        for opened in self._sockets.copy():
            try:
                # The plain socket's, also under TLS: the thread that reads is in the middle of it.
                socket.socket.shutdown(opened, socket.SHUT_RDWR)
            except OSError:
                continue

    def stop(self) -> None:
        """End the request in progress, refuse any other, and close the connection."""
        self._stopped = True
        self.cut()
        if self._manager is not None:
            self._manager.clear()

    def _current(self) -> urllib3.PoolManager:
        """Return what makes connections, anew where the files of certificates have changed."""
        files = [(str(path), path.stat().st_mtime_ns) for path in self._certificates()]
        if self._manager is None or files != self._files:
            self._manager, self._files = self._made(), files
        return self._manager

    def _made(self) -> urllib3.PoolManager:
        keywords: dict[str, Any] = {"num_pools": 1, "maxsize": 1}
        if self._settings.secure:
            keywords["ssl_context"] = _context(self._settings)
        proxy = _proxy(self._settings.url)
        if proxy is None:
            manager = urllib3.PoolManager(**keywords)
        else:
            parts = urlsplit(proxy)
            user = None if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers = urllib3.make_headers(proxy_basic_auth=user)
            manager = urllib3.ProxyManager(proxy, proxy_headers=headers, **keywords)
        pools: dict[str, Any] = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {
            scheme: type(pool.__name__, (pool,), {"ConnectionCls": _watched(pool.ConnectionCls, self._sockets)})
            for scheme, pool in pools.items()
        }
        return manager

    def _certificates(self) -> list[Path]:
        settings = self._settings
        return [path for path in (settings.certificate, settings.client_certificate, settings.client_key) if path]


def _watched(base: Any, sockets: weakref.WeakSet[socket.socket]) -> type:  # noqa: ANN401 - urllib3's connection classes
    """Return ``base`` with an eye on its sockets."""

    def connect(connection: Any) -> None:  # noqa: ANN401 - as above
        base.connect(connection)
        sockets.add(connection.sock)

    return type(base.__name__, (base,), {"connect": connect})


def _context(settings: Settings) -> ssl.SSLContext:
    """Return what checks the receiver: the authority that was set before that of other programs, else certifi's."""
    context = create_urllib3_context()
    bundle = settings.certificate or next((path for name in _BUNDLES if (path := os.environ.get(name))), None)
    if bundle is None:
        import certifi  # noqa: PLC0415 - only where it is needed

        bundle = certifi.where()
    if Path(bundle).is_dir():
        context.load_verify_locations(capath=bundle)
    else:
        context.load_verify_locations(cafile=bundle)
    if settings.client_certificate:
        context.load_cert_chain(settings.client_certificate, settings.client_key)
    return context


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for this URL: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc) or _is_within(host, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_within(host: str, networks: str) -> bool:
    """Return whether an address is in one of these networks; they stand among names."""
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
