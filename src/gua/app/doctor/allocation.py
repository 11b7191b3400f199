"""Checks of allocation: the sources of this host, whether each is readable, and what the agent reports of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from gua.allocation.sources import Opener, detect_sources, open_sources
from gua.app.doctor.finding import Finding, ok, skipped, warning
from gua.app.local_agent import first_response, places
from gua.app.settings import PATIENCE_SECONDS, settle
from gua.core.allocation import CardKey
from gua.core.errors import GuaError
from gua.core.ports import CardReader
from gua.core.untrusted import list_in, objects_in, text_in
from gua.local_socket.client import query_status

_TITLE: Final = "allocation"
_REMEDY: Final = "docs/allocation.md says what each source needs; until then allocation is unknown"
_RESTART: Final = "restart it: gua stop && gua daemon; or leave --allocation off out"
_LOOK_MS: Final = 1000


def check_allocation(
    openers: Sequence[Opener],
    status: Callable[[], Mapping[str, Any] | None],
    cards: Callable[[], Sequence[CardKey]],
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Iterator[Finding]:
    """Yield a finding for each source, from the running agent's status, else from one look of its own.

    ``status`` returns the agent's status object, ``None`` without an agent. Raises what ``status`` and ``cards`` raise.
    """
    here = dict(detect_sources(openers))
    reported = status() or {}
    polled = reported.get("allocation_sources")
    if not isinstance(polled, list):
        yield from _by_one_look(openers, here, cards, patience_seconds)
        return
    sources = {text_in(each.get("source")) or "?": each for each in objects_in(polled)}
    if not sources:
        yield _not_polled(here)
    for name, source in sources.items():
        reason = None if source.get("ok") is True else text_in(source.get("reason")) or "no reason is known"
        yield _source(name, here.get(name), reason)
    for note in list_in(reported.get("allocation_notes")):
        yield warning("allocation_note", text_in(note) or "?", _REMEDY)


def _not_polled(here: Mapping[str, str]) -> Finding:
    if not here:
        return skipped("allocation", "off, and no source is on this host: a free card may be allocated")
    sources = "; ".join(f"{name}: {what}" for name, what in here.items())
    return warning("allocation", f"the agent does not look at it, and there is {sources}", _RESTART)


def _by_one_look(
    openers: Sequence[Opener],
    here: Mapping[str, str],
    cards: Callable[[], Sequence[CardKey]],
    patience_seconds: float,
) -> Iterator[Finding]:
    sources = open_sources(tuple(here), openers) if here else None
    if sources is None:
        yield _not_polled(here)
        return
    try:
        keys = cards()
        settle(sources, keys, patience_seconds=patience_seconds)
        now_ms = time.time_ns() // 1_000_000
        look = sources.look(now_ms - _LOOK_MS, now_ms, keys)
    finally:
        sources.close()
    for each in look.sources:
        yield _source(each.source, here.get(each.source), each.reason)
    for note in sources.notes:
        yield warning("allocation_note", note, _REMEDY)


def _source(name: str, what: str | None, reason: str | None) -> Finding:
    title = f"{_TITLE}, {name}"
    if reason is None:
        return ok("allocation", f"can be read{f' ({what})' if what else ''}", title=title)
    return warning("allocation", f"{what or 'named'}, and cannot be read: {reason}", _REMEDY, title=title)


def status_of_agent(home: Path) -> Mapping[str, Any] | None:
    """Return the status object of this host's agent, ``None`` if none is reachable."""
    try:
        return first_response(places(None, home), query_status)
    except GuaError:
        return None


def card_keys(reader: Callable[[], CardReader]) -> list[CardKey]:
    """Return the host's cards with all their names, empty if the driver is unreadable."""
    try:
        with closing(reader()) as cards:
            read, _ = cards.read()
    except (GuaError, OSError):
        return []
    readings = ((raw, raw.reading) for raw in read)
    return [
        CardKey(one.uuid, one.index, raw.minor, one.pci, one.parent, raw.gpu_instance_id, raw.compute_instance_id)
        for raw, one in readings
    ]
