"""Checks of a Prometheus for an audit: GPU exporters, allocation, and what is missing."""

from collections.abc import Iterator
from typing import Final

from gua.app.doctor.finding import Finding, failed, ok, warning
from gua.core.errors import GuaError
from gua.core.plaintext import few, safe
from gua.imports.prometheus.client import Client
from gua.imports.prometheus.survey import missing, sources, survey

_DAY_MS: Final = 86_400_000
_MOST_HOSTS: Final = 3


def check_prometheus(client: Client, now_ms: int) -> Iterator[Finding]:
    """Yield what ``gua audit`` reads of the last day: each exporter, and what is missing, with the setting for it."""
    try:
        found = survey(client, now_ms - _DAY_MS, now_ms)
    except GuaError as error:
        yield failed("prometheus", str(error), f"gua audit {client.url} needs it")
        return
    hosts = few(sorted(safe(host) for host in found.hosts), _MOST_HOSTS)
    yield ok("prometheus_hosts", f"{len(found.hosts):,} in the last day: {hosts}", title="hosts")
    for line in sources(found):
        yield ok("prometheus_exporter", line, title="exporter")
    for what, setting in missing(found):
        yield warning("prometheus_missing", what, setting, title="missing")
