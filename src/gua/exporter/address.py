"""Listen address of the Prometheus endpoint, and the check of the Host header.

The check prevents DNS rebinding: a web page's own host name may resolve to this agent. Requests with an unknown Host
are refused. Host header: https://www.rfc-editor.org/rfc/rfc9110#name-host-and-authority.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Final

from gua.core.errors import UsageError

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9835
CONSTANT: Final = {"NODE_NAME": "node", "POD_NAME": "pod", "POD_NAMESPACE": "namespace"}
"""Environment variables of the agent's pod, and the labels that they become on gpu-idle-exporter's metrics."""
_ANY: Final = "*"
_PORTS: Final = range(1, 65_536)
_ADDRESS: Final = re.compile(  # an IPv6 address without brackets has no port
    r"\[(?P<ipv6>[^\]]+)\](:(?P<ipv6_port>.+))?|(?P<bare_ipv6>[^:]*:[^:]*:.*)|(?P<only>\d+)|"
    r"(?P<host>[\w.-]*)(:(?P<port>.+))?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Listen address: host and TCP port. An empty ``host`` means all addresses of this machine."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """Settings of the endpoint. ``names`` are further accepted Host names, besides the machine's own.

    ``constant`` are extra labels of the gpu-idle-exporter metrics; ``None`` leaves those metrics out.
    """

    address: Address = field(default_factory=Address)
    constant: Mapping[str, str] | None = field(default_factory=dict)
    names: tuple[str, ...] = ()


def parse_address(text: str, *, port: int = DEFAULT_PORT, of: str = "--prometheus") -> Address:
    """Return the address for ``HOST:PORT``, ``[IPv6]:PORT``, ``HOST``, ``:PORT`` or ``PORT``; default port ``port``.

    ``:PORT`` means all addresses of this machine. Raises UsageError for anything else; ``of`` names the option there.
    """
    text = text.strip()
    try:
        found = _ADDRESS.fullmatch(text)
        if found is None or not text:
            raise ValueError  # noqa: TRY301 - handled like an invalid part
        ipv6 = found["ipv6"] or found["bare_ipv6"]
        host = str(IPv6Address(ipv6)) if ipv6 else DEFAULT_HOST if found["only"] else found["host"]
        host.encode("idna")  # rejects empty labels and labels longer than 63 bytes
        digits = found["ipv6_port"] or found["only"] or found["port"]
        return Address(host=host, port=port if digits is None else _port(digits))
    except ValueError:
        msg = f"{of} {text!r} is no address: write HOST:PORT, as in {Address()} or 0.0.0.0:{DEFAULT_PORT}"
        raise UsageError(msg) from None


def parse_port(text: str, of: str) -> int:
    """Return the TCP port, 1 to 65535. Raises UsageError for anything else; ``of`` names the option there."""
    try:
        return _port(text.strip())
    except ValueError:
        msg = f"{of} {text!r} is no port: write a number from {_PORTS[0]} to {_PORTS[-1]}, as in {DEFAULT_PORT}"
        raise UsageError(msg) from None


def _port(digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 5 and int(digits) in _PORTS):
        raise ValueError
    return int(digits)


class HostNames:
    """Accepted Host names, besides loopback and the local address of the connection; ``*`` accepts every name."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_plain(name) for name in (*names, "localhost") if name}

    def admit(self, header: str, *, arrived_at: str) -> bool:
        """Return whether a request with this Host header may be answered; ``arrived_at`` is the local socket address.

        A request without a Host header is accepted: browsers always send one.
        """
        if not header or _ANY in self._names:
            return True
        bracketed = re.match(r"\[([^\]]*)\]", header)
        without_port = header if header.count(":") > 1 else header.partition(":")[0]
        host = _plain(bracketed[1] if bracketed else without_port)
        try:
            return host in self._names or host == _plain(arrived_at) or ip_address(host).is_loopback
        except ValueError:
            return False


def _plain(name: str) -> str:
    """Return a name or address in normal form: ``GPU01.`` as ``gpu01``, ``::ffff:10.0.0.7`` as ``10.0.0.7``."""
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return name.lower().removesuffix(".")
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
