"""Whether the embedded engine is installed, and what installs it here. Nothing of it is imported."""

from __future__ import annotations

import shlex
import sys
from importlib import util
from typing import Final

_MODULE: Final = "chdb"
_EXTRA: Final = 'extra == "local"'


def is_installed() -> bool:
    """Return whether this Python finds the engine."""
    return util.find_spec(_MODULE) is not None


def install_command() -> str:
    """Return what adds the engine to this very environment, whatever made that: pip, or uv where it has no pip."""
    from importlib import metadata  # noqa: PLC0415 - reads mail headers, and is asked only where the engine is not there

    told = metadata.requires("gua-otel") or []
    engine = next((one.partition(";")[0].strip() for one in told if _EXTRA in one.replace("'", '"')), "chdb-core")
    if util.find_spec("pip") is not None:
        return shlex.join([sys.executable, "-m", "pip", "install", engine])
    return shlex.join(["uv", "pip", "install", "--python", sys.executable, engine])
