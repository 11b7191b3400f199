"""The fixture ``simulated_driver``: a driver for the processes that a test starts."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from driver.build import build
from driver.scenario import Scenario, replace_text

# The library looks at its scenario every 10 ms, by a clock of its own.
_SEEN_BY_ALL_SECONDS = 0.015


@dataclass(frozen=True)
class SimulatedDriver:
    """A scenario file and the environment in which a process finds this driver instead of a real one."""

    library: Path
    scenario: Path

    @property
    def environment(self) -> dict[str, str]:
        """What to add to ``os.environ`` for a subprocess; a running process cannot change to this driver."""
        inherited = os.environ.get("LD_LIBRARY_PATH")
        folders: Sequence[str] = (str(self.library), inherited) if inherited else (str(self.library),)
        return {"LD_LIBRARY_PATH": os.pathsep.join(folders), "GUA_SIMULATED_DRIVER": str(self.scenario)}

    def write(self, scenario: Scenario | str) -> None:
        """Replace the world; every call that begins after this returns sees the new one."""
        replace_text(self.scenario, scenario if isinstance(scenario, str) else scenario.text())
        time.sleep(_SEEN_BY_ALL_SECONDS)


@pytest.fixture(scope="session")
def driver_library() -> Path:
    """Return the folder with the simulated driver's library; fails where it cannot be compiled."""
    return build()


@pytest.fixture
def simulated_driver(driver_library: Path, tmp_path: Path) -> SimulatedDriver:
    """Return a driver without cards; ``write`` gives it some."""
    driver = SimulatedDriver(library=driver_library, scenario=tmp_path / "driver.scenario")
    replace_text(driver.scenario, Scenario().text())
    return driver
