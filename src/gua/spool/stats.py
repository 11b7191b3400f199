"""Statistics of the spool, computed without reading its rows."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from gua.spool.schema import (
    DELIVERED,
    DELIVERED_MS,
    DROPPED,
    REFUSED,
    REPAIRS,
    UNKNOWN_LOSSES,
    DamagedError,
    UnknownDestinationError,
    all_counters,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SpoolStats:
    """Current content of the spool, and counters since it was created.

    ``ticks`` is the number that some destination still lacks, ``waiting`` the number by destination. ``oldest_ms`` is
    the oldest pending tick by destination (Unix ms). ``bytes`` are on disk, the write-ahead log included.
    ``delivered``, ``refused`` and ``dropped`` count ticks: accepted, permanently refused, deleted by the size limit.
    ``delivered_ms`` is the last delivery by destination (Unix ms), absent if none. ``repairs`` counts replaced damaged
    or removed files, ``lost`` the ticks lost with them: ``None`` if unknown, as with damaged files.
    """

    ticks: int
    bytes: int
    waiting: Mapping[str, int] = field(default_factory=dict)
    oldest_ms: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0
    delivered: Mapping[str, int] = field(default_factory=dict)
    delivered_ms: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    repairs: int = 0
    lost: int | None = 0


def stats(database: sqlite3.Connection, size_bytes: int) -> SpoolStats:
    """Return the statistics of an open spool."""
    counted = all_counters(database)
    names = dict(database.execute("SELECT name, acknowledged_id FROM destinations"))
    if not all(isinstance(number, int) for number in names.values()):
        raise DamagedError
    waiting = {name: depth(database, delivered) for name, delivered in names.items()}
    oldest_of = "SELECT ts_ms FROM ticks WHERE id > ? ORDER BY id LIMIT 1"
    oldest = {
        name: _time(database.execute(oldest_of, (delivered,)).fetchone())
        for name, delivered in names.items()
        if waiting[name]
    }
    return SpoolStats(
        ticks=max(waiting.values(), default=0),
        bytes=size_bytes,
        waiting=waiting,
        oldest_ms={name: ts_ms for name, ts_ms in oldest.items() if ts_ms is not None},
        dropped=counted.get(DROPPED, 0),
        delivered={name: counted.get(DELIVERED + name, 0) for name in names},
        delivered_ms={name: counted[DELIVERED_MS + name] for name in names if DELIVERED_MS + name in counted},
        refused={name: counted.get(REFUSED + name, 0) for name in names},
        repairs=counted.get(REPAIRS, 0),
        lost=None if counted.get(UNKNOWN_LOSSES, 0) else 0,
    )


def depth(database: sqlite3.Connection, delivered: int) -> int:
    """Return the number of ticks after id ``delivered``. Ids have no gaps, as only the oldest ticks are deleted."""
    first, last = database.execute("SELECT (SELECT min(id) FROM ticks), (SELECT max(id) FROM ticks)").fetchone()
    return 0 if last is None else max(0, last - max(delivered, first - 1))


def acknowledged(database: sqlite3.Connection, destination: str) -> int:
    """Return the last id that ``destination`` acknowledged. Raises UnknownDestinationError."""
    row = database.execute("SELECT acknowledged_id FROM destinations WHERE name = ?", (destination,)).fetchone()
    if row is None:
        msg = f"{destination!r} is no destination of this spool: the agent names them when it opens it"
        raise UnknownDestinationError(msg)
    if not isinstance(row[0], int):
        raise DamagedError
    return row[0]


def _time(row: tuple[object] | None) -> int | None:
    if row is None:
        return None
    if not isinstance(row[0], int):
        raise DamagedError
    return row[0]
