"""``gua import canhazgpu``: who reserved which cards, from the history of the tool before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from gua.app import delivery
from gua.app.imported import card_names, check_host, warn_of_cards_twice
from gua.app.origins import origin_elsewhere
from gua.app.output import safe
from gua.cli.options import EndpointOption, StoreOption, value
from gua.core.durations import to_rfc3339
from gua.core.errors import UsageError
from gua.core.words import Source
from gua.imports.canhazgpu import HOUR_MS, ReservedHistory, read
from gua.imports.recording import check_not_ahead
from gua.imports.rows import DEFAULT_HOST
from gua.report.kit.figures import plural


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="What redis-cli printed; - is stdin.")],
    *,
    host: Annotated[str | None, value("NAME", "GUA_HOST", f"Host of the cards; {DEFAULT_HOST} if not given.")] = None,
    cards: Annotated[
        str | None,
        value("UUIDS", "GUA_CARDS", "The cards by index, as in GPU-1234…,GPU-5678…; names of their own if not given."),
    ] = None,
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
    check_not_ahead(", ".join(map(str, files)), newest_ms, time.time_ns() // 1_000_000)
    delivery.deliver(
        history.ticks(origin_elsewhere(Source.IMPORT, name, HOUR_MS, instance_id="import"), uuids),
        store=store,
        endpoint=endpoint,
        on_landed=lambda landed: warn_of_cards_twice(landed, [name]),
    )
    for line in _summary(history, name, newest_ms, uuids, is_given=cards is not None):
        typer.echo(line)


def _uuids(cards: str | None, history: ReservedHistory, host: str) -> list[str]:
    """Return a name for each index. Raises UsageError where fewer were given than the history has."""
    most = history.cards[-1] + 1
    if cards is None:
        return [f"canhazgpu-{host}-{index}" for index in range(most)]
    given = list(card_names(cards))
    if len(given) < most:
        msg = f"--cards names {plural(len(given), 'card')}, and the history has GPU {most - 1}: give {most}"
        raise UsageError(msg)
    return given


def _summary(history: ReservedHistory, host: str, newest_ms: int, uuids: list[str], *, is_given: bool) -> Iterator[str]:
    """Return what was imported, what was left out and what had to be assumed, a line each."""
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
    yield "assumed   reservations by hand ended when somebody looked, as canhazgpu has it: some are too long"
    yield "unknown   what happened on the cards meanwhile"
