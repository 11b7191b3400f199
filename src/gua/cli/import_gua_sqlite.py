"""``gua import gua-sqlite``: the histories of gpu-usage-audit 1.0 to 1.8."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from gua.app import delivery
from gua.app.imported import check_host, row_interval_ms, warn_of_cards_twice
from gua.app.origins import origin_elsewhere
from gua.app.output import safe
from gua.cli.options import EndpointOption, StoreOption, value
from gua.core.durations import format_duration, to_rfc3339
from gua.core.words import Source
from gua.identity.process import DEFAULT_IGNORED
from gua.imports.legacy_v1.histories import Histories
from gua.imports.recording import check_not_ahead
from gua.imports.rows import DEFAULT_HOST
from gua.report.kit.figures import plural


def command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Databases, as ~/.gua/gua.db; nothing is written to them.")
    ],
    *,
    host: Annotated[
        str | None,
        value("NAME", "GUA_HOST", f"Host of the cards; as the database tells, or {DEFAULT_HOST}, if not given."),
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
            check_not_ahead(where, newest_ms, time.time_ns() // 1_000_000)
        made = origin_elsewhere(Source.IMPORT, histories.hosts[0], histories.intervals_ms[0], instance_id="import")
        delivery.deliver(
            histories.ticks(made),
            store=store,
            endpoint=endpoint,
            on_landed=lambda landed: warn_of_cards_twice(landed, histories.hosts),
        )
        for line in _summary(histories, given=interval_ms is not None):
            typer.echo(line)


def _summary(histories: Histories, *, given: bool) -> Iterator[str]:
    """Return what was imported, what was left out and what had to be assumed, a line each."""
    taken = histories.taken
    hosts = histories.hosts
    where = f"host {safe(hosts[0])}" if len(hosts) == 1 else f"{len(hosts)} hosts"
    yield f"imported  {plural(taken.card_ticks, 'card tick')} of {plural(histories.cards, 'card')} on {where}"
    yield f"time      {to_rfc3339(taken.first_ms)} to {to_rfc3339(taken.last_ms)}"
    yield f"interval  {', '.join(format_duration(interval) for interval in histories.intervals_ms)}"
    yield f"processes {plural(taken.processes, 'row')}"
    contents = histories.contents
    if taken.duplicates:
        yield f"repeated  {plural(taken.duplicates, 'row')} stood in another file as well and count once"
    left_out = sum(content.process_rows for content in contents) - taken.processes
    if left_out and not taken.duplicates:
        yield f"left out  {plural(left_out, 'process row')} of no sample of a card"
    if any(content.without_interval for content in contents):
        why = "given with --interval" if given else "the median distance of a card's rows; --interval sets another"
        yield f"assumed   the interval of rows that belong to no run of the daemon ({why})"
    if taken.lists_unknown:
        yield (
            f"unknown   the processes of {plural(taken.lists_unknown, 'card tick')}: the list could not be read, or "
            "nothing tells whether it could"
        )
