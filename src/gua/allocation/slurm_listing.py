"""Slurm's own order of a node's GPUs, by ``slurmd -G``: where gres.conf alone does not decide it.

``slurmd -G`` merges gres.conf with slurm.conf and the devices that AutoDetect finds. It gets its own cgroup.conf and
not the rights of root: with the site's file it changes cgroups as root, and refuses other users under cgroup v2.
"""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from gua.allocation.mig_devices import list_instances
from gua.allocation.slurm_conf import PLACES, GresConf, GresOrder, expand, parse_settings, read_included, to_minors
from gua.allocation.slurm_poll import CommandError, run_command

_SECONDS: Final = 10.0
_NOBODY: Final = 65_534
_RETRY_LOOKS: Final = 10
_NEWER_SECONDS: Final = 60  # a starting slurmd creates device files, too
_CONFIGLESS: Final = PLACES[1]  # a starting slurmd writes these files
_SHOWN: Final = re.compile(r" Gres=(\S*) .* SlurmdStartTime=([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})")
_NO_TYPE: Final = "(null)"
_GPUS: Final = re.compile(r"(?:^|,)gpu(?::([^:,(]+))??(?::([0-9]{1,4}))?(?=[,(]|$)")


def run_slurmd(folder: Path, node: str) -> str:
    """Return the output of ``slurmd -G`` for the configuration in ``folder``. Raises CommandError and OSError."""
    name = Path(os.environ.get("SLURM_CONF", "slurm.conf")).name
    with tempfile.TemporaryDirectory(prefix="gua-gres-") as temporary:
        Path(temporary).chmod(0o755)
        for file in folder.iterdir():
            if file.name != "cgroup.conf":
                Path(temporary, file.name).symlink_to(file)
        own = Path(temporary, "cgroup.conf")
        own.write_text("CgroupPlugin=cgroup/v1\n", "utf-8")
        own.chmod(0o644)
        command = ["slurmd", "-f", f"{temporary}/{name}", "-N", node, "-G"]
        try:
            return run_command(command, seconds=_SECONDS, user=None if os.geteuid() else _NOBODY, with_errors=True)
        except CommandError as error:
            raise CommandError(str(error).replace(temporary, str(folder))) from None


@dataclass(eq=False)
class GresListing:
    """The order by ``slurmd -G``, queried once for each start of slurmd, and again after a failure. For one thread."""

    conf: GresConf
    procfs: Path = Path("/proc")
    run: Callable[[Path, str], str] = run_slurmd

    def __post_init__(self) -> None:
        self._started: str | None = None
        self._facts: object = None
        self._order: GresOrder | None = None
        self._retry_in = 0

    def look(self, node: str, shown: str) -> GresOrder | None:
        """Return the order for a node, ``None`` where gres.conf suffices; ``shown`` is ``scontrol show node -o``."""
        self.conf.refresh()
        file, order, instances = self.conf.read, self.conf.order(node), list_instances(self.procfs)
        if file is None or not (instances or (order.is_merged and not order.detects)):
            return None
        if (node_gres := _SHOWN.search(shown)) is None:
            return GresOrder(problem="Slurm does not show when slurmd started")
        configured = Counter[str]()
        for kind, count in _GPUS.findall(re.sub(r"\([^)]*\)", "", node_gres[1])):
            configured[kind.lower() or _NO_TYPE] += int(count or 1)
        texts: dict[Path, str] = {}
        for name in "gres.conf", Path(os.environ.get("SLURM_CONF", "slurm.conf")).name:
            read_included(file[0].with_name(name), file[0].parent, texts)
        facts = texts, configured, order.detects and instances
        self._retry_in -= 1
        if node_gres[2] != self._started or self._retry_in == 0:
            self._started, self._facts = node_gres[2], facts
            try:
                output = self.run(file[0].parent, node)
                self._order = _parse(output, configured, texts, self._started, is_detected=order.detects)
            except (CommandError, OSError, ValueError) as error:
                problem = str(error)
                if isinstance(error, OSError):
                    problem = f"{error.filename or 'a temporary file'} cannot be used ({error.strerror})"
                self._retry_in, self._order = _RETRY_LOOKS, GresOrder(problem=problem)
        elif facts != self._facts:
            self._retry_in, self._order = 0, GresOrder(problem="GPUs, slurm.conf or gres.conf changed: restart slurmd")
        return self._order


def _parse(
    output: str, configured: Counter[str], conf: Iterable[Path], started: str, *, is_detected: bool
) -> GresOrder:
    """Return the order in the output of ``slurmd -G``. Raises ValueError if the running slurmd may have another."""
    listed = Counter[str]()
    devices: list[tuple[str, ...]] = []
    for settings in parse_settings(output):
        if settings.get("name") == "gpu" and "id" in settings:
            if not re.fullmatch("[0-9]{1,9}", count := settings.get("count", "1")):
                raise ValueError("the output of slurmd -G has an unknown format")
            listed[settings.get("type", _NO_TYPE).lower()] += int(count)
            files = expand(settings.get("file", ""))  # also those of MultipleFiles, whose count is 1
            devices += [(file,) for file in files] if count != "1" else [tuple(files)] if files else []
    if len(devices) != listed.total():
        raise ValueError("slurmd -G lists GPUs without device files")
    if listed.total() != configured.total() or (_NO_TYPE not in listed | configured and listed != configured):
        raise ValueError("slurmd -G lists other GPUs than the controller has: restart slurmd")
    started_at = datetime.fromisoformat(f"{started}+00:00").timestamp()
    # Slurm omits the fraction: other files of the same second may be newer.
    latest = {file: started_at + (file.parent.resolve() == _CONFIGLESS.resolve()) for file in conf}
    if is_detected:
        latest |= {Path(name): started_at + _NEWER_SECONDS for names in devices for name in names}
    for file, end in latest.items():
        if file.stat().st_ctime >= end:
            raise ValueError(f"{file} may be newer than slurmd: restart slurmd")
    return GresOrder(devices=tuple(devices), minors=to_minors(devices))
