"""Slurm's configuration of this host: the card for each gres index, and whether the host is a node.

The gres index is a GPU's position in gres.conf: in the order of ``File=`` if that names devices, in PCI bus order
with ``AutoDetect=nvml`` (https://slurm.schedmd.com/gres.conf.html). SLURM_JOB_GPUS and ``IDX:`` contain it. It equals
the device's minor number only if gres.conf names all devices in order. ``slurmd -G`` lists the order where gres.conf
does not decide it: of several types, which slurm.conf orders, and of MIG instances. Without it these are unknown.
"""

import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from gua.allocation.card_names import CardName, CardTable
from gua.allocation.mig_devices import find_devices, read_mig_devices

PLACES: Final = (Path("/etc/slurm"), Path("/run/slurm/conf"), Path("/etc/slurm-llnl"), Path("/usr/local/etc"))
_COMMANDS: Final = ("scontrol", "squeue")
_MOST_BYTES: Final = 4 << 20
_MOST_NAMES: Final = 65_536
_MOST_NODES: Final = 64
_MOST_FILES: Final = 64
_PAIR: Final = re.compile(r"([A-Za-z]+)\s*=\s*(\S+)")
_PART: Final = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")
_RANGE: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_DEVICE: Final = re.compile(r".*?([0-9]+)")
_CONTINUED: Final = re.compile(r"^([^#\n]*)\\\n", re.MULTILINE)
_INCLUDE: Final = re.compile(r"^[ \t]*include[ \t]+([^\s#]*)", re.IGNORECASE | re.MULTILINE)


def expand(text: str) -> list[str]:
    """Return the names in a hostlist such as ``n[01-03,07],login1``, at most 65,536; other text is unchanged."""
    return list(islice((name for part in _PART.findall(text) for name in _names(part)), _MOST_NAMES))


def matches(text: str, name: str) -> bool:
    """Return whether a hostlist contains the name; ``ALL`` contains every name."""
    return text.upper() == "ALL" or name in expand(text)


def _names(part: str) -> Iterator[str]:
    before, bracket, rest = part.partition("[")
    inside, closed, after = rest.partition("]")
    if not bracket or not closed:
        yield part
        return
    for match in filter(None, map(_RANGE.fullmatch, inside.split(","))):
        first, last = match[1], match[2] or match[1]
        for number in range(int(first), int(last) + 1):
            for end in _names(after):
                yield f"{before}{number:0{len(first)}d}{end}"


def parse_settings(text: str) -> Iterator[dict[str, str]]:
    """Yield the ``Key=value`` settings of each line, with its continuations, by lower-case key, without comments."""
    for line in _CONTINUED.sub(r"\1 ", text).splitlines():
        yield {key.lower(): value for key, value in _PAIR.findall(line.partition("#")[0])}


@dataclass(frozen=True, kw_only=True, slots=True)
class GresOrder:
    """Order in which Slurm numbers a node's GPUs.

    ``minors`` are the minor numbers by gres index, ``None`` if no ``File=`` names devices; ``by_pci`` is whether Slurm
    detects and orders them itself. Without either, a gres index is taken as a minor number. ``detects`` is whether any
    AutoDetect is on, ``is_merged`` whether slurm.conf or an unreadable file may change the order. ``devices`` are the
    device files by gres index, ``None`` unless ``slurmd -G`` listed them; ``problem`` is why not, in a few words.
    """

    minors: tuple[int, ...] | None = None
    by_pci: bool = False
    detects: bool = False
    is_merged: bool = False
    devices: tuple[tuple[str, ...], ...] | None = None
    problem: str | None = None

    def find(self, table: CardTable, names: Sequence[CardName]) -> tuple[frozenset[str], str | None]:
        """Return the UUIDs of the named cards, and the first name without a card in a few words, or ``None``."""
        uuids: set[str] = set()
        missing: str | None = None
        for name in names:
            is_gres = name.kind == "gres"
            is_of_mig = is_gres and table.has_instances
            real = self._real(name, table) if is_gres else name
            matching = frozenset[str]() if real is None else table.find(real)
            if is_of_mig:
                matching = find_devices(self._files(name), table)
            uuids |= matching
            if not matching and missing is None:
                if is_of_mig or (is_gres and self.problem is not None):
                    why = self.problem or f"no card here has {','.join(self._files(name))[:120] or 'it'}"
                    missing = f"Slurm's GPU {name.value} may be any {'MIG instance' if is_of_mig else 'card'}: {why}"
                else:
                    missing = f"no card {name} here"
        return frozenset(uuids), missing

    def _files(self, name: CardName) -> tuple[str, ...]:
        if self.devices is None or not isinstance(name.value, int) or name.instance is not None:
            return ()
        return next(iter(self.devices[name.value : name.value + 1]), ())

    def _real(self, name: CardName, table: CardTable) -> CardName | None:
        place = name.value
        if not isinstance(place, int) or table.has_instances or self.problem is not None:
            return None
        if self.by_pci:
            # The index is PCI bus order.
            gpus = sorted((gpu.gpu_index, gpu.uuid, gpu.minor) for gpu in table.gpus if gpu.gpu_index is not None)
            uuids = [uuid for _, uuid, minor in gpus if self.minors is None or minor in self.minors]
            return CardName("uuid", uuids[place]) if place < len(uuids) else None
        if self.minors is not None:
            return CardName("minor", self.minors[place]) if place < len(self.minors) else None
        return CardName("minor", place)


_NOT_LISTED: Final = GresOrder(problem="slurmd -G has not listed its device files")


class GresConf:
    """The gres.conf of this host, in ``folder`` or Slurm's usual places. For one thread.

    ``node`` is the host's default name in Slurm; ``read`` are path and text of the file last read, with included files.
    """

    def __init__(self, folder: Path | None = None, *, node: str | None = None, procfs: Path = Path("/proc")) -> None:
        self._folder = folder
        self._node = node
        self._procfs = procfs
        self._listed = _NOT_LISTED
        self.read: tuple[Path, str] | None = None
        self._orders: dict[str | None, GresOrder] = {}

    def refresh(self, table: CardTable | None = None, listed: GresOrder | None = None) -> None:
        """Read gres.conf again. An unreadable file counts as an Include of it, whose types are unknown.

        ``table`` has the cards that :meth:`find` will search. ``listed`` is the newest order by ``slurmd -G``, if any.
        """
        before, self.read = self.read, None
        slurm_conf = os.environ.get("SLURM_CONF")
        places = (*([Path(slurm_conf).parent] if slurm_conf else []), *PLACES)
        for folder in places if self._folder is None else (self._folder,):
            file = folder / "gres.conf"
            with suppress(OSError):
                file.stat()
                text = read_included(file, folder, {})
                self.read = file, f"Include {file}" if text is None else text
                break
        if self.read != before:
            self._orders.clear()
        self._listed = listed or self._listed
        if table is not None and table.has_instances:
            table.mig_devices = read_mig_devices(self._procfs, table.instances())

    def find(
        self, table: CardTable, names: Sequence[CardName], node: str | None = None
    ) -> tuple[frozenset[str], str | None]:
        """Return the UUIDs of the named cards, and the first name without a card in a few words, or ``None``."""
        order = self.order(node)
        is_listed = table.has_instances or (order.is_merged and not order.detects)
        return (self._listed if is_listed else order).find(table, names)

    def order(self, node: str | None = None) -> GresOrder:
        """Return the order of a node's GPUs by the file last read; the default order without a file."""
        node = node or self._node or platform.node().partition(".")[0]
        if node not in self._orders:
            if len(self._orders) > _MOST_NODES:
                self._orders.clear()
            self._orders[node] = GresOrder() if self.read is None else parse_gres_conf(self.read[1], node)
        return self._orders[node]


def parse_gres_conf(text: str, node: str | None) -> GresOrder:
    """Return the order of a node's GPUs in a gres.conf; lines for other nodes are ignored."""
    shared: list[dict[str, str]] = []  # Slurm reads these lines before the node's own
    own: list[dict[str, str]] = []
    for settings in parse_settings(text):
        nodes = settings.get("nodename")
        if nodes is None or (node is not None and matches(nodes, node)):
            (shared if nodes is None else own).append(settings)
    detections = [each["autodetect"].lower() for each in (*shared, *own) if "autodetect" in each]
    gpus = [each for each in (*shared, *own) if each.get("name", "").lower() == "gpu"]
    files = [file for each in gpus for file in expand(each.get("file", ""))]
    return GresOrder(
        minors=to_minors((file,) for file in files) if files else None,
        by_pci=detections[-1:] == ["nvml"],
        detects=detections[-1:] not in ([], ["off"]),
        is_merged=bool(_INCLUDE.search(text)) or len({each.get("type", "").lower() for each in gpus}) > 1,
    )


def to_minors(devices: Iterable[Sequence[str]]) -> tuple[int, ...]:
    """Return the number of each GPU's device file, -1 for a GPU with another number of files."""
    matches = (_DEVICE.fullmatch(files[0]) if len(files) == 1 else None for files in devices)
    return tuple(-1 if match is None else int(match[1]) for match in matches)


def detect_node(node: str | None = None, *, procfs: Path = Path("/proc")) -> str | None:
    """Return the evidence that this host is a Slurm node, in a few words, or ``None``; ``node`` is its name if known.

    A node has scontrol and squeue, and slurmd runs. As slurmd may start after the agent, it is also enough that it is
    installed and slurm.conf exists, unless that lists other nodes only. Submit hosts must not poll the controller.
    """
    if not all(map(shutil.which, _COMMANDS)):
        return None
    if any(_text(comm) == "slurmd\n" for comm in procfs.glob("[0-9]*/comm")):
        return "slurmd runs, scontrol and squeue"
    named = os.environ.get("SLURM_CONF")
    files = [Path(named)] if named else [place / "slurm.conf" for place in PLACES[:3]]
    conf = next((text for text in map(_text, files) if text is not None), None)
    if shutil.which("slurmd") is None or conf is None or lists_host(conf, node or platform.node()) is False:
        return None
    return "slurmd, scontrol and squeue"


def lists_host(conf: str, host: str) -> bool | None:
    """Return whether a slurm.conf lists the host as a node, by full or short name; ``None`` if it lists no nodes."""
    names = {host, host.partition(".")[0]}
    is_any = False
    for settings in parse_settings(conf):
        node = settings.get("nodename", "DEFAULT")
        if node.upper() == "DEFAULT":
            continue
        is_any = True
        lists = (node, settings.get("nodehostname", node))
        if any(matches(each, name) for each in lists for name in names):
            return True
    return False if is_any else None


def read_included(file: Path, folder: Path, texts: dict[Path, str]) -> str | None:
    """Return a file's text with included files in their places; ``None`` if unreadable, in ``texts`` or one too many.

    The file's own text is added to ``texts``. Relative names are in ``folder``. Include lines without such text remain.
    """
    text = None if file in texts or len(texts) >= _MOST_FILES else _text(file)
    if text is None:
        return None
    texts[file] = text

    def included(line: re.Match[str]) -> str:
        inside = read_included(folder / line[1], folder, texts)
        return line[0] if inside is None else f"{inside}\n"

    return _INCLUDE.sub(included, text)


def _text(file: Path) -> str | None:
    with suppress(OSError, ValueError), file.open("rb") as opened:
        return opened.read(_MOST_BYTES).decode(errors="replace")
    return None
