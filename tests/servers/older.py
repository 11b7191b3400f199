"""The tool that had this name before, version 1.8.0, from the package index into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from servers.tools import TOOLS

VERSION = "1.8.0"
HOME = TOOLS / f"gpu-usage-audit-{VERSION}"
# It is written for 3.12; a newer one is as good.
PYTHON = ">=3.12"


class CannotInstallError(Exception):
    """Why it cannot be had here."""


def install() -> Path:
    """Return its command, installed into an environment of its own. Raises CannotInstallError."""
    gua = HOME / "bin" / "gua"
    if gua.exists():
        return gua
    uv = TOOLS / "uv" / "bin" / "uv"
    found = str(uv) if uv.exists() else shutil.which("uv")
    if found is None:
        msg = "uv is not here: make setup brings it"
        raise CannotInstallError(msg)
    scratch = HOME.with_name(f"{HOME.name}.{os.getpid()}")
    try:
        _run(found, "venv", "--quiet", "--relocatable", "--python", PYTHON, "--no-python-downloads", str(scratch))
        python = scratch / "bin" / "python"
        package = f"gpu-usage-audit=={VERSION}"
        _run(found, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), package)
        _keep(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return gua


def _keep(scratch: Path) -> None:
    """Rename the environment to HOME, unless another test process installed it in the meantime."""
    try:
        scratch.rename(HOME)
    except OSError:
        if not HOME.is_dir():
            raise


def _run(*command: str) -> None:
    done = subprocess.run(
        command, env={**os.environ, **_pyenv()}, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"{command[1]} ended with {done.returncode}"]
        raise CannotInstallError(lines[0].strip())


def _pyenv() -> dict[str, str]:
    """Return what makes pyenv offer all of its Pythons, where it is used: else it fails for all but one."""
    pyenv = shutil.which("pyenv")
    if pyenv is None:
        return {}
    versions = subprocess.run([pyenv, "versions", "--bare"], capture_output=True, text=True, check=False).stdout.split()
    return {"PYENV_VERSION": ":".join(sorted(versions, reverse=True))}
