"""Another user of this host who runs ``gua``: a real process under another user id, with a home of its own.

The Python of a test run often lies where only its owner may go, below /root say. Then that user gets one of its own
in a folder for everybody: the same files under other names, so that it costs no room and less than a second.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gua
from servers.user import other_uid

# Not needed to query the agent, and large: Python's own extras, the embedded engine with what it declares, and tools.
_LEFT_OUT = ("site-packages", "test", "idlelib", "ensurepip", "config-", "chdb", "pandas", "pyarrow", "numpy", "mypy")


@dataclass(frozen=True)
class SecondUser:
    """A user id that is not the tests' where they run as root, else their own; ``environ`` is all that it has."""

    uid: int
    python: Path
    environ: Mapping[str, str]

    def command(self, *arguments: str | Path) -> list[str]:
        return [str(self.python), "-m", "gua", *map(str, arguments)]

    def start(self, *arguments: str | Path, **environ: str) -> subprocess.Popen[str]:
        """Start a gua command of this user."""
        return subprocess.Popen(
            self.command(*arguments),
            env={**self.environ, **environ},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **_identity(self.uid),
        )

    def run(self, *arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a gua command of this user and return what happened."""
        process = self.start(*arguments, **environ)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def second_user(folder: Path, environ: Mapping[str, str]) -> SecondUser:
    """Return a user with a home below ``folder``, which all users may enter."""
    uid = other_uid()
    home = folder / "second"
    home.mkdir()
    if uid != os.geteuid():
        os.chown(home, uid, uid)
    before = os.umask(0o022)  # everybody may go where the Python lies
    try:
        python, paths = _python_for(uid, folder)
    finally:
        os.umask(before)
    return SecondUser(
        uid=uid, python=python, environ={"HOME": str(home), "PATH": os.defpath, "NO_COLOR": "1", **paths, **environ}
    )


def _identity(uid: int) -> dict[str, object]:
    return {} if uid == os.geteuid() else {"user": uid, "group": uid, "extra_groups": ()}


def _python_for(uid: int, folder: Path) -> tuple[Path, dict[str, str]]:
    """Return a Python that this user may run and that finds gua, and the variables that it needs."""
    own = Path(sys.executable)
    if uid == os.geteuid():
        return own, {name: os.environ[name] for name in ("PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    probe = [own, "-c", "import gua.cli.main, ctypes, ssl"]
    with contextlib.suppress(PermissionError):
        if subprocess.run(probe, cwd="/", env={}, capture_output=True, check=False, **_identity(uid)).returncode == 0:
            return own, {}
    base, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    made = folder / "python"
    _place(own.resolve(), made / "bin" / version)
    _mirror(Path(sysconfig.get_path("stdlib")), made / "lib" / version)
    for library in (base / "lib").glob("libpython*.so*"):
        _place(library, made / "lib" / library.name)
    _mirror(Path(sysconfig.get_path("purelib")), made / "packages")
    package = Path(gua.__file__).parent  # in the checkout, for an editable installation
    _mirror(package, made / "packages" / package.name)
    return made / "bin" / version, {"PYTHONPATH": str(made / "packages"), "LD_LIBRARY_PATH": str(made / "lib")}


def _mirror(source: Path, target: Path) -> None:
    for place, folders, files in os.walk(source):
        folders[:] = [name for name in folders if not name.startswith(_LEFT_OUT)]
        for name in files:
            _place(Path(place, name), target / Path(place).relative_to(source) / name)


def _place(source: Path, target: Path) -> None:
    """Give a file a second name which everybody may reach, or copy it where that cannot be."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    source = source.resolve()
    try:
        if not source.stat().st_mode & 0o004:
            raise PermissionError
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)
        target.chmod(0o644 | source.stat().st_mode & 0o111)
