"""Checks of a Prometheus for an audit: GPU exporters, allocation, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gua.app.doctor.finding import Finding, failed, ok, warning
from gua.core.errors import GuaError
from gua.core.plaintext import few, safe
from gua.imports.prometheus.client import Client
from gua.imports.prometheus.survey import missing, survey
from gua.report.kit.figures import plural

_DAY_MS: Final = 86_400_000
_MOST_HOSTS: Final = 3


def check_prometheus(client: Client, now_ms: int) -> Iterator[Finding]:
    """Yield what ``gua audit`` reads of the last day: each exporter, and what is missing, with the setting for it."""
    try:
        found = survey(client, now_ms - _DAY_MS, now_ms)
    except GuaError as error:
        yield failed("prometheus", str(error), f"gua audit {client.url} needs it")
        return
    hosts = f"{plural(len(found.hosts), 'host')} ({few(sorted(safe(host) for host in found.hosts), _MOST_HOSTS)})"
    for exporter in found.exporters:
        sources = sorted({source for (name, _), source in found.directory.mapped.items() if name == exporter.name})
        allocation = f"allocation by {' and '.join(sources)}" if sources else "no allocation"
        cards = plural(len(found.uuids.get(exporter.name, ())), "GPU")
        yield ok("prometheus_exporter", f"{cards} on {hosts} in the last day, {allocation}", title=exporter.name)
    for what, setting in missing(found):
        yield warning("prometheus_missing", what, setting, title="missing")
