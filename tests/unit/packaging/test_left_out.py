"""Where all tests are required, a run fails that leaves out tests of servers, and passes that leaves out wide ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("chosen", "code"), [("not gpu and not wide", 0), ("not pipeline", 1)])
def test_a_test_that_is_wide_may_be_left_out_and_another_of_a_pipeline_may_not(chosen: str, code: int) -> None:
    # Two of the outages are wide, the others need a server alone.
    files = ("tests/pipeline/test_outages.py", "tests/unit/packaging/test_left_out.py")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", chosen, *files]
    environment = {**os.environ, "GUA_REQUIRE_ALL": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
