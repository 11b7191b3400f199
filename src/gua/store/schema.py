"""Schema of one store: apply, upgrade, compare, require, and attach other landing tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gua.core.errors import UnavailableError, UsageError
from gua.store import landing_database, statements
from gua.store.catalog import Differences, Select, differences, openings, read_catalog, steps
from gua.store.connection import QueryError, translated
from gua.store.dsn import EmbeddedDsn, ServerDsn
from gua.store.statements import Replication, Statement
from gua.store.topology import TICKS_SETTING, Retention, Topology, current_topology, retained

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client
from gua.store.catalog import DATABASES, LANDING

OWNER, WRITER, READER, BI = "gua_owner", "gua_writer", "gua_reader", "gua_bi"
_OWNER_RIGHTS: Final = (
    "SELECT, INSERT, ALTER TABLE, ALTER VIEW, CREATE DATABASE, CREATE TABLE, CREATE VIEW, "
    "DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE"
)
# Relations that gua_public's views read from other servers of a cluster. Those servers check the user's own rights:
# a view applies its owner's rights only on the server that received the query.
_QUERIED_ON_SHARDS: Final = (
    *("agents", "allocation_hours", "card_hours", "card_info", "card_seen", "card_states", "execution_idle_hours"),
    *("notices", "owner_hours", "prices", "process_states", "settings"),
)
_ENGINES: Final = ("MergeTree", "AggregatingMergeTree", "ReplacingMergeTree", "Null")


def owner_rights(*, cluster: bool = False) -> list[str]:
    """Return the rights that ``gua schema apply`` needs, as in ``SELECT, INSERT ON gua.*``."""
    rights = [f"{_OWNER_RIGHTS} ON {database}.*" for database in DATABASES]
    engines = list(_ENGINES)
    if cluster:
        engines += [*(f"Replicated{engine}" for engine in _ENGINES if engine != "Null"), "Distributed"]
        rights.append("CLUSTER, REMOTE ON *.*")
    return rights + [f"TABLE ENGINE ON {engine}" for engine in engines]


def owner_grants(user: str = OWNER, *, cluster: bool = False) -> list[str]:
    """Return GRANT statements that let ``user`` apply and change the schema, and nothing else."""
    return [f"GRANT {right} TO {user}" for right in owner_rights(cluster=cluster)]


def writer_grants(user: str = WRITER, *, cluster: bool = False) -> list[str]:
    """Return GRANT statements that let ``user`` insert points, and read nothing."""
    return [f"GRANT INSERT ON {table} TO {user}" for table in _landing(cluster=cluster)]


def reader_grants(user: str = READER, *, cluster: bool = False) -> list[str]:
    """Return statements that let ``user`` read all but raw points, which may include other producers' points."""
    return [
        f"GRANT SELECT, SHOW TABLES, SHOW COLUMNS ON gua.* TO {user}",
        f"GRANT SELECT ON gua_report.* TO {user}",
        f"GRANT SELECT ON gua_public.* TO {user}",
        *(f"REVOKE SELECT ON {table} FROM {user}" for table in _landing(cluster=cluster)),  # noqa: S608 - own names
    ]


def bi_grants(user: str = BI, *, cluster: bool = False) -> list[str]:
    """Return GRANT statements that let ``user`` read gua_public; on a cluster also the local tables behind it."""
    return [
        f"GRANT SELECT, SHOW TABLES, SHOW COLUMNS ON gua_public.* TO {user}",
        *(f"GRANT SELECT ON gua.{relation}_local TO {user}" for relation in _QUERIED_ON_SHARDS if cluster),
    ]


def _landing(*, cluster: bool) -> list[str]:
    # Another server of the cluster inserts and reads as the same user.
    return [*LANDING, *(f"{table}_local" for table in LANDING if cluster)]


# Without it, a Distributed table would deliver the row to its shard some time later.
_AT_ONCE: Final = "SETTINGS distributed_foreground_insert = 1"
_NOTE_VERSION: Final = (
    f"INSERT INTO gua.schema_versions (version, digest) {_AT_ONCE} SELECT {{version:UInt32}}, {{digest:String}}"
)
_NOTE_RETENTION: Final = f"INSERT INTO gua.settings (key, value) {_AT_ONCE} SELECT {{key:String}}, {{days:Float64}}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """Result of an apply: the statements that ran, the version before, and the retention now."""

    statements: list[str]
    from_version: int
    retention: Retention


class Schema:
    """The schema of an open store; ``embedded`` means that no other process can land rows in it."""

    def __init__(self, dsn: EmbeddedDsn | ServerDsn, client: Client, select: Select, *, embedded: bool) -> None:
        self._dsn = dsn
        self._client = client
        self._select = select
        self._embedded = embedded

    def apply(
        self,
        *,
        cluster: str | None = None,
        replication: Replication | None = None,
        keep: Mapping[str, int | None] | None = None,
    ) -> Applied:
        """Create missing objects, upgrade existing ones to this version, and store the version.

        ``keep`` changes retention days by name; others stay as they are. Idempotent, also after an interrupted apply.
        Raises UsageError, UnavailableError.
        """
        catalog = read_catalog(self._select)
        retention = retained(catalog).changed(keep or {})
        topology = current_topology(
            catalog, self._select, embedded=self._embedded, cluster=cluster, replication=replication
        )
        self._refuse_without_rights(topology)
        version, _ = self.applied()
        self._refuse_newer(version)
        declared = topology.statements(retention)
        declared += landing_database.attached(declared, catalog)
        ran = self._run(steps(declared, catalog, self._formatted))
        ran += self._run(openings(declared, catalog))
        try:
            self._note_retention(retention, declared)
            self._run([_NOTE_VERSION], version=statements.SCHEMA_VERSION, digest=_digest(topology))
        except QueryError as error:
            if topology.cluster is None or not error.unknown_object:
                raise
            msg = f"{self._dsn}: apply the schema to every server of the cluster {topology.cluster}, then here again"
            raise UnavailableError(msg) from None
        return Applied(statements=ran, from_version=version, retention=retention)

    def attach(self, database: str, progress: Callable[[str], None]) -> landing_database.Attached:
        """Feed ticks from the landing tables of another database, and backfill their existing points.

        Idempotent, also after an interruption. Raises UsageError, UnavailableError.
        """
        if self._embedded:
            msg = f"{self._dsn} is an embedded store, which no Collector writes to: give a server's with --store"
            raise UsageError(msg)
        catalog = read_catalog(self._select)
        topology = current_topology(catalog, self._select, embedded=self._embedded)
        if topology.cluster:
            raise UsageError(
                f"on the cluster {topology.cluster} shards have their hosts: let the Collector write to gua's own "
                "tables"
            )
        whole_seconds = landing_database.require_tables(database, self._select)
        views = landing_database.over(database, topology.statements(retained(catalog)))
        with translated(self._dsn):
            if any(view.object_name not in catalog for view in views):
                landing_database.forget(database, self._client)
            self._run(steps(views, catalog, self._formatted))
            days, points = landing_database.backfill(
                database, views, client=self._client, select=self._select, progress=progress
            )
        return landing_database.Attached(
            views=len(views),
            days=days,
            points=points,
            whole_seconds=whole_seconds,
            grants=landing_database.grants(database, self._select),
        )

    def check(self) -> Differences:
        """Return the differences of the store from this version's schema."""
        version, digest = self.applied()
        if version > statements.SCHEMA_VERSION:
            return Differences(lines=[self._newer(version)], notes=[], newer=True)
        catalog = read_catalog(self._select)
        if not catalog:
            return Differences(lines=["there is no schema yet"], notes=[])
        topology = current_topology(catalog, self._select, embedded=self._embedded)
        declared = topology.statements(retained(catalog))
        declared += landing_database.attached(declared, catalog)
        result = differences(declared, catalog, self._formatted)
        if not result.lines and version < statements.SCHEMA_VERSION:
            result.lines.append(f"the schema was applied as version {version}, this is {statements.SCHEMA_VERSION}")
        elif not result.lines and digest != _digest(topology):
            result.lines.append("other statements were applied than this version's")
        return result

    def complete(self) -> None:
        """Apply the schema if the store's is older or differs. Raises UnavailableError if it is newer."""
        version, digest = self.applied()
        self._refuse_newer(version)
        if version < statements.SCHEMA_VERSION or digest != _digest(Topology(embedded=self._embedded)):
            self.apply()

    def require(self) -> None:
        """Raise UnavailableError unless the store has this version's schema.

        Passes if the user may not read the version, as users of BI tools: a query of a missing object fails by itself.
        """
        try:
            version, _ = self.applied()
        except QueryError as error:
            if error.no_right:
                return
            raise
        self._refuse_newer(version)
        if version < statements.SCHEMA_VERSION:
            is_there = f"has schema version {version}, this gua needs {statements.SCHEMA_VERSION}"
            lacks = "lacks the schema of this version"
            msg = f"{self._dsn} {is_there if version else lacks}: run gua schema apply --store {self._dsn}"
            raise UnavailableError(msg)

    def applied(self) -> tuple[int, str]:
        """Return version and digest of the schema applied last; (0, "") without one."""
        try:
            rows = self._select("SELECT version, digest FROM gua.schema_versions ORDER BY applied DESC LIMIT 1", None)
        except QueryError as error:
            if error.unknown_object:
                return 0, ""
            raise
        return (int(rows[0]["version"]), str(rows[0]["digest"])) if rows else (0, "")

    def _refuse_newer(self, version: int) -> None:
        if version > statements.SCHEMA_VERSION:
            raise UnavailableError(f"{self._dsn}: {self._newer(version)}")

    @staticmethod
    def _newer(version: int) -> str:
        return f"the schema is version {version}, this gua knows {statements.SCHEMA_VERSION}: upgrade gua"

    def _refuse_without_rights(self, topology: Topology) -> None:
        """Raise UnavailableError before any change: a user who lacks a right would stop halfway."""
        if self._embedded:
            return
        rights = (right.rpartition(" ON ") for right in owner_rights(cluster=topology.cluster is not None))
        each = [f"{kind} ON {where}" for kinds, _, where in rights for kind in kinds.split(", ")]
        lacking = [right for right in each if not self._granted(right)]
        if lacking and int(self._select("SELECT getSetting('readonly') AS read_only", None)[0]["read_only"]):
            raise UnavailableError(
                f"{self._dsn}: the user is read-only, by its profile: use the schema's owner, whose rights "
                "gua schema grants prints"
            )
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise UnavailableError(
                f"{self._dsn}: the user may not apply the schema, it lacks {lacking[0]}{more}: use the schema's owner, "
                "or have an administrator grant what gua schema grants prints"
            )

    def _granted(self, right: str) -> bool:
        try:
            with translated(self._dsn):
                return str(self._client.command(f"CHECK GRANT {right}")).strip() == "1"
        except QueryError:
            return True  # a server without CHECK GRANT rejects the statement itself later

    def _run(self, planned: list[str], **parameters: object) -> list[str]:
        # Not the client's insert: its first call imports pandas if installed, 1.5 s.
        for sql in planned:
            with translated(self._dsn):
                self._client.command(sql, parameters=parameters or None)
        return planned

    def _note_retention(self, retention: Retention, declared: list[Statement]) -> None:
        """Store the tick retention [days] in ``gua.settings`` for use in SQL; no row means forever."""
        rows = self._select("SELECT value FROM gua.settings FINAL WHERE key = {key:String}", {"key": TICKS_SETTING})
        noted = int(rows[0]["value"]) if rows else None
        if noted == retention.ticks_days:
            return
        if retention.ticks_days is None:
            keeping = next(one for one in declared if one.object_name in {"gua.settings_local", "gua.settings"})
            self._run([f"{keeping.altering} DELETE WHERE key = '{TICKS_SETTING}' SETTINGS mutations_sync = 2"])
            return
        self._run([_NOTE_RETENTION], key=TICKS_SETTING, days=retention.ticks_days)

    def _formatted(self, sql: str) -> str:
        rows = self._select("SELECT formatQuerySingleLine({sql:String}) AS formatted", {"sql": sql})
        return str(rows[0]["formatted"])


def this_version() -> tuple[int, str]:
    """Return this version's schema version and its digest for one server."""
    return statements.SCHEMA_VERSION, _digest(Topology())


def _digest(topology: Topology) -> str:
    """Return the digest of the topology's schema with default retention, so that retention does not change it."""
    return statements.digest(topology.statements(Retention()))
