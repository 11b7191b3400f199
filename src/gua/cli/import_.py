"""``gua import``: recordings that other tools made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from gua.app import delivery
from gua.cli import import_gua_sqlite, import_otlp_json
from gua.cli.options import EndpointOption, StoreOption, value
from gua.core.durations import format_duration, parse_duration_ms, to_rfc3339
from gua.core.errors import UsageError
from gua.core.tick import Source
from gua.identity.process import DEFAULT_IGNORED
from gua.imports.recording import Recording
from gua.imports.rows import DEFAULT_HOST, Reading
from gua.imports.survey import MAX_INTERVAL_MS, Survey, check_not_ahead
from gua.imports.timestamps import parse_timezone
from gua.imports.values import parse_size
from gua.otlp.resource import origin

app = typer.Typer(no_args_is_help=True)
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
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Recordings of one host's cards, in any order.")],
    *,
    host: Annotated[
        str | None, value("NAME", "GUA_HOST", f"Host of the cards; {DEFAULT_HOST} if no row tells it.")
    ] = None,
    interval: Annotated[
        str | None,
        value("DURATION", "GUA_INTERVAL", "What a row stands for; the median distance of a card's rows if not given."),
    ] = None,
    timezone: Annotated[str, value("ZONE", "GUA_TIMEZONE", "Time zone of times without an offset.")] = "UTC",
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
    """
    if host is not None and not (host.strip() and host.isprintable()):
        msg = "--host is empty or holds control characters: give the name of the cards' host"
        raise UsageError(msg)
    recording = Recording(
        files,
        apps or (),
        reading=Reading(
            timezone=parse_timezone(timezone),
            host=host,
            columns=tuple(columns.split(",")) if columns else (),
            reserve_bytes=None if reserve is None else parse_size(reserve),
        ),
        ignored=DEFAULT_IGNORED,
    )
    found = recording.survey(None if interval is None else _interval_ms(interval))
    check_not_ahead(", ".join(map(str, files)), found.last_ms, time.time_ns() // 1_000_000)
    made = origin(
        source=Source.IMPORT,
        interval_ms=found.interval_ms,
        environ=os.environ,
        host=host or DEFAULT_HOST,
        instance_id="import",  # the same for every import, so that a second one changes nothing
        service_version=version("gua-otel"),
    )
    delivery.deliver(recording.ticks(found, made), store=store, endpoint=endpoint, on_tick=lambda _: None)
    for line in summary(recording, found, timezone=timezone, reserve=reserve, process_files=len(apps or ())):
        typer.echo(line)


def summary(
    recording: Recording, found: Survey, *, timezone: str, reserve: str | None, process_files: int
) -> Iterator[str]:
    """Return what was imported, what was left out and what had to be assumed, a line each."""
    hosts = f"host {found.hosts[0]}" if len(found.hosts) == 1 else f"{len(found.hosts)} hosts"
    cards, moments = _count(found.cards, "card"), _count(found.ticks, "moment")
    yield f"imported  {_count(found.card_ticks, 'card tick')} of {cards} on {hosts} ({moments})"
    yield f"time      {to_rfc3339(found.first_ms)} to {to_rfc3339(found.last_ms)}"
    why = "the median distance of a card's rows; --interval sets another" if found.inferred else "as given"
    yield f"interval  {format_duration(found.interval_ms)} ({why})"
    if process_files:
        yield f"processes known for {recording.joined:,} of {found.card_ticks:,} card ticks"
    if found.duplicates:
        yield f"repeated  {_count(found.duplicates, 'row')} stood there before and count once"
    if recording.left_out_lines:
        yield f"left out  {_count(recording.left_out_lines, 'line')}: {'; '.join(recording.left_out)}"
    if recording.zone_assumed:
        yield f"assumed   times without an offset are in {timezone} (--timezone)"
    if recording.reserve_assumed:
        yield "assumed   memory.used leaves the driver's reserve out, as nvidia-smi does since driver 510 (--reserve)"
    if reserve is not None:
        yield f"assumed   memory.used contains a reserve of {reserve}, which was subtracted from every row"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _interval_ms(text: str) -> int:
    interval_ms = parse_duration_ms(text)
    if interval_ms > MAX_INTERVAL_MS:
        msg = f"--interval {text!r} is longer than a day: give what one row stands for, as in 30s"
        raise UsageError(msg)
    return interval_ms
