"""Tests of a group run in one worker, one after the other: what a file starts is started once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import os
import pytest

@pytest.mark.parametrize("place", range(8))
@pytest.mark.xdist_group("together")
def test_one(place, tmp_path_factory):
    print(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_a_group_stays_in_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_group.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    workers = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-rP", "-q", "test_group.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert len({line for line in workers.splitlines() if line in {"gw0", "gw1"}}) == 1
