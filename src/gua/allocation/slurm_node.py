"""Whether this host is a node of Slurm's: a host that only submits jobs must not ask the controller each minute."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path
from typing import Final

from gua.allocation.hostlist import matches

CONF_FILES: Final = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")
_COMMANDS: Final = ("scontrol", "squeue")
_MOST_BYTES: Final = 4 << 20
_PAIR: Final = re.compile(r"([A-Za-z]+)\s*=\s*(\S+)")


def found_node(node: str | None = None, *, procfs: Path = Path("/proc")) -> str | None:
    """Return what makes this host a node, in a few words, or ``None``; ``node`` is its name where that is known.

    It has the commands, and slurmd runs; or slurmd is installed, as it may be started after the agent, and the
    configuration does not list the nodes without this host.
    """
    if not all(map(shutil.which, _COMMANDS)):
        return None
    if _runs(procfs):
        return "slurmd runs, scontrol and squeue"
    conf = _conf()
    if shutil.which("slurmd") is None or conf is None or lists_host(conf, node or platform.node()) is False:
        return None
    return "slurmd, scontrol and squeue"


def lists_host(conf: str, host: str) -> bool | None:
    """Return whether a slurm.conf names the host as a node, by either of its names; ``None`` if it names no node."""
    names = {host, host.partition(".")[0]}
    is_any = False
    for line in conf.replace("\\\n", " ").splitlines():
        pairs = {key.lower(): value for key, value in _PAIR.findall(line.partition("#")[0])}
        node = pairs.get("nodename")
        if node is None or node.upper() == "DEFAULT":
            continue
        is_any = True
        lists = (node, pairs.get("nodehostname", node))
        if any(matches(each, name) for each in lists for name in names):
            return True
    return False if is_any else None


def _runs(procfs: Path) -> bool:
    """Return whether any process that can be seen is slurmd."""
    for entry in os.listdir(procfs):  # noqa: PTH208 - names are enough
        if entry.isdecimal():
            try:
                if (procfs / entry / "comm").read_bytes() == b"slurmd\n":
                    return True
            except OSError:
                continue
    return False


def _conf() -> str | None:
    named = os.environ.get("SLURM_CONF")
    for path in [named] if named else CONF_FILES:
        try:
            with Path(path).open("rb") as file:
                return file.read(_MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
    return None
