"""Landing of spooled ticks in the store: as rows, or as OTLP bytes that ClickHouse parses into points.

An embedded store lands rows of the decoded ticks (:mod:`gua.store.tick_rows`), and points for requests that rows
cannot represent in full. A server lands points only.

A batch of points is one length-delimited message (ProtobufList): the total length, then the unchanged requests.
The spool's blobs are zstd frames, which may be concatenated, so they are not even decompressed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gua.core.errors import DataError, UnavailableError
from gua.core.ports import SpooledTick
from gua.state.compression import compress, decompress
from gua.store.connection import QueryError
from gua.store.directory import BATCH_PREFIX
from gua.store.native import size
from gua.store.statements import proto_file
from gua.store.tick_rows import TableLines, TickRows

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

MESSAGE: Final = "ResourceMetrics"
_MOST_CHARACTERS: Final = 8 * 2**20
"""Limit for rows landed at once [characters]: about 300 ticks of a host with 80 processes."""
_SETTINGS: Final = {
    "parallel_view_processing": 1,
    "max_partitions_per_insert_block": 0,
    "throw_on_max_partitions_per_insert_block": 0,
    # On a cluster, return only after the rows are on their shard.
    "distributed_foreground_insert": 1,
}
# As part of the statement: the client sets and resets each setting of a command separately, 4 ms of CPU together.
# The tables are read with FINAL: merging equal keys within the inserted block takes as long as all the rest.
_OF_ROWS: Final = ", ".join(
    f"{name} = {value}"
    for name, value in {**_SETTINGS, "max_threads": 1, "max_insert_threads": 1, "optimize_on_insert": 0}.items()
)


def batch_bytes(batch: Sequence[SpooledTick]) -> bytes:
    """Return the batch as one zstd stream with a ProtobufList message."""
    return compress(size(sum(tick.raw_length for tick in batch))) + b"".join(tick.blob for tick in batch)


def land_rows(batch: Sequence[SpooledTick], insert: Callable[[Iterable[TableLines]], None]) -> list[SpooledTick]:
    """Insert ticks as rows; return those to land as points. Raises QueryError if the data are not at fault.

    These are requests of another encoder, ticks that :class:`TickRows` refuses, and rows that the engine refuses.
    """
    others: list[SpooledTick] = []
    for rows, ticks in _in_rows(batch, others):
        try:
            insert(rows.parts())
        except QueryError as error:
            if not error.about_data:
                raise
            others += ticks
    return others


def _in_rows(
    batch: Sequence[SpooledTick], others: list[SpooledTick]
) -> Iterator[tuple[TickRows, Sequence[SpooledTick]]]:
    """Yield batches of rows with their ticks; append ticks that rows cannot represent to ``others``."""
    from gua.otlp.decode import decode_whole  # noqa: PLC0415 - needs protobuf, which landing of fresh ticks does not

    now_ms = time.time_ns() // 1_000_000
    rows, ticks = TickRows(now_ms), list[SpooledTick]()
    for tick in batch:
        try:
            raw = decompress(tick.blob)
            whole = decode_whole(raw) if len(raw) == tick.raw_length else None
        except (DataError, ValueError):
            whole = None
        fits = whole is not None and rows.add(whole)
        (ticks if fits else others).append(tick)
        if rows.characters >= _MOST_CHARACTERS:
            yield rows, ticks
            rows, ticks = TickRows(now_ms), []
    if ticks:
        yield rows, ticks


def land_bisecting(batch: Sequence[SpooledTick], insert: Callable[[Sequence[SpooledTick]], None]) -> list[SpooledTick]:
    """Insert the batch; if it is refused, bisect it; return the ticks that the engine refuses one by one."""
    if not batch:
        return []
    try:
        insert(batch)
    except QueryError as error:
        if not error.about_data:
            raise
        if len(batch) == 1:
            return list(batch)
        middle = len(batch) // 2
        return land_bisecting(batch[:middle], insert) + land_bisecting(batch[middle:], insert)
    return []


def insert_embedded(client: Client, batch: Sequence[SpooledTick], directory: Path) -> None:
    """Land a batch as points through a file."""
    with _folder(directory) as folder:
        path = folder / "points"
        path.write_bytes(batch_bytes(batch))
        source = f"file({_quoted(str(path))}, 'ProtobufList', 'auto', 'zstd')"
        client.command(
            f"INSERT INTO gua.otlp_requests SELECT * FROM {source}",  # noqa: S608 - a name of our making, quoted
            settings={
                **_SETTINGS,
                "format_schema": f"{proto_file()}:{MESSAGE}",
                "use_structure_from_insertion_table_in_table_functions": 1,
            },
        )


def insert_rows(client: Client, parts: Iterable[TableLines], directory: Path) -> None:
    """Insert rows of tables through one file per table. Rows already stored are merged with them."""
    with _folder(directory) as folder:
        for part in parts:
            path = folder / part.table
            with path.open("wb") as file:
                file.writelines(part.pieces)
            if not path.stat().st_size:
                continue
            names = ", ".join(column.name for column in part.columns)
            read = ", ".join(f"{column.name} {column.read}" for column in part.columns)
            values = ", ".join(column.sql for column in part.columns)
            source = f"file({_quoted(str(path))}, '{part.form}', {_quoted(read)})"
            client.command(
                f"INSERT INTO gua.{part.table} ({names}) SETTINGS {_OF_ROWS} SELECT {values} FROM {source}"  # noqa: S608 - of our making
            )
            path.unlink()


@contextmanager
def _folder(directory: Path) -> Iterator[Path]:
    """Yield a temporary folder for a batch; outside ``directory`` if its name contains glob characters."""
    place = None if set("*?{}") & set(str(directory)) else directory
    try:
        with tempfile.TemporaryDirectory(prefix=BATCH_PREFIX, dir=place) as folder:
            yield Path(folder)
    except OSError as error:
        raise UnavailableError(f"cannot write a batch to {directory} ({error.strerror}): free some space") from None


def insert_server(client: Client, batch: Sequence[SpooledTick]) -> None:
    """Land a batch as points on a server: compressed bytes over HTTP, with the .proto in the request."""
    client.raw_insert(
        table="gua.otlp_requests",
        insert_block=batch_bytes(batch),
        compression="zstd",
        fmt="ProtobufList",
        settings={
            **_SETTINGS,
            "format_schema_source": "string",
            "format_schema": proto_file().read_text("utf-8"),
            "format_schema_message_name": MESSAGE,
        },
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
