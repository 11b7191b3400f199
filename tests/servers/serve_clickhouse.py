"""Be a ClickHouse server: clickhouse-local out of libchdb, listening. Arguments: the library, the config file."""

from __future__ import annotations

import ctypes
import signal
import sys

SERVE = (
    "SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; "
    "SELECT sleepEachRow(1) FROM system.numbers FORMAT Null SETTINGS max_block_size=1, max_rows_to_read=0"
)
PR_SET_PDEATHSIG = 1


def main() -> None:
    library, config = sys.argv[1:]
    # A test run that dies takes its server along.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    arguments = [b"clickhouse", b"--config-file", config.encode(), b"--query", SERVE.encode()]
    argv = (ctypes.c_char_p * len(arguments))(*arguments)
    ctypes.CDLL(library).query_stable_v2(len(arguments), argv)


if __name__ == "__main__":
    main()
