"""``gua import``: recordings that other tools made."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from gua.app import delivery
from gua.app.imported import check_host, row_interval_ms, summary, warn_of_cards_twice, with_stdin
from gua.app.local_zone import asked_zone
from gua.app.origins import origin_elsewhere
from gua.cli import import_canhazgpu, import_dmon, import_gua_sqlite, import_otlp_json
from gua.cli.options import (
    EndpointOption,
    RecordingsArgument,
    RowIntervalOption,
    RowZoneOption,
    StoreOption,
    value,
)
from gua.core.words import Source
from gua.core.zones import zone
from gua.identity.process import DEFAULT_IGNORED
from gua.imports.recording import Recording, check_not_ahead
from gua.imports.rows import DEFAULT_HOST, Reading
from gua.imports.values import parse_size

app = typer.Typer(no_args_is_help=True)
app.command("canhazgpu")(import_canhazgpu.command)
app.command("dmon")(import_dmon.command)
app.command("gua-sqlite")(import_gua_sqlite.command)
app.command("otlp-json")(import_otlp_json.command)


@app.callback()
def group() -> None:
    """Import recordings that other tools made.

    Example:
        gua import nvidia-smi gpu.csv
        gua import gua-sqlite ~/.gua/gua.db
    """


@app.command("nvidia-smi")
def nvidia_smi(
    files: RecordingsArgument,
    *,
    host: Annotated[
        str | None, value("NAME", "GUA_HOST", f"Host of the cards; {DEFAULT_HOST} if no row tells it.")
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
    local = asked_zone(timezone, os.environ, or_fail=True)
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
    survey = recording.survey(row_interval_ms(interval))
    check_not_ahead(", ".join(map(str, files)), survey.last_ms, time.time_ns() // 1_000_000)
    made = origin_elsewhere(Source.IMPORT, host or DEFAULT_HOST, survey.interval_ms, instance_id="import")
    delivery.deliver(
        recording.ticks(survey, made),
        store=store,
        endpoint=endpoint,
        on_landed=lambda landed: warn_of_cards_twice(landed, survey.hosts),
    )
    for line in summary(recording, survey, timezone=local, reserve=reserve, process_files=len(apps or ())):
        typer.echo(line)
