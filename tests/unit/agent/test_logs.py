from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gua.agent.logs import LINES_PER_PERIOD, MAX_BYTES, MAX_SUBJECTS, Changes, close_log, open_log
from gua.core.errors import UnavailableError


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_log()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.log"


def ours(logger: logging.Logger) -> list[logging.Handler]:
    """Return the logger's handlers without those of pytest."""
    return [handler for handler in logger.handlers if type(handler).__module__.startswith("gua")]


class Time:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class RecordingLogger(logging.Logger):
    """A logger that keeps its messages."""

    def __init__(self) -> None:
        super().__init__("told")
        self.lines: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


def test_a_log_line_has_time_level_and_message(path: Path) -> None:
    log = open_log(path)
    log.info("agent started: %s cards", 8)
    log.warning("user \x1b[31mroot\x1b[0m\nforged 2026 INFO line\u202e")
    log.debug("not this")
    first, second = path.read_text().splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ INFO agent started: 8 cards", first)
    assert second.split(" ", 1)[1] == "WARNING user [31mroot[0m forged 2026 INFO line"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unexpected_error_keeps_its_traceback_on_indented_lines(path: Path) -> None:
    log = open_log(path)
    try:
        int("bad\x1b[2J\nthing")
    except ValueError:
        log.exception("the loop failed")
    lines = path.read_text().splitlines()
    assert lines[0].endswith("ERROR the loop failed")
    assert all(line.startswith("  | ") for line in lines[1:])
    assert "  | ValueError: invalid literal for int()" in lines[-1]


def test_the_log_stays_small_and_private(path: Path) -> None:
    log = open_log(path)
    for number in range(4_000):
        log.info("%d %s", number, "x" * 1_000)
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["agent.log", "agent.log.1", "agent.log.2"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert all(file.stat().st_size <= MAX_BYTES for file in files)
    assert " 3999 " in path.read_text().splitlines()[-1]


def test_what_goes_to_stdout_and_stderr_moves_with_the_log(path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom gua.agent.logs import open_log\n"
        "path = Path(sys.argv[1])\nlog = open_log(path)\n"
        "stream = os.open(path, os.O_WRONLY | os.O_APPEND)\nos.dup2(stream, 1)\nos.dup2(stream, 2)\n"
        "for _ in range(1_200): log.info('x' * 1_000)\n"
        "os.write(1, b'last words\\n')\nos.write(2, b'very last words\\n')\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=120)
    assert path.with_name("agent.log.1").exists()
    assert path.read_text().endswith("last words\nvery last words\n")


def test_a_full_disk_costs_lines_and_never_the_agent(path: Path) -> None:
    script = (
        "import logging, resource, signal, sys\nfrom pathlib import Path\n"
        "from gua.agent.logs import open_log\n"
        "log = open_log(Path(sys.argv[1]))\nlog.info('before')\n"
        "limit = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60, limit[1]))\n"
        "for _ in range(1_000): log.warning('x' * 1_000)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, limit)\n"
        "log.info('after')\nprint('lives')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=True, timeout=120, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("lives\n", "")
    assert "INFO before" in path.read_text().splitlines()[0]
    assert path.read_text().endswith("INFO after\n")
    assert path.stat().st_size < 120, "what could not be written then is not written late"


def test_a_log_that_was_removed_or_became_a_link_does_no_harm(path: Path, tmp_path: Path) -> None:
    log = open_log(path)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.unlink()
    path.symlink_to(victim)
    for _ in range(1_200):
        log.info("x" * 1_000)
    assert victim.read_text() == "precious"


def test_a_log_behind_a_link_is_refused_at_the_start(path: Path) -> None:
    path.symlink_to("elsewhere")
    with pytest.raises(UnavailableError, match="is a symbolic link"):
        open_log(path)
    assert ours(logging.getLogger("gua")) == ours(logging.getLogger()) == []


def test_in_the_foreground_the_log_goes_to_stderr_even_if_the_reader_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    log = open_log(None)
    log.info("up")
    assert shown.getvalue().endswith(" INFO up\n")
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8", buffering=1) as unread:  # noqa: PTH123 - a descriptor has no path
        monkeypatch.setattr(sys, "stderr", unread)
        log = open_log(None)
        log.info("still up")
        unread.close = lambda: None  # type: ignore[method-assign]
    os.close(writing)


def test_a_library_that_logs_every_retry_gets_a_few_lines(path: Path) -> None:
    log = open_log(path)
    for number in range(100):
        logging.getLogger("opentelemetry.exporter").warning("Transient error, retrying in %ss", number)
        logging.getLogger("opentelemetry.exporter").info("chatter")
    for handler in ours(log):  # pytest's own handlers do not take it
        handler.handle(logging.LogRecord("gua", logging.ERROR, "", 0, "%d of", ("no number",), None))
    lines = path.read_text().splitlines()
    assert len(lines) == LINES_PER_PERIOD + 1
    assert lines[0].endswith("WARNING Transient error, retrying in 0s")
    assert lines[-1].endswith("ERROR %d of")
    close_log()
    assert ours(logging.getLogger("gua")) == ours(logging.getLogger()) == []


def test_opening_it_again_does_not_double_the_lines(path: Path) -> None:
    open_log(path)
    open_log(path).info("once")
    assert len(path.read_text().splitlines()) == 1


def test_a_failure_is_logged_once_and_its_end_once() -> None:
    told, time = RecordingLogger(), Time()
    changes = Changes(told, monotonic=time)
    changes.works("endpoint", "never failed")
    for _ in range(100):
        changes.failed("endpoint", "endpoint down")
        time.now += 30
    changes.works("endpoint", "endpoint is back")
    changes.works("endpoint", "endpoint is back")
    assert told.lines == ["WARNING endpoint down", "INFO endpoint is back"]


def test_a_continuing_failure_is_logged_once_an_hour() -> None:
    told, time = RecordingLogger(), Time()
    changes = Changes(told, monotonic=time)
    for _ in range(24 * 120):
        changes.failed("endpoint", "endpoint down")
        time.now += 30
    assert told.lines == ["WARNING endpoint down"] * 24


def test_another_kind_of_failure_is_logged_and_subjects_are_independent() -> None:
    told, time = RecordingLogger(), Time()
    changes = Changes(told, monotonic=time)
    changes.failed("GPU-a", "card lost", kind="lost")
    changes.failed("GPU-a", "card lost, seen 2 times", kind="lost")
    changes.failed("GPU-a", "no permission", kind="permission")
    changes.failed("GPU-b", "card lost", kind="lost")
    assert told.lines == ["WARNING card lost", "WARNING no permission", "WARNING card lost"]


def test_what_changes_at_every_tick_does_not_fill_the_log() -> None:
    told, time = RecordingLogger(), Time()
    changes = Changes(told, monotonic=time)
    for _ in range(2 * 3600):
        changes.failed("spool", "refused")
        changes.works("spool", "took it")
        time.now += 1
    assert 2 * LINES_PER_PERIOD <= len(told.lines) <= 3 * LINES_PER_PERIOD
    assert any(re.search(r"\(\d+ changes before this one were not logged\)", line) for line in told.lines)


def test_any_number_of_subjects_takes_bounded_memory_and_lines() -> None:
    told, time = RecordingLogger(), Time()
    changes = Changes(told, monotonic=time)
    for number in range(10_000):
        changes.failed(f"subject {number}", f"failed {number}", kind=str(number))
    assert len(told.lines) <= MAX_SUBJECTS + LINES_PER_PERIOD
    for number in range(MAX_SUBJECTS):
        changes.works(f"subject {number}", "fine")
    time.now += 7_200
    changes.failed("new", "failed")
    assert told.lines[-1] == "WARNING failed"


def test_threads_may_log_at_the_same_time() -> None:
    told = RecordingLogger()
    changes = Changes(told, monotonic=Time())
    threads = [
        threading.Thread(target=lambda: [changes.failed("endpoint", "down") for _ in range(200)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told.lines == ["WARNING down"]
