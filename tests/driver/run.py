"""Run a command on a simulated driver: `run.py SCENARIO -- COMMAND …`, without a command a shell.

The processes that the scenario wants are started, under its users where that is allowed, and end with the command.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from driver.build import CannotBuildError, build  # noqa: E402 - found through the line above
from driver.scenario import Placeholder, fill, placeholders, replace_text  # noqa: E402 - likewise

USAGE = "usage: run.py SCENARIO [-- COMMAND …]; ready ones: " + ", ".join(
    path.stem for path in sorted((HERE / "scenarios").glob("*.scenario"))
)


def main(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    source = Path(arguments[0])
    if not source.exists():
        source = HERE / "scenarios" / f"{arguments[0]}.scenario"
    command = arguments[2:] if arguments[1:2] == ["--"] else []
    if not source.exists() or (arguments[1:] and not command):
        sys.stderr.write(f"{USAGE}\n")
        return 2
    try:
        library = build()
    except CannotBuildError as error:
        sys.stderr.write(f"run.py: {error}\n")
        return 3
    with tempfile.TemporaryDirectory(prefix="gua-driver-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        return _run(source, command or [os.environ.get("SHELL", "/bin/sh")], library, folder)


def _run(source: Path, command: list[str], library: Path, folder: Path) -> int:
    text = source.read_text(encoding="utf-8")
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for wanted in placeholders(text):
            started[wanted.text] = _start(wanted, folder)
        scenario = folder / source.name
        pids = {placeholder: process.pid for placeholder, process in started.items()}
        replace_text(scenario, fill(text, pids, now=time.time()))
        sys.stderr.write(f"run.py: the scenario is {scenario}; edit it to change the world\n")
        folders = [str(library), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        environment = {"LD_LIBRARY_PATH": os.pathsep.join(folders), "GUA_SIMULATED_DRIVER": str(scenario)}
        # A Ctrl-C is for the command, which shares this terminal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return subprocess.run(
            command,
            env={**os.environ, **environment},
            check=False,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ).returncode
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def _start(wanted: Placeholder, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that sleeps under the wanted name, and as the wanted user if that is possible."""
    sleep = shutil.which("sleep")
    assert sleep is not None, "sleep is not on PATH"
    # A process is named after the file that it runs.
    program = folder / wanted.name
    if not program.exists():
        program.symlink_to(sleep)
    user = None
    if wanted.user is not None and os.geteuid() == 0 and any(wanted.user == one.pw_name for one in pwd.getpwall()):
        user = wanted.user
    return subprocess.Popen(["sleep", "1000000000"], executable=str(program), user=user)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
