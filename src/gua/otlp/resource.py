"""OTLP resource of this sender, from the machine's environment and the user's OTEL_* variables."""

import os
from collections.abc import Mapping
from importlib.metadata import version
from urllib.parse import unquote

from gua.core.errors import UsageError
from gua.core.tick import Origin
from gua.core.words import Source

_KUBERNETES = {
    "k8s.node.name": "NODE_NAME",
    "k8s.pod.name": "POD_NAME",
    "k8s.namespace.name": "POD_NAMESPACE",
}


def origin(  # noqa: PLR0913 - keyword-only; each value is known to the caller alone
    *,
    source: Source,
    interval_ms: int,
    environ: Mapping[str, str],
    host: str | None = None,
    host_id: str | None = None,
    instance_id: str | None = None,
    service_version: str | None = None,
) -> Origin:
    """Return the origin of ticks that are sampled every ``interval_ms`` milliseconds.

    An agent's host is GUA_HOST_NAME, else NODE_NAME, else ``host`` (the machine's own name). OTEL_SERVICE_NAME and
    OTEL_RESOURCE_ATTRIBUTES override everything except interval and source. Recorded and simulated ticks belong to
    another machine: ``host`` names it, and ``host.*`` and ``k8s.*`` of this machine's environment are dropped.

    Raises :class:`UsageError` if OTEL_RESOURCE_ATTRIBUTES is malformed or no host name is available.
    """
    here = source is Source.AGENT
    configured = {
        key: value
        for key, value in parse_pairs("OTEL_RESOURCE_ATTRIBUTES", environ).items()
        if key not in ("gua.sample.interval", "gua.source") and (here or not key.startswith(("host.", "k8s.")))
    }
    named = (environ.get("GUA_HOST_NAME") or environ.get("NODE_NAME") or host) if here else host
    kubernetes = {key: environ[name] for key, name in _KUBERNETES.items() if here and environ.get(name)}
    host_name = configured.pop("host.name", None) or named
    if not host_name:
        raise UsageError("this host has no name: set GUA_HOST_NAME")
    service = configured.pop("service.name", None)
    return Origin(
        host=host_name,
        source=source,
        interval_ms=interval_ms,
        host_id=configured.pop("host.id", None) or host_id,
        instance_id=configured.pop("service.instance.id", None) or instance_id,
        service_name=environ.get("OTEL_SERVICE_NAME") or service or "gua",
        service_version=configured.pop("service.version", None) or service_version,
        attributes=tuple(sorted({**kubernetes, **configured}.items())),
    )


def origin_elsewhere(source: Source, host: str, interval_ms: int, *, instance_id: str) -> Origin:
    """Return the origin of recorded or simulated ticks. A constant ``instance_id`` makes imports idempotent."""
    return origin(
        source=source,
        interval_ms=interval_ms,
        environ=os.environ,
        host=host,
        instance_id=instance_id,
        service_version=version("gua-otel"),
    )


def parse_pairs(variable: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the ``key=value,…`` pairs of an OTEL_* variable, percent-decoded; empty if it is unset.

    Format: opentelemetry.io/docs/specs/otel/resource/sdk (W3C Baggage without properties).
    Raises :class:`UsageError` if malformed.
    """
    pairs = {}
    for item in environ.get(variable, "").split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not item.strip():
            continue
        if not key or not equals:
            raise UsageError(f"{variable} has {item.strip()!r} where key=value is needed: correct or unset it")
        try:
            pairs[unquote(key, errors="strict")] = unquote(value, errors="strict")
        except UnicodeDecodeError:
            msg = f"{variable}: the value of {key!r} is not percent-encoded UTF-8: correct or unset it"
            raise UsageError(msg) from None
    return pairs
