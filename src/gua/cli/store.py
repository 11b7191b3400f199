"""``gua schema``, ``gua rollup`` and ``gua sql``: create, roll up and query a store's tables and views."""

import os
import sys
from typing import Annotated

import typer

from gua.app import opening, sql_text
from gua.app.opening import store_address
from gua.app.output import print_error
from gua.cli.options import StoreOption, flag, value
from gua.core.errors import UnavailableError, UsageError
from gua.core.plaintext import safe
from gua.store import user_query
from gua.store.database import open_store
from gua.store.dsn import EmbeddedDsn, parse_dsn
from gua.store.schema import bi_grants, owner_grants, reader_grants, writer_grants
from gua.store.statements import SCHEMA_VERSION, Replication
from gua.store.topology import Retention, Topology, current_topology, parse_days

app = typer.Typer(no_args_is_help=True, help="Apply, show or check the tables and views that ship with gua.")


ClusterOption = Annotated[
    str | None, value("NAME", "GUA_SCHEMA_CLUSTER", "Spread hosts over this cluster of the server's remote_servers.")
]
ReplicationOption = Annotated[
    Replication | None,
    typer.Option(
        envvar="GUA_REPLICATION",
        help="How servers of one shard keep the same rows: tables ON CLUSTER, a Replicated database, none.",
    ),
]


@app.command()
def apply(
    *,
    store: StoreOption = None,
    keep_raw: Annotated[
        str | None, value("DAYS", "GUA_KEEP_RAW", "Keep raw points this long; 3d at first. A server only.")
    ] = None,
    keep_ticks: Annotated[
        str | None, value("DAYS", "GUA_KEEP_TICKS", "Keep ticks this long, as in 90d; forever at first.")
    ] = None,
    keep_hours: Annotated[
        str | None,
        value("DAYS", "GUA_KEEP_HOURS", "Keep hours this long, at least as long as ticks; forever at first."),
    ] = None,
    cluster: ClusterOption = None,
    replication: ReplicationOption = None,
    landing_database: Annotated[
        str | None,
        value(
            "NAME",
            "GUA_LANDING_DATABASE",
            "Also read a Collector's own tables otel_metrics_gauge and otel_metrics_sum in this database, "
            "with the points that are there already.",
        ),
    ] = None,
) -> None:
    """Create what is missing and bring the rest to this version, without losing a row.

    Doing it again changes nothing, also after one that was cut off. How long rows are kept stays as it was set.

    Example:
        gua schema apply --store clickhouse://owner@db.example:8123 --keep-raw 3d --keep-ticks 90d
    """
    options = {"raw": keep_raw, "ticks": keep_ticks, "hours": keep_hours}
    keep = {f"{name}_days": parse_days(f"--keep-{name}", text) for name, text in options.items() if text is not None}
    parsed = parse_dsn(store_address(store))
    if isinstance(parsed, EmbeddedDsn) and "raw_days" in keep:
        raise UsageError(f"{parsed} keeps no raw points: leave out --keep-raw")
    with open_store(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"), warn=print_error) as opened:
        applied = opened.schema.apply(cluster=cluster, replication=replication, keep=keep)
        come_from = f" (was {applied.from_version})" if 0 < applied.from_version < SCHEMA_VERSION else ""
        count = len(applied.statements)
        typer.echo(f"schema version {SCHEMA_VERSION}{come_from}: {count} statements applied to {opened.dsn}")
        typer.echo(f"kept: {applied.retention}")
        if landing_database is None:
            return
        done = opened.schema.attach(landing_database, lambda line: typer.echo(line, err=True))
        typer.echo(
            f"{done.views} views read {landing_database}.otel_metrics_gauge and {landing_database}.otel_metrics_sum; "
            f"{done.points:,} points of {done.days} days that were there are taken over"
        )
        typer.echo("the views need, for as long as they are there:")
        for grant in done.grants:
            typer.echo(f"  {grant}")
        if done.whole_seconds:
            typer.echo(
                "these tables keep whole seconds: a tick is up to a second off, and of two ticks within one second "
                "the later counts; set intervals of 2s or more"
            )


@app.command()
def show(*, store: StoreOption = None, cluster: ClusterOption = None, replication: ReplicationOption = None) -> None:
    """Print the statements as they would be applied to an empty store, one after the other. Nothing is opened.

    Example:
        gua schema show --store clickhouse://owner@db.example:8123 --cluster lab
    """
    topology = _topology(store, cluster, replication)
    for statement in topology.statements(Retention()):
        typer.echo(f"-- {statement.name}\n{statement.sql};\n")


@app.command()
def grants(*, store: StoreOption = None, cluster: ClusterOption = None, replication: ReplicationOption = None) -> None:
    """Print what an administrator runs so that gua_owner can apply, gua_writer add points, gua_reader and gua_bi read.

    Example:
        gua schema grants --store clickhouse://owner@db.example:8123
    """
    topology = _topology(store, cluster, replication)
    if topology.embedded:
        raise UsageError("an embedded store has no users: name a server with --store")
    on_cluster = topology.cluster is not None
    for title, lines in (
        ("the schema's owner: gua schema apply, gua rollup", owner_grants(cluster=on_cluster)),
        ("the Collector: adds points, reads nothing", writer_grants(cluster=on_cluster)),
        ("gua report and dashboards", reader_grants(cluster=on_cluster)),
        ("BI tools and notebooks: what is public, and no more", bi_grants(cluster=on_cluster)),
    ):
        typer.echo(f"-- {title}")
        for line in lines:
            typer.echo(f"{line};")


@app.command()
def check(*, store: StoreOption = None) -> None:
    """Say what differs from this version's schema; exit code 3 if anything does.

    Example:
        gua schema check --store clickhouse://reader@db.example:8123
    """
    opening.require_store(store)
    with open_store(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"), warn=print_error) as opened:
        differences = opened.schema.check()
        for line in differences.lines:
            typer.echo(safe(line))
        for note in differences.notes:
            typer.echo(f"note: {safe(note)}")
        if differences.lines:
            remedy = "upgrade gua" if differences.newer else "run gua schema apply"
            raise UnavailableError(f"{opened.dsn} differs from schema version {SCHEMA_VERSION}: {remedy}")
        typer.echo(f"{opened.dsn}: schema version {SCHEMA_VERSION}, as it should be")


def _topology(store: str | None, cluster: str | None, replication: Replication | None) -> Topology:
    embedded = isinstance(parse_dsn(store_address(store)), EmbeddedDsn)
    return current_topology({}, lambda *_: [], embedded=embedded, cluster=cluster, replication=replication)


def rollup(
    *,
    anew: Annotated[bool, flag("--all", "GUA_ROLLUP_ALL", "Count every hour again that still has its ticks.")] = False,
    store: StoreOption = None,
) -> None:
    """Count the hours that changed since they were counted. Reports are the same without, only slower.

    A server does it by itself every minute, and the agent of a host when it lands its ticks. What arrived within
    the last seconds waits for the next time, and so does an hour that is not over.

    Example:
        gua rollup --store clickhouse://gua_owner@db.example:8123
    """
    opening.require_store(store)
    with opening.open_writer(store) as opened:
        written = opened.count_hours(anew=anew)
        typer.echo(f"{opened.dsn}: {written} hours of hosts counted")


def sql(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement; - reads it from standard input.")],
    *,
    as_csv: Annotated[bool, flag("--csv", "GUA_SQL_CSV", "Print CSV with a header row.")] = False,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.sql/1".')] = False,
    store: StoreOption = None,
) -> None:
    """Ask a store with SQL. It reads and changes nothing; an answer has 100,000 rows at most.

    The views are in database gua_public: card_hours, usage_hours, costs, current_cards and others. Times are in UTC.
    On an embedded store a statement may use 300 MB and 60 seconds, on a server what the user's profile lets it.

    Example:
        gua sql "SELECT host, card, gpu_hours FROM gua_public.card_hours"
        gua sql "SHOW TABLES FROM gua_public"
        gua sql "DESCRIBE gua_public.usage_hours"
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json are two forms: choose one")
    text = user_query.statement(sys.stdin.read() if sql == "-" else sql)
    with opening.open_reader(store) as opened:
        result = opened.answer(text)
    render = sql_text.to_csv if as_csv else sql_text.to_json if as_json else sql_text.to_text
    sys.stdout.write(render(result))
