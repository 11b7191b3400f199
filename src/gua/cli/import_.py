"""``gua import``: recordings of other tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

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
from gua.cli import import_histories
from gua.cli.completion import zones
from gua.cli.import_histories import CardsOption, HostOption
from gua.cli.options import EndpointOption, StoreOption, value
from gua.core.moments import zone
from gua.identity.process import DEFAULT_IGNORED
from gua.imports.recording import Recording
from gua.imports.rows import DEFAULT_HOST, Reading
from gua.imports.values import parse_size

app = typer.Typer(no_args_is_help=True)

RecordingsArgument = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Recordings of one host's cards, in any order; - is stdin."),
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
    check_host(host)
    local = chosen_zone(timezone, os.environ, or_fail=True)
    recording = Recording(
        with_stdin(files),
        with_stdin(apps or ()),
        reading=Reading(
            timezone=zone(local),
            host=host,
            columns=tuple(columns.split(",")) if columns else (),
            reserve_bytes=None if reserve is None else parse_size(reserve),
        ),
        ignored=DEFAULT_IGNORED,
    )
    _deliver(recording, files, host, interval, store, endpoint, local, reserve, process_files=len(apps or ()))


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
    check_host(host)
    local = chosen_zone(timezone, os.environ, or_fail=True)
    recording = Recording(
        with_stdin(files),
        reading=Reading(
            timezone=zone(local),
            host=host,
            reserve_bytes=None if reserve is None else parse_size(reserve),
            is_dmon=True,
            cards=card_names(cards),
        ),
    )
    _deliver(recording, files, host, interval, store, endpoint, local, reserve)


def _deliver(  # noqa: PLR0917 - parts of a recording's import
    recording: Recording,
    files: Sequence[Path],
    host: str | None,
    interval: str | None,
    store: str | None,
    endpoint: str | None,
    timezone: str,
    reserve: str | None,
    *,
    process_files: int = 0,
) -> None:
    """Check the whole recording, deliver its ticks, and say what they were and what had to be assumed."""
    survey = recording.survey(row_interval_ms(interval))
    check_newest(files, survey.last_ms)
    made = origin_of_import(host or DEFAULT_HOST, survey.interval_ms)
    import_ticks(recording.ticks(survey, made), survey.hosts, store=store, endpoint=endpoint)
    for line in summary(recording, survey, timezone=timezone, reserve=reserve, process_files=process_files):
        typer.echo(line)


app.command("canhazgpu")(import_histories.canhazgpu)
app.command("dmon")(dmon)
app.command("gua-sqlite")(import_histories.gua_sqlite)
app.command("otlp-json")(import_histories.otlp_json)
app.command("nvidia-smi")(nvidia_smi)
