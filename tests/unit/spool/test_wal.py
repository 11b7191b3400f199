"""The log of a spool, read while another process cuts it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gua.spool import wal
from gua.spool.queue import Spool
from gua.spool.schema import PAGE_BYTES

FRAME_BYTES = PAGE_BYTES + 24


def log_of(path: Path) -> Path:
    """Return a copy of the log of a spool with some ticks: the last one to close it removes its own."""
    with Spool(path) as spool:
        for number in range(1, 6):
            spool.append(number, os.urandom(2_000))
        log = path.with_name("copy")
        log.write_bytes(path.with_name(f"{path.name}-wal").read_bytes())
    return log


@pytest.mark.parametrize("left", [wal.HEADER_BYTES, wal.HEADER_BYTES + 10, wal.HEADER_BYTES + FRAME_BYTES + 100, 0])
def test_pages_end_where_the_log_was_cut_meanwhile(tmp_path: Path, left: int) -> None:
    log = log_of(tmp_path / "spool.db")
    descriptor = os.open(log, os.O_RDWR)
    try:
        assert len(list(wal.pages_after(descriptor, 0))) > 2
        pages = wal.pages_after(descriptor, 0)
        assert len(next(pages)) == PAGE_BYTES
        os.ftruncate(descriptor, left)
        assert list(pages) == []
    finally:
        os.close(descriptor)


def test_a_header_alone_or_a_part_of_it_tells_of_no_transaction(tmp_path: Path) -> None:
    log = log_of(tmp_path / "spool.db")
    whole = log.read_bytes()
    for length in (0, 10, wal.HEADER_BYTES, wal.HEADER_BYTES + 23):
        log.write_bytes(whole[:length])
        descriptor = os.open(log, os.O_RDONLY)
        try:
            assert wal.last_commit(descriptor) == 0
        finally:
            os.close(descriptor)
