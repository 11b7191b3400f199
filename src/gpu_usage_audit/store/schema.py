"""The schema of one store: applied, brought up from an older version, compared, required."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpu_usage_audit.core.errors import UnavailableError
from gpu_usage_audit.store import difference, statements, upgrade
from gpu_usage_audit.store.connection import QueryError, translated
from gpu_usage_audit.store.definition import Definition
from gpu_usage_audit.store.difference import Differences
from gpu_usage_audit.store.dsn import EmbeddedDsn, ServerDsn
from gpu_usage_audit.store.existing import Existing, Select, existing
from gpu_usage_audit.store.retention import TICKS_SETTING, Retention, ttl_days
from gpu_usage_audit.store.statements import Statement

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

_CLUSTER: Final = re.compile(r"Distributed\('([^']+)'")
_RAW, _TICKS, _HOURS = "gua.otel_metrics_gauge", "gua.card_ticks", "gua.host_hours"


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """What an apply came to: how many ``statements`` ran, from which version, and how long rows are kept now."""

    statements: list[str]
    from_version: int
    retention: Retention


class Schema:
    """The schema of an open store; ``embedded`` tells whether nothing else can be landing in it."""

    def __init__(self, dsn: EmbeddedDsn | ServerDsn, client: Client, select: Select, *, embedded: bool) -> None:
        self._dsn = dsn
        self._client = client
        self._select = select
        self._embedded = embedded

    def apply(self, *, cluster: str | None = None, keep: Mapping[str, int | None] | None = None) -> Applied:
        """Create what is missing, let what is there grow to this version, and note the version.

        ``keep`` changes the retention's days by name; what is left out stays as it is. All of it may be run again,
        also after an apply that was cut off. Raises UsageError, UnavailableError.
        """
        version, _ = self.applied()
        self._refuse_newer(version)
        found = existing(self._select)
        retention = retained(found).changed(keep or {})
        wanted = self.statements(retention, cluster or cluster_of(found))
        ran = self._run(self._dropped(wanted, found))
        ran += self._run(upgrade.steps(map(Definition, wanted), found, self._formatted))
        self._note_retention(retention)
        for since, after in upgrade.AFTER_UPGRADE.items():
            if version < since:
                ran += self._run(list(after))
        # Not the client's insert: its first call imports pandas, 1.5 s, where that is installed.
        with translated(self._dsn):
            self._client.command(
                "INSERT INTO gua.schema_versions (version, digest) SELECT {version:UInt32}, {digest:String}",
                parameters={
                    "version": statements.SCHEMA_VERSION,
                    "digest": self.digest(cluster or cluster_of(found)),
                },
            )
        return Applied(statements=ran, from_version=version, retention=retention)

    def check(self) -> Differences:
        """Return what differs from this version's schema."""
        version, digest = self.applied()
        if version > statements.SCHEMA_VERSION:
            return Differences(lines=[self._newer(version)], notes=[])
        found = existing(self._select)
        if not found:
            return Differences(lines=["there is no schema yet"], notes=[])
        cluster = cluster_of(found)
        wanted = self.statements(retained(found), cluster)
        result = difference.differences(map(Definition, wanted), found, self._formatted)
        if not result.lines and version < statements.SCHEMA_VERSION:
            result.lines.append(f"the schema was applied as version {version}, this is {statements.SCHEMA_VERSION}")
        elif not result.lines and digest != self.digest(cluster):
            result.lines.append("other statements were applied than this version's")
        return result

    def complete(self) -> None:
        """Apply the schema where it is not this version's. Raises UnavailableError if it is a later one's."""
        version, digest = self.applied()
        self._refuse_newer(version)
        if version < statements.SCHEMA_VERSION or digest != self.digest(None):
            self.apply()

    def require(self) -> None:
        """Raise UnavailableError unless the schema of this version is there."""
        version, _ = self.applied()
        self._refuse_newer(version)
        if version < statements.SCHEMA_VERSION:
            raise UnavailableError(self._older(version))

    def applied(self) -> tuple[int, str]:
        """Return the version that was applied last and the fingerprint of its statements; 0 if there is none."""
        try:
            rows = self._select("SELECT version, digest FROM gua.schema_versions ORDER BY applied DESC LIMIT 1", None)
        except QueryError as error:
            if error.unknown_object:
                return 0, ""
            raise
        return (int(rows[0]["version"]), str(rows[0]["digest"])) if rows else (0, "")

    def statements(self, retention: Retention, cluster: str | None) -> list[Statement]:
        """Return the statements as they are applied to this store."""
        return statements.load(statements.EMBEDDED_TOKENS if self._embedded else statements.SERVER_TOKENS)

    def digest(self, cluster: str | None) -> str:
        """Return what tells this rendering of the schema from others, whatever the retention."""
        return statements.digest(self.statements(Retention(), cluster))

    def _refuse_newer(self, version: int) -> None:
        if version > statements.SCHEMA_VERSION:
            msg = f"{self._dsn}: {self._newer(version)}"
            raise UnavailableError(msg)

    @staticmethod
    def _newer(version: int) -> str:
        return f"the schema is version {version}, this gua knows {statements.SCHEMA_VERSION}: upgrade gua"

    def _older(self, version: int) -> str:
        there = (
            f"has schema version {version}, this gua needs {statements.SCHEMA_VERSION}"
            if version
            else "lacks the schema of this version"
        )
        return f"{self._dsn} {there}: run gua schema apply --store {self._dsn}"

    def _dropped(self, wanted: list[Statement], found: dict[str, Existing]) -> list[str]:
        """Return the statements that drop what is made anew: in an embedded store all that only passes rows on.

        Nothing can be landing in it meanwhile. They are taken out of what was ``found``.
        """
        names = [name for name in upgrade.RETIRED if name in found]
        if self._embedded:
            names += [".".join(one.creates) for one in reversed(wanted) if one.creates and one.passes_on]
        return [f"DROP TABLE IF EXISTS {name}" for name in names if found.pop(name, None)]

    def _run(self, planned: list[str]) -> list[str]:
        for sql in planned:
            with translated(self._dsn):
                self._client.command(sql)
        return planned

    def _note_retention(self, retention: Retention) -> None:
        """Let SQL read how long ticks are kept; no row means forever."""
        rows = self._select("SELECT value FROM gua.settings FINAL WHERE key = {key:String}", {"key": TICKS_SETTING})
        noted = int(rows[0]["value"]) if rows else None
        if noted == retention.ticks_days:
            return
        with translated(self._dsn):
            if retention.ticks_days is None:
                self._client.command(
                    f"ALTER TABLE gua.settings DELETE WHERE key = '{TICKS_SETTING}' SETTINGS mutations_sync = 2"
                )
            else:
                self._client.command(
                    "INSERT INTO gua.settings (key, value) SELECT {key:String}, {days:Float64}",
                    parameters={"key": TICKS_SETTING, "days": retention.ticks_days},
                )

    def _formatted(self, sql: str) -> str:
        rows = self._select("SELECT formatQuerySingleLine({sql:String}) AS formatted", {"sql": sql})
        return str(rows[0]["formatted"])


def retained(found: Mapping[str, Existing]) -> Retention:
    """Return how long rows are kept now; the shipped days where a table is not there yet."""
    shipped = Retention()
    return Retention(
        raw_days=_days(found, _RAW, shipped.raw_days),
        ticks_days=_days(found, _TICKS, shipped.ticks_days),
        hours_days=_days(found, _HOURS, shipped.hours_days),
    )


def cluster_of(found: Mapping[str, Existing]) -> str | None:
    """Return the cluster that the schema was applied to, ``None`` for one node."""
    there = found.get(_TICKS)
    named = _CLUSTER.match(there.engine_full) if there else None
    return named[1] if named else None


def _days(found: Mapping[str, Existing], name: str, shipped: int | None) -> int | None:
    there = found.get(f"{name}_local") or found.get(name)
    if there is None or there.engine == "Null":
        return shipped
    return ttl_days(there.engine_full)
