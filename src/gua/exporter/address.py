"""What the endpoint serves and where it listens, as people write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Final, NoReturn

from gua.core.errors import UsageError

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9835
_PORTS: Final = range(1, 65_536)


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """An empty ``host`` is every address of this machine."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """What is served where: ``constant`` are labels of the compatible set, ``None`` leaves that set out.

    ``names`` are those by which it may be asked for, besides its own.
    """

    address: Address = field(default_factory=Address)
    constant: Mapping[str, str] | None = field(default_factory=dict)
    names: tuple[str, ...] = ()


def parse_address(text: str, *, port: int = DEFAULT_PORT, of: str = "--prometheus") -> Address:
    """Return what ``HOST:PORT``, ``[IPv6]:PORT``, ``HOST``, ``:PORT`` or ``PORT`` names; ``port`` is for those without.

    ``:PORT`` is every address of this machine. Raises UsageError, which says whose value ``of`` cannot be used.
    """
    text = text.strip()
    if text.isdecimal():
        return Address(port=_port(text, text, of))
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not host or rest[:1] not in ("", ":"):
            _refuse(text, of)
        return Address(host=_ipv6(host, text, of), port=_port(rest[1:], text, of) if rest else port)
    if text.count(":") > 1:  # an IPv6 address without brackets has no port
        return Address(host=_ipv6(text, text, of), port=port)
    host, colon, digits = text.partition(":")
    if (
        (not host and not colon)
        or not all(character.isalnum() or character in ".-_" for character in host)
        or not _is_name(host)
    ):
        _refuse(text, of)
    return Address(host=host, port=_port(digits, text, of) if colon else port)


def parse_port(text: str, of: str) -> int:
    """Return a port. Raises UsageError."""
    if not _is_port(text.strip()):
        msg = f"{of} {text!r} is no port: write a number from {_PORTS[0]} to {_PORTS[-1]}, as in {DEFAULT_PORT}"
        raise UsageError(msg)
    return int(text)


def _ipv6(host: str, text: str, of: str) -> str:
    try:
        return str(IPv6Address(host))
    except ValueError:
        _refuse(text, of)


def _port(digits: str, text: str, of: str) -> int:
    if not _is_port(digits):
        _refuse(text, of)
    return int(digits)


def _is_port(digits: str) -> bool:
    return digits.isascii() and digits.isdecimal() and len(digits) <= 5 and int(digits) in _PORTS


def _is_name(host: str) -> bool:
    """Return whether the system may be asked for a host's name: no part of it is empty, or longer than 63 bytes."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def _refuse(text: str, of: str) -> NoReturn:
    msg = f"{of} {text!r} is no address: write HOST:PORT, as in {DEFAULT_HOST}:{DEFAULT_PORT} or 0.0.0.0:{DEFAULT_PORT}"
    raise UsageError(msg)
