"""Shared parts of the imports of recordings: files, host, interval, and the printed summary."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gua.app import delivery
from gua.app.output import print_error
from gua.core.errors import GuaError, UsageError
from gua.core.moments import format_duration, parse_duration_ms, to_rfc3339
from gua.core.tick import Origin, Tick
from gua.core.words import Source
from gua.imports.recording import MAX_INTERVAL_MS, Recording, Survey, check_not_ahead
from gua.otlp.resource import origin_elsewhere
from gua.report.kit.figures import plural
from gua.store.database import Store

_DASH: Final = Path("-")
_STDIN: Final = Path("/dev/stdin")
_CARDS_TWICE: Final = """
SELECT mine.host AS host, other.host AS other_host, count() AS cards
FROM gua.cards AS mine
INNER JOIN gua.cards AS other ON other.gpu = mine.gpu
WHERE mine.host IN {hosts:Array(String)} AND other.host != mine.host
    AND greatest(mine.first_seen, other.first_seen) < least(mine.last_seen, other.last_seen)
GROUP BY host, other_host
ORDER BY host, other_host
"""


def with_stdin(files: Sequence[Path]) -> list[Path]:
    """Return the files, with ``-`` replaced by a temporary copy of stdin, as recordings are read twice."""
    if _DASH in files:
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            os.dup2(copy.fileno(), 0)
    return [_STDIN if file == _DASH else file for file in files]


def warn_of_cards_twice(store: Store, hosts: Collection[str]) -> None:
    """Warn on stderr of cards that the store also has, at the same time, under another host."""
    with suppress(GuaError):  # the user may lack the right to read
        for row in store.select(_CARDS_TWICE, {"hosts": list(hosts)}):
            print_error(
                f"hosts {row['host']} and {row['other_host']} have {plural(row['cards'], 'card')} in common at the "
                "same time in this store: a report on both counts those hours twice, choose one of them with --host"
            )


def import_ticks(ticks: Iterable[Tick], hosts: Collection[str], *, store: str | None, endpoint: str | None) -> None:
    """Deliver ticks by :func:`gua.app.delivery.deliver`, and warn of cards that the store has under another host."""
    delivery.deliver(ticks, store=store, endpoint=endpoint, on_landed=lambda landed: warn_of_cards_twice(landed, hosts))


def origin_of_import(host: str, interval_ms: int) -> Origin:
    """Return the origin of imported ticks."""
    return origin_elsewhere(Source.IMPORT, host, interval_ms, instance_id="import")


def check_newest(files: Sequence[Path | str], newest_ms: int) -> None:
    """Raise DataError if the newest row (Unix ms) is ahead of this host's clock."""
    check_not_ahead(", ".join(map(str, files)), newest_ms, time.time_ns() // 1_000_000)


def check_host(host: str | None) -> None:
    """Raise UsageError for a host name that is empty or unprintable."""
    if host is not None and not (host.strip() and host.isprintable()):
        raise UsageError("--host is empty or holds control characters: give the name of the cards' host")


def card_names(cards: str | None) -> tuple[str, ...]:
    """Return the cards' UUIDs by index, empty without the option. Raises UsageError."""
    if cards is None:
        return ()
    uuids = tuple(one.strip() for one in cards.split(","))
    if not all(one and one.isprintable() for one in uuids) or len(set(uuids)) < len(uuids):
        msg = "--cards names a card twice or not at all: give each card's UUID once, in the order of their indices"
        raise UsageError(msg)
    return uuids


def row_interval_ms(text: str | None) -> int | None:
    """Return the time that one row covers [ms], ``None`` without the option. Raises UsageError."""
    if text is None:
        return None
    interval_ms = parse_duration_ms(text)
    if interval_ms > MAX_INTERVAL_MS:
        raise UsageError(f"--interval {text!r} is longer than a day: give what one row stands for, as in 30s")
    return interval_ms


def summary(
    recording: Recording, survey: Survey, *, timezone: str, reserve: str | None, process_files: int
) -> Iterator[str]:
    """Yield one line for each thing that was imported, left out or assumed."""
    hosts = f"host {survey.hosts[0]}" if len(survey.hosts) == 1 else f"{len(survey.hosts)} hosts"
    cards, moments = plural(survey.cards, "card"), plural(survey.ticks, "moment")
    yield f"imported  {plural(survey.card_ticks, 'card tick')} of {cards} on {hosts} ({moments})"
    yield f"time      {to_rfc3339(survey.first_ms)} to {to_rfc3339(survey.last_ms)}"
    why = "the median distance of a card's rows; --interval sets another" if survey.inferred else "as given"
    yield f"interval  {format_duration(survey.interval_ms)} ({why})"
    if process_files:
        yield f"processes known for {recording.joined:,} of {survey.card_ticks:,} card ticks"
    if survey.duplicates:
        yield f"repeated  {plural(survey.duplicates, 'row')} stood there before and count once"
    if recording.left_out_lines:
        yield f"left out  {plural(recording.left_out_lines, 'line')}: {'; '.join(recording.left_out)}"
    if recording.assumed.times_without_offset:
        yield f"assumed   times without an offset are in {timezone} (--timezone)"
    if recording.assumed.reserve_excluded:
        yield "assumed   memory.used leaves the driver's reserve out, as nvidia-smi does since driver 510 (--reserve)"
    if recording.assumed.memory_unknown:
        yield "unknown   memory, and so the state of a card that does nothing (dmon -s um; dcgmi dmon -e 203,252)"
    if reserve is not None:
        yield f"assumed   memory.used contains a reserve of {reserve}, which was subtracted from every row"
