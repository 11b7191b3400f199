"""The page as promtool lints it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from fakes.cards import START_MS, full_tick
from fakes.clock import FakeClock
from fakes.pages import ask
from gua.core.idleness import IdleCounter
from gua.exporter.address import Address, Serving
from gua.exporter.endpoint import PrometheusEndpoint


def test_promtool_has_no_warning_about_the_page() -> None:
    program = shutil.which("promtool")
    if program is None:
        if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
            pytest.fail("promtool is not on PATH (on Debian: apt-get install prometheus)")
        pytest.skip("promtool is not on PATH (on Debian: apt-get install prometheus)")
    one = full_tick()
    idle = IdleCounter(seen_ms=START_MS, covered_ms=30_000, zero_polls=2, zero_ms=1)
    clocks = {("GPU-1", 11, START_MS - 1000): idle}
    serving = Serving(address=Address(port=0), constant={"node": "n1"})
    with PrometheusEndpoint(serving, clock=FakeClock(), origin=one.origin, clocks=lambda: clocks) as endpoint:
        empty = ask(endpoint).body
        endpoint.ticked(one, lateness_ms=0)
        page = ask(endpoint).body
    assert b"gpu_idle_process_idle_memory_bytes{" in page
    for each in (empty, page):
        checked = subprocess.run([program, "check", "metrics"], input=each, capture_output=True, check=False)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
