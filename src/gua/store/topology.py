"""Topology of a store's schema (embedded, one server, cluster), and retention of its rows."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, Self

from gua.core.errors import UsageError
from gua.core.moments import DAY_MS, parse_duration_ms
from gua.store.catalog import CatalogEntry, Select
from gua.store.report_views import without_report_views
from gua.store.statements import EMBEDDED_TOKENS, RAW_DAYS, Replication, Statement, cluster_tokens, load, server_tokens

FOREVER: Final = "forever"
LEAST_TICKS_DAYS: Final = 2
TICKS_SETTING: Final = "keep_ticks_days"
_DAYS: Final = re.compile(r"\btoIntervalDay\((\d+)\)")
_CLUSTER: Final = re.compile(r"Distributed\('([^']+)'")
_DATABASE_ENGINE: Final = "SELECT engine FROM system.databases WHERE name = 'gua'"
_RAW, _TICKS, _HOURS = "gua.otel_metrics_gauge", "gua.card_ticks", "gua.hourly_cards"


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """Retention in days of raw points, ticks and hourly rollups; ``None`` is forever."""

    raw_days: int | None = RAW_DAYS
    ticks_days: int | None = None
    hours_days: int | None = None

    def changed(self, days: Mapping[str, int | None]) -> Self:
        """Return a copy with the new days by name. Raises UsageError if the three values contradict each other."""
        changed = replace(self, **days)
        if changed.ticks_days is not None and changed.ticks_days < LEAST_TICKS_DAYS:
            raise UsageError(
                f"--keep-ticks {changed.ticks_days}d is too short: hours are made from ticks that may come a day late, "
                f"keep them {LEAST_TICKS_DAYS}d or longer"
            )
        if changed.hours_days is not None and (changed.ticks_days is None or changed.hours_days < changed.ticks_days):
            raise UsageError(
                f"hours would go ({changed.hours_days}d) before the ticks that they are made from "
                f"({shown_days(changed.ticks_days)}): give --keep-ticks {changed.hours_days}d or less, "
                f"or --keep-hours {shown_days(changed.ticks_days)}"
            )
        return changed

    def __str__(self) -> str:
        return (
            f"raw points {shown_days(self.raw_days)}, ticks {shown_days(self.ticks_days)}, "
            f"hours {shown_days(self.hours_days)}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Topology:
    """Where the schema is applied. ``cluster`` is a name in remote_servers, ``None`` for a single node."""

    embedded: bool = False
    cluster: str | None = None
    replication: Replication = Replication.TABLES

    def statements(self, retention: Retention) -> list[Statement]:
        """Return every statement of this topology, in the order to apply them."""
        if self.cluster is not None:
            return load(cluster_tokens(self.cluster, **asdict(retention), replication=self.replication))
        tokens = server_tokens(**asdict(retention))
        if not self.embedded:
            return load(tokens)
        kept = {name: text for name, text in tokens.items() if name.endswith("_TTL")}
        return without_report_views(load(EMBEDDED_TOKENS | kept))


def current_topology(
    catalog: Mapping[str, CatalogEntry],
    select: Select,
    *,
    embedded: bool,
    cluster: str | None = None,
    replication: Replication | None = None,
) -> Topology:
    """Return the topology of a store's schema; without a schema, the requested one.

    Raises UsageError if a cluster is requested for an embedded store, or another one than that of existing rows.
    """
    if embedded and cluster:
        raise UsageError("an embedded store is no cluster: leave out --cluster, or name a server with --store")
    there = catalog.get(_TICKS)
    if embedded or there is None:
        return Topology(embedded=embedded, cluster=cluster, replication=replication or Replication.TABLES)
    named = _CLUSTER.match(there.engine_full)
    is_on = named[1] if named else None
    if cluster is not None and cluster != is_on:
        raise UsageError(
            f"the schema stands {f'on the cluster {is_on}' if is_on else 'on one server'} already, and its rows would "
            f"not move to the cluster {cluster}: leave out --cluster, or apply to a server without it"
        )
    return Topology(cluster=is_on, replication=_replication(catalog, select))


def _replication(catalog: Mapping[str, CatalogEntry], select: Select) -> Replication:
    if any(row["engine"] == "Replicated" for row in select(_DATABASE_ENGINE, None)):
        return Replication.DATABASE
    local = catalog.get(f"{_TICKS}_local")
    return Replication.TABLES if local is None or "Replicated" in local.engine else Replication.NONE


def retained(catalog: Mapping[str, CatalogEntry]) -> Retention:
    """Return the current retention; the default for tables that do not exist yet."""
    return Retention(
        raw_days=_days(catalog, _RAW, Retention().raw_days),
        ticks_days=_days(catalog, _TICKS, Retention().ticks_days),
        hours_days=_days(catalog, _HOURS, Retention().hours_days),
    )


def _days(catalog: Mapping[str, CatalogEntry], name: str, shipped: int | None) -> int | None:
    there = catalog.get(f"{name}_local") or catalog.get(name)
    if there is None or there.engine == "Null":
        return shipped
    match = _DAYS.search(there.ttl or "")
    return int(match[1]) if match else None


def parse_days(option: str, text: str) -> int | None:
    """Return whole days, ``None`` for "forever". Raises UsageError with the option's name."""
    if text.strip().lower() == FOREVER:
        return None
    try:
        days, rest = divmod(parse_duration_ms(text), DAY_MS)
    except UsageError:
        days, rest = 0, 1
    if rest or not days:
        msg = f"{option} {text!r}: write whole days or weeks, as in 90d or 52w (at most 100 years), or forever"
        raise UsageError(msg)
    return days


def shown_days(days: int | None) -> str:
    """Return "90d" or "forever"."""
    return FOREVER if days is None else f"{days}d"
