"""``gua import``: recordings of other tools."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from gua.app.imported import (
    card_names,
    check_host,
    check_newest,
    import_ticks,
    origin_of_import,
    row_interval_ms,
    summary,
    with_stdin,
)
from gua.app.local_zone import chosen_zone
from gua.app.output import safe
from gua.cli.completion import zones
from gua.cli.options import EndpointOption, StoreOption, value
from gua.cli.prometheus import prometheus
from gua.core.errors import DataError, UsageError
from gua.core.moments import HOUR_MS, format_duration, to_rfc3339, zone
from gua.core.tick import Tick
from gua.identity.process import DEFAULT_IGNORED
from gua.imports.canhazgpu import ReservedHistory, read
from gua.imports.legacy_v1.histories import Histories
from gua.imports.recording import Recording
from gua.imports.rows import DEFAULT_HOST, Reading
from gua.imports.values import parse_size
from gua.report.kit.figures import plural

app = typer.Typer(no_args_is_help=True)

RecordingsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Recordings of one host's cards, in any order; - is stdin."),
]
HostOption = Annotated[str | None, value("NAME", "GUA_HOST", f"Host of the cards; {DEFAULT_HOST} if not given.")]
CardsOption = Annotated[
    str | None,
    value("UUIDS", "GUA_CARDS", "The cards by index, as in GPU-1234…,GPU-5678…; names of their own if not given."),
]
RowIntervalOption = Annotated[
    str | None,
    value("DURATION", "GUA_INTERVAL", "What a row stands for; the median distance of a card's rows if not given."),
]
RowZoneOption = Annotated[
    str | None,
    value(
        "ZONE",
        "GUA_TIMEZONE",
        "Zone of times without an offset: Europe/Berlin, UTC; the host's if not given.",
        autocompletion=zones,
    ),
]


@app.callback()
def group() -> None:
    """Import recordings that other tools made.

    Example:
        gua import nvidia-smi gpu.csv
        gua import gua-sqlite ~/.gua/gua.db
    """


def nvidia_smi(
    files: RecordingsArgument,
    *,
    host: Annotated[
        str | None, value("NAME", "GUA_HOST", f"Host of the cards; {DEFAULT_HOST} if no row names it.")
    ] = None,
    interval: RowIntervalOption = None,
    timezone: RowZoneOption = None,
    columns: Annotated[
        str | None, value("NAMES", "GUA_COLUMNS", "Columns of CSV without a header, as given to --query-gpu.")
    ] = None,
    apps: Annotated[
        list[Path] | None,
        value(
            "FILE",
            "GUA_APPS",
            "Recording of --query-compute-apps=timestamp,gpu_uuid,pid,process_name,used_memory; repeatable.",
        ),
    ] = None,
    reserve: Annotated[
        str | None,
        value(
            "SIZE",
            "GUA_RESERVE",
            "Subtract the driver's reserve from memory.used: for drivers before 510, which counted it as used.",
        ),
    ] = None,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Import what nvidia-smi --query-gpu=timestamp,uuid,memory.used,... --format=csv wrote, or JSON Lines.

    All files together are one recording, checked as a whole before anything of it is delivered.

    Importing it again changes nothing.

    Example:
        gua import nvidia-smi gpu.csv --timezone Europe/Berlin
        gua import nvidia-smi - --host node-1 < gpu.csv
    """
    names = tuple(columns.split(",")) if columns else ()
    _import(files, host, interval, timezone, reserve, store, endpoint, apps=apps or (), columns=names)


def dmon(
    files: RecordingsArgument,
    *,
    host: HostOption = None,
    interval: RowIntervalOption = None,
    timezone: RowZoneOption = None,
    cards: CardsOption = None,
    reserve: Annotated[
        str | None,
        value("SIZE", "GUA_RESERVE", "Subtract the driver's reserve from fb: for drivers before 510."),
    ] = None,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Import what nvidia-smi dmon -o DT or dcgmi dmon wrote, as text or CSV.

    dcgmi prints no times: put them before its lines, as ts does. Neither records who holds a card.

    Record with nvidia-smi dmon -s um -o DT > dmon.log
    or with dcgmi dmon -e 203,252,1002 -d 10000 | ts '%FT%T%z' > dcgm.log

    All files together are one recording, checked as a whole. Importing it again changes nothing.

    Example:
        gua import dmon dmon.log
        gua import dmon dcgm.log --interval 10s
    """
    _import(files, host, interval, timezone, reserve, store, endpoint, is_dmon=True, cards=card_names(cards))


def _import(  # noqa: PLR0917 - options of both commands
    files: Sequence[Path],
    host: str | None,
    interval: str | None,
    timezone: str | None,
    reserve: str | None,
    store: str | None,
    endpoint: str | None,
    *,
    apps: Sequence[Path] = (),
    **how: Any,  # noqa: ANN401 - fields of a reading
) -> None:
    """Check the whole recording, deliver its ticks, and print what was imported and assumed."""
    check_host(host)
    local = chosen_zone(timezone, os.environ, or_fail=True)
    reserve_bytes = None if reserve is None else parse_size(reserve)
    reading = Reading(timezone=zone(local), host=host, reserve_bytes=reserve_bytes, **how)
    recording = Recording(with_stdin(files), with_stdin(apps), reading=reading, ignored=DEFAULT_IGNORED)
    survey = recording.survey(row_interval_ms(interval))
    check_newest(files, survey.last_ms)
    made = origin_of_import(host or DEFAULT_HOST, survey.interval_ms)
    import_ticks(recording.ticks(survey, made), survey.hosts, store=store, endpoint=endpoint)
    for line in summary(recording, survey, timezone=local, reserve=reserve, process_files=len(apps)):
        typer.echo(line)


def canhazgpu(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="What redis-cli printed; - is stdin.")],
    *,
    host: HostOption = None,
    cards: CardsOption = None,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Import the history of canhazgpu: who reserved which card from when to when, as run or by hand.

    The history is what redis-cli --raw ZRANGE canhazgpu:usage_history_sorted 0 -1 prints. What happened on the cards it
    does not say: their state and use are unknown. All files are checked before anything is delivered. Importing it
    again changes nothing.

    Example:
        gua import canhazgpu history.jsonl --host node-1
    """
    check_host(host)
    history = read(files)
    name = host or DEFAULT_HOST
    uuids = _uuids(cards, history, name)
    newest_ms = max(record.until_ms for record in history.records)
    check_newest(files, newest_ms)
    import_ticks(history.ticks(origin_of_import(name, HOUR_MS), uuids), [name], store=store, endpoint=endpoint)
    for line in _summary_of_reservations(history, name, newest_ms, uuids, is_given=cards is not None):
        typer.echo(line)


def _uuids(cards: str | None, history: ReservedHistory, host: str) -> list[str]:
    """Return the UUID or a made-up name of each index. Raises UsageError for fewer UUIDs than cards."""
    most = history.cards[-1] + 1
    if cards is None:
        return [f"canhazgpu-{host}-{index}" for index in range(most)]
    uuids = list(card_names(cards))
    if len(uuids) < most:
        raise UsageError(f"--cards names {plural(len(uuids), 'card')}, and the history has GPU {most - 1}: give {most}")
    return uuids


def _summary_of_reservations(
    history: ReservedHistory, host: str, newest_ms: int, uuids: list[str], *, is_given: bool
) -> Iterator[str]:
    """Yield one line for each thing that was imported, left out or assumed."""
    records = history.records
    hours = sum(record.until_ms - record.since_ms for record in records) / HOUR_MS
    reservations = len({record.id for record in records})
    people = len({record.user for record in records})
    yield (
        f"imported  {plural(reservations, 'reservation')} of {plural(people, 'user', 'users')}: {hours:,.1f} GPU-hours "
        f"of {plural(len(history.cards), 'card')} on host {safe(host)}"
    )
    yield f"time      {to_rfc3339(min(record.since_ms for record in records))} to {to_rfc3339(newest_ms)}"
    if history.repeated:
        yield f"repeated  {plural(history.repeated, 'record')} stood there before and count once"
    if history.cut:
        yield f"left out  {plural(history.cut, 'last line')} that was cut off"
    of = ", ".join(f"{index} is {safe(uuids[index])}" for index in history.cards[:2])
    yield f"assumed   GPU ids are in the order of the PCI bus: {of}{'' if is_given else ' (--cards names UUIDs)'}"
    yield "assumed   manual reservations ended when their end was seen, as in canhazgpu: some are too long"
    yield "unknown   what happened on the cards meanwhile"


def gua_sqlite(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Databases, as ~/.gua/gua.db; nothing is written to them.")
    ],
    *,
    host: Annotated[
        str | None,
        value("NAME", "GUA_HOST", f"Host of the cards; that of the database, or {DEFAULT_HOST}, if not given."),
    ] = None,
    interval: Annotated[
        str | None,
        value(
            "DURATION",
            "GUA_INTERVAL",
            "What a row of 1.0.0 to 1.0.2 stands for, which recorded no interval; the median distance of a card's "
            "rows if not given.",
        ),
    ] = None,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Import the history that gpu-usage-audit 1.0 to 1.8 recorded, every one of their schemas.

    Its daemon may go on writing meanwhile. All files are checked before anything is delivered.

    Importing it again changes nothing. What its own report says of it: gua report --rules gpu-usage-audit.

    Example:
        gua import gua-sqlite ~/.gua/gua.db
    """
    check_host(host)
    interval_ms = row_interval_ms(interval)
    with closing(Histories(files, host=host, interval_ms=interval_ms, ignored=DEFAULT_IGNORED)) as histories:
        for where, newest_ms in histories.newest_ms:
            check_newest([where], newest_ms)
        made = origin_of_import(histories.hosts[0], histories.intervals_ms[0])
        import_ticks(histories.ticks(made), histories.hosts, store=store, endpoint=endpoint)
        for line in _summary_of_histories(histories, has_interval=interval_ms is not None):
            typer.echo(line)


def _summary_of_histories(histories: Histories, *, has_interval: bool) -> Iterator[str]:
    """Yield one line for each thing that was imported, left out or assumed."""
    counts = histories.counts
    hosts = histories.hosts
    where = f"host {safe(hosts[0])}" if len(hosts) == 1 else f"{len(hosts)} hosts"
    yield f"imported  {plural(counts.card_ticks, 'card tick')} of {plural(histories.cards, 'card')} on {where}"
    yield f"time      {to_rfc3339(counts.first_ms)} to {to_rfc3339(counts.last_ms)}"
    yield f"interval  {', '.join(format_duration(interval) for interval in histories.intervals_ms)}"
    yield f"processes {plural(counts.processes, 'row')}"
    contents = histories.contents
    if counts.duplicates:
        yield f"repeated  {plural(counts.duplicates, 'row')} were also in another file and count once"
    left_out = sum(content.process_rows for content in contents) - counts.processes
    if left_out and not counts.duplicates:
        yield f"left out  {plural(left_out, 'process row')} without a sample of the card"
    if any(content.without_interval for content in contents):
        why = (
            "given with --interval" if has_interval else "the median distance of a card's rows; --interval sets another"
        )
        yield f"assumed   the interval of rows outside any recorded run of the daemon ({why})"
    if counts.lists_unknown:
        yield (
            f"unknown   the processes of {plural(counts.lists_unknown, 'card tick')}: the list could not be read, or "
            "it is unknown whether it could"
        )


def otlp_json(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="What a Collector's file exporter wrote, not compressed; - is stdin."),
    ],
    *,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Import ticks of gua that went through an OpenTelemetry Collector into files of OTLP JSON lines.

    They keep their host, their time and who made them. What else is in the files is left out.

    Importing it again changes nothing.

    Example:
        gua import otlp-json metrics.json
    """
    from gua.otlp.decode import check_lines  # noqa: PLC0415 - protobuf, only for this import

    files = with_stdin(files)
    cut: list[str] = []
    if not sum(check_lines(path, cut) for path in files):
        raise DataError(f"no ticks of gua in {', '.join(map(str, files))}: nothing was imported")
    counted = _Counted()
    import_ticks(counted.ticks(files), counted.hosts, store=store, endpoint=endpoint)
    hosts = f"host {safe(next(iter(counted.hosts)))}" if len(counted.hosts) == 1 else f"{len(counted.hosts)} hosts"
    typer.echo(f"imported  {counted.card_ticks:,} card ticks of {hosts} ({counted.number:,} ticks)")
    typer.echo(f"time      {to_rfc3339(counted.first_ms)} to {to_rfc3339(counted.last_ms)}")
    if cut:
        typer.echo(f"left out  {'; '.join(f'{where}: the last line is cut off' for where in cut)}")


class _Counted:
    """Counts the ticks that it passes on."""

    def __init__(self) -> None:
        self.number = self.card_ticks = self.last_ms = 0
        self.first_ms = 2**62
        self.hosts: set[str] = set()

    def ticks(self, files: list[Path]) -> Iterator[Tick]:
        """Yield the ticks of the files, one after the other."""
        from gua.otlp.decode import ticks_of_lines  # noqa: PLC0415 - as above

        for path in files:
            for tick in ticks_of_lines(path):
                check_newest([path], tick.ts_ms)
                self.number += 1
                self.card_ticks += len(tick.cards)
                self.first_ms, self.last_ms = min(self.first_ms, tick.ts_ms), max(self.last_ms, tick.ts_ms)
                self.hosts.add(tick.origin.host)
                yield tick


app.command("canhazgpu")(canhazgpu)
app.command("dmon")(dmon)
app.command("gua-sqlite")(gua_sqlite)
app.command("otlp-json")(otlp_json)
app.command("nvidia-smi")(nvidia_smi)
app.command("prometheus")(prometheus)
