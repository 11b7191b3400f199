"""What the schema of a store stands on: embedded, on one server, or on a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from gua.core.errors import UsageError
from gua.store.catalog import CatalogEntry, Select
from gua.store.report_views import without_report_views
from gua.store.retention import Retention, ttl_days
from gua.store.statements import Statement, load
from gua.store.tokens import EMBEDDED_TOKENS, Replication, cluster_tokens, server_tokens

_CLUSTER: Final = re.compile(r"Distributed\('([^']+)'")
_DATABASE_ENGINE: Final = "SELECT engine FROM system.databases WHERE name = 'gua'"
_RAW, _TICKS, _HOURS = "gua.otel_metrics_gauge", "gua.card_ticks", "gua.hourly_cards"


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """``cluster`` is its name in remote_servers, ``None`` for one node."""

    embedded: bool = False
    cluster: str | None = None
    replication: Replication = Replication.TABLES

    def statements(self, retention: Retention) -> list[Statement]:
        """Return every statement of this topology, in the order in which they are applied."""
        loaded = load(self.tokens(retention))
        return without_report_views(loaded) if self.embedded else loaded

    def tokens(self, retention: Retention) -> dict[str, str]:
        """Return what the tokens in the SQL stand for."""
        if self.cluster is not None:
            return cluster_tokens(self.cluster, **asdict(retention), replication=self.replication)
        served = server_tokens(**asdict(retention))
        if not self.embedded:
            return served
        return {**EMBEDDED_TOKENS, **{name: served[name] for name in ("TICKS_TTL", "HOURS_TTL")}}


def topology_of(
    catalog: Mapping[str, CatalogEntry],
    select: Select,
    *,
    cluster: str | None = None,
    replication: Replication | None = None,
) -> Topology:
    """Return the topology of what is on a server; where there is none yet, the one that is asked for.

    Raises UsageError if another is asked for: rows would not move with it.
    """
    there = catalog.get(_TICKS)
    if there is None:
        return Topology(cluster=cluster, replication=replication or Replication.TABLES)
    named = _CLUSTER.match(there.engine_full)
    is_on = named[1] if named else None
    if cluster is not None and cluster != is_on:
        msg = (
            f"the schema stands {f'on the cluster {is_on}' if is_on else 'on one server'} already, and its rows would "
            f"not move to the cluster {cluster}: leave out --cluster, or apply to a server without it"
        )
        raise UsageError(msg)
    return Topology(cluster=is_on, replication=_replication(catalog, select))


def _replication(catalog: Mapping[str, CatalogEntry], select: Select) -> Replication:
    if any(row["engine"] == "Replicated" for row in select(_DATABASE_ENGINE, None)):
        return Replication.DATABASE
    local = catalog.get(f"{_TICKS}_local")
    return Replication.TABLES if local is None or "Replicated" in local.engine else Replication.NONE


def retained(catalog: Mapping[str, CatalogEntry]) -> Retention:
    """Return how long rows are kept now; the shipped days where a table is not there yet."""
    return Retention(
        raw_days=_days(catalog, _RAW, Retention().raw_days),
        ticks_days=_days(catalog, _TICKS, Retention().ticks_days),
        hours_days=_days(catalog, _HOURS, Retention().hours_days),
    )


def _days(catalog: Mapping[str, CatalogEntry], name: str, shipped: int | None) -> int | None:
    there = catalog.get(f"{name}_local") or catalog.get(name)
    if there is None or there.engine == "Null":
        return shipped
    return ttl_days(there.engine_full)
