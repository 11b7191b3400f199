"""Which card Slurm means by a number.

Slurm counts a node's GPUs by their place in gres.conf: in the order of ``File=`` where that names them, in the order of
the PCI bus where ``AutoDetect=nvml`` finds them (https://slurm.schedmd.com/gres.conf.html). That number stands in
SLURM_JOB_GPUS and after IDX; it is the minor number of the device only where gres.conf names all devices in order.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from gua.allocation.card_names import CardName, CardTable
from gua.allocation.hostlist import expand, matches
from gua.allocation.trusted_files import Stamp, stamp

PLACES: Final = (Path("/etc/slurm"), Path("/run/slurm/conf"), Path("/etc/slurm-llnl"), Path("/usr/local/etc"))
_MOST_BYTES: Final = 1 << 20
_MOST_NODES: Final = 64
_DEVICE: Final = re.compile(r".*?([0-9]+)")
_PAIR: Final = re.compile(r"([A-Za-z]+)\s*=\s*(\S+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class GresOrder:
    """In which order Slurm counts the cards.

    ``minors`` are the minor numbers of its GPUs by its own numbers, ``None`` where no file names them; ``by_pci`` is
    whether Slurm found and ordered them itself. With neither its numbers are taken as minor numbers.
    """

    minors: tuple[int, ...] | None = None
    by_pci: bool = False

    def find(self, table: CardTable, names: Sequence[CardName]) -> tuple[frozenset[str], str | None]:
        """Return the UUIDs of the cards that are meant, and in a few words what is not found."""
        uuids: set[str] = set()
        missing: str | None = None
        for name in names:
            real = self._real(name, table) if name.kind == "gres" else name
            found = frozenset[str]() if real is None else table.find(real)
            uuids |= found
            if not found and missing is None:
                if name.kind == "gres" and table.has_instances:
                    missing = f"Slurm's GPU {name.value} may be any MIG instance"
                else:
                    missing = f"no card {name} here"
        return frozenset(uuids), missing

    def _real(self, name: CardName, table: CardTable) -> CardName | None:
        place = name.value
        if not isinstance(place, int) or table.has_instances:
            return None
        cards = table.by_index()
        if self.minors is not None:
            minors: Iterable[int] = self.minors
            if self.by_pci:
                minors = [card.minor for card in cards if card.minor is not None and card.minor in self.minors]
            ordered = list(minors)
            return CardName("minor", ordered[place]) if place < len(ordered) else None
        if self.by_pci:
            return CardName("uuid", cards[place].uuid) if place < len(cards) else None
        return CardName("minor", place)


class GresConf:
    """This host's gres.conf, in ``folder`` or where Slurm looks for it. To be used from one thread.

    ``node`` is the host's name in Slurm where nothing else tells it. ``version`` changes with the file.
    """

    def __init__(self, folder: Path | None = None, *, node: str | None = None) -> None:
        self._own = () if folder is None else (folder / "gres.conf",)
        self._node = node
        self._read: tuple[Path, Stamp, str] | None = None
        self._orders: dict[str | None, GresOrder] = {}
        self.version = 0

    def refresh(self) -> None:
        """Read the file if it changed."""
        for file in self._own or _files(os.environ.get("SLURM_CONF")):
            try:
                now = stamp(os.stat(file))  # noqa: PTH116 - in each tick, at each of the places
                if self._read is None or self._read[:2] != (file, now):
                    self._read = file, now, _content(file)
                    self._forget()
            except OSError:
                continue
            return
        if self._read is not None:
            self._read = None
            self._forget()

    def _forget(self) -> None:
        self._orders.clear()
        self.version += 1

    def order(self, node: str | None = None) -> GresOrder:
        """Return the order that the file gives a node, the usual one if there is no such file."""
        node = node or self._node or platform.node().partition(".")[0]
        if node not in self._orders:
            if len(self._orders) > _MOST_NODES:
                self._orders.clear()
            self._orders[node] = GresOrder() if self._read is None else parse_gres_conf(self._read[2], node)
        return self._orders[node]


def _content(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(_MOST_BYTES).decode(errors="replace")


@lru_cache(maxsize=4)  # to put paths together takes longer than to look them up
def _files(slurm_conf: str | None) -> tuple[Path, ...]:
    places = [*([Path(slurm_conf).parent] if slurm_conf else []), *PLACES]
    return tuple(place / "gres.conf" for place in places)


def parse_gres_conf(text: str, node: str | None) -> GresOrder:
    """Return the order of the GPUs of a node; lines for other nodes are left out."""
    minors: list[int] = []
    is_named = by_pci = False
    for line in text.splitlines():
        pairs = {key.lower(): value for key, value in _PAIR.findall(line.partition("#")[0])}
        nodes = pairs.get("nodename")
        if nodes is not None and (node is None or not matches(nodes, node)):
            continue
        detect = pairs.get("autodetect")
        if detect is not None:
            by_pci = detect.lower() == "nvml"
        if pairs.get("name", "").lower() == "gpu" and "file" in pairs:
            is_named = True
            minors += [int(match[1]) for match in map(_DEVICE.fullmatch, expand(pairs["file"])) if match is not None]
    return GresOrder(minors=tuple(minors) if is_named else None, by_pci=by_pci)
