"""Delivery of stored ticks from before this host's enrollment, re-encoded like new ones."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gua.agent.delivery import ENDPOINT_BATCH_TICKS
from gua.app.delivery import PATIENCE_SECONDS
from gua.app.destinations import Destination, open_agent_endpoint
from gua.app.host import agent_origin
from gua.app.opening import store_address
from gua.app.output import print_line, safe
from gua.app.rebuilt_ticks import Rebuilt
from gua.core.errors import TransientError, UnavailableError, UsageError
from gua.core.moments import to_rfc3339
from gua.core.ports import SpooledTick
from gua.core.tick import Origin
from gua.otlp.encode import encode
from gua.state.compression import compress
from gua.state.directory import open_private, replace_private
from gua.store.database import Store, open_store
from gua.store.directory import StoreDirectory
from gua.store.dsn import EmbeddedDsn, parse_dsn
from gua.store.history import card_info, recorded_days, rows_of_ticks

# Read at a time: the open store is locked for other processes, so it is closed while sending.
_PART_BYTES: Final = 8 * 2**20
_SLICE_TICKS: Final = 120
_USUAL_INTERVAL_MS: Final = 30_000


@dataclass(slots=True)
class Sent:
    """Progress of the delivery: all ticks up to ``through_ms`` (Unix ms), and the counts so far."""

    through_ms: int
    ticks: int = 0
    card_ticks: int = 0
    left_out: int = 0
    refused: int = 0


def send_history(store: str | None, home: Path, destination: Destination, *, interval_ms: int) -> None:
    """Deliver every tick of this host in the embedded store, oldest first, and print the counts.

    A repeated call resumes after an interruption; sending a tick twice has no effect. Raises UsageError if the store is
    a server, UnavailableError if the store or the endpoint fails.
    """
    parsed = parse_dsn(store_address(store, home), password=os.environ.get("GUA_STORE_PASSWORD"))
    if not isinstance(parsed, EmbeddedDsn):
        raise UsageError("history is sent from an embedded store, and this is a server: leave --with-history out")
    if not StoreDirectory(parsed.path).exists():
        print_line(f"history: none, there is no store at {safe(str(parsed.path))}")
        return
    origin = agent_origin(interval_ms=interval_ms, home=home)
    path, whose = home / "history.json", {"endpoint": destination.endpoint, "host": origin.host}
    sent = Sent(through_ms=_resumed_ms(path, whose))
    try:
        with closing(open_agent_endpoint(destination, home, patience_seconds=PATIENCE_SECONDS)) as endpoint:
            while part := _part(str(parsed), origin, sent):
                for start in range(0, len(part), ENDPOINT_BATCH_TICKS):
                    sent.refused += len(endpoint.land(part[start : start + ENDPOINT_BATCH_TICKS]))
                sent.ticks += len(part)
                replace_private(path, json.dumps({**whose, "through_ms": sent.through_ms}).encode())
                if sys.stderr.isatty():
                    print_line(f"history: delivered up to {to_rfc3339(sent.through_ms)}", to_stderr=True)
    except UnavailableError as error:
        kind = TransientError if isinstance(error, TransientError) else UnavailableError
        msg = f"{error} (not all of the history was delivered: gua sync-once --with-history goes on with it)"
        raise kind(msg) from None
    path.unlink(missing_ok=True)
    print_line(
        safe(
            f"history: {sent.ticks} ticks of {origin.host} ({sent.card_ticks} card ticks) "
            f"were delivered to {destination.where}"
        )
    )
    if sent.left_out:
        print_line(f"note: {sent.left_out} card ticks are not wholly stored and were left out", to_stderr=True)
    if sent.refused:
        print_line(f"note: {sent.refused} ticks were refused for good", to_stderr=True)


def _part(address: str, origin: Origin, sent: Sent) -> Sequence[SpooledTick]:
    """Return the next ticks, encoded, and advance ``sent.through_ms``; empty at the end."""
    part: list[SpooledTick] = []
    with open_store(address) as store:
        rebuilt = Rebuilt(origin, card_info(store, origin.host))
        for since_ms, until_ms in _slices(store, origin.host, sent.through_ms):
            rows = rows_of_ticks(store, origin.host, since_ms=since_ms, until_ms=until_ms)
            for tick in rebuilt.ticks(*rows):
                raw = encode(tick)
                part.append(SpooledTick(id=0, ts_ms=tick.ts_ms, raw_length=len(raw), blob=compress(raw)))
            sent.through_ms = until_ms
            if sum(len(tick.blob) for tick in part) >= _PART_BYTES:
                break
    sent.card_ticks += rebuilt.card_ticks
    sent.left_out += rebuilt.left_out
    return part


def _slices(store: Store, host: str, after_ms: int) -> Iterator[tuple[int, int]]:
    """Yield ranges (since, until] in Unix ms, oldest first, of 120 intervals: a day may have a million rows."""
    for day in recorded_days(store, host):
        step_ms = _SLICE_TICKS * (day.smallest_ms or _USUAL_INTERVAL_MS)
        since_ms = max(day.first_ms - 1, after_ms)
        while since_ms < day.last_ms:
            until_ms = min(since_ms + step_ms, day.last_ms)
            yield since_ms, until_ms
            since_ms = until_ms


def _resumed_ms(path: Path, whose: dict[str, str | None]) -> int:
    """Return the stored progress for an endpoint and host (Unix ms); 0 if the file is missing or of another one."""
    if not os.path.lexists(path):
        return 0
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        try:
            match json.loads(file.read()):
                case {"through_ms": int(through_ms), **stored} if stored == whose:
                    return through_ms
        except ValueError:
            pass
    return 0
