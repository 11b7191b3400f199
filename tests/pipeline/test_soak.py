"""A fleet of 6 hosts in which everything fails at random: every recorded tick is stored, and counts once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from soak.run import soak


@pytest.mark.usefixtures("_built")
def test_a_fleet_in_which_everything_fails_loses_no_tick_and_counts_none_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\nsoak: {line}", end="", flush=True)  # noqa: T201 - the figures of docs/reliability.md

    seed = int(os.environ.get("SOAK_SEED") or time.time())
    minutes = float(os.environ.get("SOAK_MINUTES") or 1.2)
    soak(tmp_path / "fleet", minutes=minutes, hosts=6, seed=seed, say=say)
