"""By which names the page may be asked for, so that no web page reaches it under a name of its own.

A browser that is shown a page of evil.example asks evil.example alone, but whoever owns that name may let it point
here (DNS rebinding): https://www.rfc-editor.org/rfc/rfc9110#name-host-and-authority.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final

ANY: Final = "*"


class HostNames:
    """The names of this agent, besides loopback's and the address at which a request arrived."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_plain(name) for name in (*names, "localhost") if name}

    def admit(self, header: str, *, arrived_at: str) -> bool:
        """Return whether a request with this Host header, and that address of the socket, may be answered.

        One without a Host is no browser's.
        """
        if not header or ANY in self._names:
            return True
        host = _plain(_without_port(header))
        return host in self._names or host == _plain(arrived_at) or _is_loopback(host)


def _without_port(header: str) -> str:
    if header.startswith("["):
        host, bracket, _ = header[1:].partition("]")
        return host if bracket else ""
    return header if header.count(":") > 1 else header.partition(":")[0]


def _plain(name: str) -> str:
    """Return a name or address as it is compared: ``GPU01.`` as ``gpu01``, ``::ffff:10.0.0.7`` as ``10.0.0.7``."""
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return name.lower().removesuffix(".")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
