"""The simulated driver's library, compiled once for each state of its source."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILDS = HERE.parents[1] / ".tools" / "driver"
NAME = "libnvidia-ml.so.1"
# -Werror is left out: a newer compiler's new warning must not fail every test.
COMMAND = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden")
LIBRARIES = ("-lm", "-lpthread")


class CannotBuildError(Exception):
    """The simulated driver cannot be compiled here; the message says why."""


def build() -> Path:
    """Return the folder that holds ``libnvidia-ml.so.1``; compiles it (1 s) if its source changed.

    The library is whole or not there, also where several test runs meet. Raises CannotBuildError.
    """
    sources = sorted(HERE.glob("*.[ch]"))
    digest = hashlib.sha256(" ".join((*COMMAND, *LIBRARIES, platform.machine())).encode())
    for source in sources:
        digest.update(source.name.encode() + source.read_bytes())
    folder = BUILDS / digest.hexdigest()[:16]
    if not (folder / NAME).exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILDS) as scratch:
            made = Path(scratch) / NAME
            _compile([source for source in sources if source.suffix == ".c"], made)
            made.rename(folder / NAME)
    return folder


def _compile(sources: list[Path], library: Path) -> None:
    # As make does: CC may carry options.
    compiler = os.environ.get("CC", "cc").split()
    if not compiler or shutil.which(compiler[0]) is None:
        msg = f"the simulated driver needs a C compiler, and {' '.join(compiler) or 'CC'} is not on PATH: install gcc"
        raise CannotBuildError(msg)
    done = subprocess.run(
        [*compiler, *COMMAND, *map(str, sources), "-o", str(library), *LIBRARIES],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        msg = f"{' '.join(compiler)} could not compile the simulated driver:\n{done.stdout[-4000:]}"
        raise CannotBuildError(msg)


@cache
def calls() -> frozenset[str]:
    """Return the names of the NVML calls that the library answers."""
    found: set[str] = set()
    for source in HERE.glob("*.c"):
        text = source.read_text(encoding="utf-8")
        found.update(re.findall(r"^EXPORT [\w ]+?\*?(nvml\w+)\(", text, re.MULTILINE))
        for name in re.findall(r"^LISTS\((\w+),", text, re.MULTILINE):
            found.update((name, f"{name}_v2", f"{name}_v3"))
    return frozenset(found)
