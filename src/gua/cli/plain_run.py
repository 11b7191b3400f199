"""The usual forms of ``gua run``, read without typer: importing that takes longer than all the rest of a grant.

What is not one of these forms is left to typer, which knows every form and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gua.app.reserving import RunOptions

VALUED: Final = {
    "-g": "gpus",
    "--gpus": "gpus",
    "-G": "gpu_ids",
    "--gpu-ids": "gpu_ids",
    "-n": "note",
    "--note": "note",
    "--label": "label",
    "--timeout": "timeout",
    "--wait": "wait",
    "--visible": "visible",
    "--socket": "socket",
    "--state-dir": "state_dir",
}
"""Options with a value, by the parameter that they set."""
FLAGS: Final = {
    "--nonblock": "nonblock",
    "--accept-unknown": "accept_unknown",
    "--beside-scheduler": "beside_scheduler",
}
_PATHS: Final = frozenset(("socket", "state_dir"))
VARIABLES: Final = frozenset(f"GUA_{name.upper()}" for name in {*VALUED.values(), *FLAGS.values()} - _PATHS)
"""Variables that stand for options, besides the places, which many set for good."""


def plain_options(arguments: Sequence[str], environ: Mapping[str, str]) -> RunOptions | None:
    """Return what the arguments say, ``None`` where typer is to read them."""
    if VARIABLES & environ.keys() or "--" not in arguments:
        return None
    at = list(arguments).index("--")
    found: dict[str, Any] = {"socket": Path(environ["GUA_SOCKET"])} if environ.get("GUA_SOCKET") else {}
    left = iter(arguments[:at])
    for option in left:
        value = next(left, None) if option in VALUED else None
        if option in FLAGS:
            found[FLAGS[option]] = True
        elif value is None or (value.startswith("-") and value != "-"):
            return None
        elif VALUED[option] == "gpus":
            if not (value.isascii() and value.isdecimal()):
                return None
            found["gpus"] = int(value)
        elif VALUED[option] == "label":
            found["label"] = (*found.get("label", ()), value)
        else:
            found[VALUED[option]] = Path(value) if VALUED[option] in _PATHS else value
    return RunOptions(program=tuple(arguments[at + 1 :]), **found) if arguments[at + 1 :] else None
