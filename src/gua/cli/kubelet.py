"""The options that name the kubelet."""

from __future__ import annotations

from typing import Annotated

from gua.cli.options import flag, value
from gua.core.errors import UsageError
from gua.identity.kubelet import Kubelet, parse_kubelet

KubeletOption = Annotated[
    str | None,
    value(
        "URL",
        "GUA_KUBELET",
        "Names of pods besides their ids, from this node's kubelet: https://NODE:10250/pods, with the service "
        "account's token.",
    ),
]
InsecureOption = Annotated[
    bool,
    flag(
        "--kubelet-insecure",
        "GUA_KUBELET_INSECURE",
        "Do not check the kubelet's certificate: whoever answers there gets the token.",
    ),
]


def kubelet_of(url: str | None, *, insecure: bool) -> Kubelet | None:
    """Return the kubelet to ask, ``None`` for none. Raises UsageError."""
    if url is not None and url.strip():
        return parse_kubelet(url, insecure=insecure)
    if insecure:
        msg = "--kubelet-insecure says nothing without --kubelet"
        raise UsageError(msg)
    return None
