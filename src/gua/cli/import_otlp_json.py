"""``gua import otlp-json``: ticks that a Collector wrote into files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from gua.app import delivery
from gua.app.imported import warn_of_cards_twice, with_stdin
from gua.app.output import safe
from gua.cli.options import EndpointOption, StoreOption
from gua.core.durations import to_rfc3339
from gua.core.errors import DataError
from gua.core.tick import Tick
from gua.imports.recording import check_not_ahead


def command(
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
    from gua.otlp.json_lines import check_lines  # noqa: PLC0415 - protobuf, only for this import

    files = with_stdin(files)
    cut: list[str] = []
    if not sum(check_lines(path, cut) for path in files):
        msg = f"no ticks of gua in {', '.join(map(str, files))}: nothing was imported"
        raise DataError(msg)
    counted = _Counted()
    delivery.deliver(
        counted.ticks(files),
        store=store,
        endpoint=endpoint,
        on_landed=lambda landed: warn_of_cards_twice(landed, counted.hosts),
    )
    hosts = f"host {safe(next(iter(counted.hosts)))}" if len(counted.hosts) == 1 else f"{len(counted.hosts)} hosts"
    typer.echo(f"imported  {counted.card_ticks:,} card ticks of {hosts} ({counted.number:,} ticks)")
    typer.echo(f"time      {to_rfc3339(counted.first_ms)} to {to_rfc3339(counted.last_ms)}")
    if cut:
        typer.echo(f"left out  {'; '.join(f'{where}: the last line is cut off' for where in cut)}")


class _Counted:
    """Counts ticks on their way."""

    def __init__(self) -> None:
        self.number = self.card_ticks = self.last_ms = 0
        self.first_ms = 2**62
        self.hosts: set[str] = set()

    def ticks(self, files: list[Path]) -> Iterator[Tick]:
        """Yield the ticks of the files, one after the other."""
        from gua.otlp.json_lines import ticks_of_lines  # noqa: PLC0415 - as above

        for path in files:
            for tick in ticks_of_lines(path):
                check_not_ahead(str(path), tick.ts_ms, time.time_ns() // 1_000_000)
                self.number += 1
                self.card_ticks += len(tick.cards)
                self.first_ms, self.last_ms = min(self.first_ms, tick.ts_ms), max(self.last_ms, tick.ts_ms)
                self.hosts.add(tick.origin.host)
                yield tick
