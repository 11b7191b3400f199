"""The message when the engine has no memory: whether to wait, or to query less."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gua.core.errors import TransientError
from gua.store.connection import translated
from gua.store.database import open_store
from gua.store.dsn import ServerDsn

DSN = ServerDsn(host="db.example", port=8123, secure=False, user="gua_reader", password="")


@pytest.mark.parametrize(
    ("limit", "advice"), [("Query", "query less time or fewer hosts"), ("User", "try again later")]
)
def test_the_error_suggests_a_retry_only_if_others_may_release_memory(limit: str, advice: str) -> None:
    text = f"Code: 241. DB::Exception: {limit} memory limit exceeded: would use 334.27 MiB. (MEMORY_LIMIT_EXCEEDED)"
    with pytest.raises(TransientError, match=f": {re.escape(advice)}$"), translated(DSN):
        raise OSError(text)


@pytest.mark.engine
def test_the_memory_error_of_the_engine_is_recognized(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        open_store(f"chdb://{tmp_path_factory.mktemp('memory')}/store") as store,
        pytest.raises(TransientError, match=r"query less time or fewer hosts$"),
    ):
        store.select("SELECT groupArray(toString(number)) FROM numbers(10000000)")


BLOCKS = """
import os
from gua.store.connection import give_back_blocks
def resident(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
give_back_blocks()
del bytearray(8_000_000)[:]
blocks = [bytearray(b"x" * 1_000_000) for _ in range(40)]
full = resident()
del blocks[:-1]
print(full - resident())
"""


def test_memory_of_results_is_freed_once_they_are_read() -> None:
    """Otherwise the block that is left keeps all that lies below it."""
    ran = subprocess.run([sys.executable, "-c", BLOCKS], check=True, capture_output=True, text=True)
    assert int(ran.stdout) > 35_000_000
