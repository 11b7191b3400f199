"""Where a node's list of pods is asked for: the kubelet's read-only answer at ``/pods``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gua.core.errors import UsageError

# Where Kubernetes puts a service account's token, which it replaces within the hour, and the cluster's authority.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, kw_only=True, slots=True)
class Kubelet:
    """A kubelet at ``host``:``port``; with ``insecure`` whoever answers there is believed, and gets the token."""

    host: str
    port: int
    path: str = "/pods"
    insecure: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.path}"


def parse_kubelet(text: str, *, insecure: bool = False) -> Kubelet:
    """Return the kubelet at ``https://HOST[:PORT][/PATH]``; the port is 10250, the path ``/pods`` if not given.

    A host that is an IPv6 address may lack its brackets, as NODE_IP does in a manifest, if port and path are given.
    Raises UsageError.
    """
    text = text.strip()
    try:
        url = urlsplit(_bracketed(text))
        port = 10250 if url.port is None else url.port
        plain = text.isascii() and text.isprintable() and " " not in text
    except ValueError:
        url, port, plain = urlsplit(""), 0, False
    if url.scheme != "https" or not url.hostname or not port or not plain or url.query or "@" in url.netloc:
        msg = f"--kubelet {text!r} is no address of a kubelet: write https://NODE:10250/pods"
        raise UsageError(msg)
    return Kubelet(host=url.hostname, port=port, path=url.path if url.path.strip("/") else "/pods", insecure=insecure)


def _bracketed(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    netloc, slash, path = rest.partition("/")
    if netloc.count(":") > 1 and "[" not in netloc:
        host, _, port = netloc.rpartition(":")
        netloc = f"[{host}]:{port}"
    return f"{scheme}{separator}{netloc}{slash}{path}"
