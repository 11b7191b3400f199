"""What every test run does: say which tests it left out, and fail for it where all are required."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine is slow, not wrong.
settings.register_profile("any-load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-load")

# Markers whose tests need more than Python and a package index, with what they need. A test counts for its first one.
NEEDS = {
    "gpu": "a real card",
    "wide": "a Docker Engine with Compose, or root, containerd and a kubelet, compiled in 12 minutes; TESTS=wide",
    "pipeline": "a Collector and a ClickHouse server, made with Go, npm and Maven, a browser, Slurm: .ci/run",
    "reliability": "some minutes; .ci/run runs them",
}


def all_tests_required() -> bool:
    """Return whether a test that cannot run here counts as failed (.ci/run, and CI services)."""
    return bool(os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"))


class LeftOut:
    """Counts the tests that this run does not run."""

    def __init__(self) -> None:
        self.deselected: Counter[str] = Counter()

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        for item in items:
            self.deselected.update([marker for marker in NEEDS if item.get_closest_marker(marker)][:1])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - a process of pytest-xdist, each collects all tests
        self.deselected |= Counter(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if config.option.keyword:
            return
        for marker, count in self.deselected.items():
            terminalreporter.write_line(f"left out: {count} {marker} tests, which need {NEEDS[marker]}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = dict(self.deselected)
            return
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        skipped = bool(reporter and reporter.stats.get("skipped"))
        # A forgotten option must not turn .ci/run into a run without servers.
        left_out = self.deselected["pipeline"] or self.deselected["reliability"]
        left_out_required = bool(os.environ.get("GUA_REQUIRE_ALL") and left_out)
        if left_out_required or (all_tests_required() and skipped and session.exitstatus == pytest.ExitCode.OK):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, which share what they started, where they named no larger group.

    The views come first, in the largest groups: meanwhile .ci/run compiles what others need. The unit tests come last,
    those without an engine at the very end: what is short lets all processes end together.
    """
    with_engine = {item.path for item in items if item.get_closest_marker("engine")}

    def place(item: pytest.Item) -> int:
        if item.path.parent.name == "sql":
            return 0
        return 1 if "unit" not in item.path.parts else 2 if item.path in with_engine else 3

    items.sort(key=place)
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}/{item.path.stem}"))


# Goldens are of one zone, of pipes of 80 columns and without colour, whatever the developer's terminal is.
os.environ["TZ"] = "UTC"
time.tzset()
for _name in ("COLUMNS", "FORCE_COLOR", "CLICOLOR_FORCE", "NO_COLOR"):
    os.environ.pop(_name, None)

# Nor do settings of the developer's own gua count, but those that are for tests.
_FOR_TESTS = {"GUA_REQUIRE_ALL", "GUA_BUILD_OPTIONS", "GUA_TEST_GPU"}
for _name in [name for name in os.environ if name.startswith(("GUA_", "OTEL_"))]:
    if _name not in _FOR_TESTS:
        os.environ.pop(_name)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the outputs in tests/golden anew")
    parser.addoption("--notify-kills", type=int, default=15, help="how often gua notify is killed")
    parser.addoption("--notify-every-tick", action="store_true", help="run gua notify after each tick of two weeks")
    parser.addoption("--hours-away", type=int, default=6, help="how long the endpoint of a host is down")
    parser.addoption("--chaos", type=float, default=5.0, help="seconds in which commands with cards are killed")
    parser.addoption("--agent-kills", type=int, default=32, help="how often agents are killed at random moments")
    parser.addoption("--kills", type=int, default=3, help="how often each kind of them is killed at least")


# No test listens where this host's own agent does, nor queries it; what a test starts inherits it or names its own.
_PLACE = f"gua-test-{os.getpid()}"
os.environ.update(GUA_RUN_DIR=str(Path(tempfile.gettempdir(), _PLACE)), GUA_HOST_LOCK=_PLACE)


# Started in the background of a script, or by nohup, all of these tests and what they start would ignore them.
for _signal, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        signal.signal(_signal, _handler)


@pytest.fixture(autouse=True)
def process_as_it_was() -> Iterator[None]:
    """Take back what a command that ran within the test's own process did to its umask and signals."""
    before = os.umask(0o022)
    os.umask(before)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    os.umask(before)
    for each, handler in handlers.items():
        signal.signal(each, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """Return what puts an empty store at a path and returns its address: opening a copy takes less than making one.

    Not for a test of the making. The first use opens the engine, which holds one store at a time.
    """
    from gua.store.database import open_store  # noqa: PLC0415 - most tests need no engine

    folder = tmp_path_factory.mktemp("made") / "store"
    open_store(f"chdb://{folder}").close()

    def copied(path: Path) -> str:
        shutil.copytree(folder, path, symlinks=True)
        return f"chdb://{path}"

    return copied


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a check that a whole output is the one kept in ``tests/golden``."""

    def check(name: str, output: str) -> None:
        kept = Path(__file__).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(output, encoding="utf-8")
        assert output == kept.read_text(encoding="utf-8"), f"{kept} differs: look, then run pytest --update-golden"

    return check


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LeftOut())
    config.pluginmanager.import_plugin("driver.fixture")
    config.pluginmanager.import_plugin("servers.fixture")
