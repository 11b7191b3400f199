"""``gua import dmon``: what nvidia-smi dmon and dcgmi dmon recorded."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from gua.app import delivery
from gua.app.imported import card_names, check_host, row_interval_ms, summary, warn_of_cards_twice, with_stdin
from gua.app.local_zone import asked_zone
from gua.app.origins import origin_elsewhere
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
from gua.imports.recording import Recording, check_not_ahead
from gua.imports.rows import DEFAULT_HOST, Reading
from gua.imports.values import parse_size


def command(
    files: RecordingsArgument,
    *,
    host: Annotated[str | None, value("NAME", "GUA_HOST", f"Host of the cards; {DEFAULT_HOST} if not given.")] = None,
    interval: RowIntervalOption = None,
    timezone: RowZoneOption = None,
    cards: Annotated[
        str | None,
        value("UUIDS", "GUA_CARDS", "The cards by index, as in GPU-1234…,GPU-5678…; names of their own if not given."),
    ] = None,
    reserve: Annotated[
        str | None,
        value("SIZE", "GUA_RESERVE", "Subtract the driver's reserve from fb: for drivers before 510."),
    ] = None,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Import what nvidia-smi dmon -o DT or dcgmi dmon wrote, as text or CSV.

    dcgmi prints no times: put them before its lines, as ts does. Neither tells who holds a card.

    Record with nvidia-smi dmon -s um -o DT > dmon.log
    or with dcgmi dmon -e 203,252,1002 -d 10000 | ts '%FT%T%z' > dcgm.log

    All files together are one recording, checked as a whole. Importing it again changes nothing.

    Example:
        gua import dmon dmon.log
        gua import dmon dcgm.log --interval 10s
    """
    check_host(host)
    local = asked_zone(timezone, os.environ, or_fail=True)
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
    survey = recording.survey(row_interval_ms(interval))
    check_not_ahead(", ".join(map(str, files)), survey.last_ms, time.time_ns() // 1_000_000)
    delivery.deliver(
        recording.ticks(
            survey, origin_elsewhere(Source.IMPORT, host or DEFAULT_HOST, survey.interval_ms, instance_id="import")
        ),
        store=store,
        endpoint=endpoint,
        on_landed=lambda landed: warn_of_cards_twice(landed, survey.hosts),
    )
    for line in summary(recording, survey, timezone=local, reserve=reserve, process_files=0):
        typer.echo(line)
