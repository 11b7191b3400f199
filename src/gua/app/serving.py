"""What options and environment say of the Prometheus endpoint (as gpu-idle-exporter reads them) and of the kubelet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gua.core.errors import UsageError
from gua.exporter.address import CONSTANT, DEFAULT_PORT, Address, Serving, parse_address, parse_port
from gua.identity.kubelet import Kubelet, parse_kubelet

DEFAULT: Final = "on"
"""What ``--prometheus`` without an address stands for."""
_ON: Final = frozenset({DEFAULT, "true", "yes", "1"})
_OFF: Final = frozenset({"", "off", "false", "no", "0"})


def serving(
    text: str | None, environ: Mapping[str, str], *, is_compatible: bool, of: str, names: Sequence[str] = ()
) -> Serving | None:
    """Return what is to be served, ``None`` for nothing.

    ``text`` is an address, or whether there is to be an endpoint at all; then HTTP_PORT may name its port. ``names``
    are those by which it may be asked for, besides its own.
    Raises UsageError.
    """
    said = (text or "").strip().lower()
    if said in _OFF:
        return None
    port = _port(environ)
    address = Address(port=port) if said in _ON else parse_address(said, port=port, of=of)
    constant = {label: environ[name] for name, label in CONSTANT.items() if environ.get(name)}
    return Serving(address=address, constant=constant if is_compatible else None, names=tuple(names))


def between(text: str | None, environ: Mapping[str, str], *, default: str) -> tuple[str, str]:
    """Return the time between ticks, and what says so: the option or GUA_INTERVAL, else POLL_INTERVAL."""
    if text is not None:
        return text, "--interval"
    polled = environ.get("POLL_INTERVAL")
    return (polled, "POLL_INTERVAL") if polled else (default, "--interval")


def _port(environ: Mapping[str, str]) -> int:
    text = environ.get("HTTP_PORT")
    return parse_port(text, "HTTP_PORT") if text else DEFAULT_PORT


def kubelet_of(url: str | None, *, insecure: bool) -> Kubelet | None:
    """Return the kubelet to ask, ``None`` for none. Raises UsageError."""
    if url is not None and url.strip():
        return parse_kubelet(url, insecure=insecure)
    if insecure:
        msg = "--kubelet-insecure says nothing without --kubelet"
        raise UsageError(msg)
    return None
