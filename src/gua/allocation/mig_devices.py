"""Device files of MIG instances: which instance the files of a Slurm GRES belong to.

An instance has the files of its GPU (``/dev/nvidia0``), its GPU instance and its compute instance
(``/dev/nvidia-caps/nvidia-cap31``). The driver lists the numbers below ``driver/nvidia/capabilities`` of procfs
(https://docs.nvidia.com/datacenter/tesla/mig-user-guide/).
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gua.allocation.card_names import CardTable
from gua.core.allocation import CardKey

CAPABILITIES: Final = Path("driver/nvidia/capabilities")
_GPU: Final = re.compile(r".*/nvidia([0-9]{1,4})")
_CAPABILITY: Final = re.compile(r".*/nvidia-cap([0-9]{1,9})")
_ACCESS: Final = re.compile(rb"^DeviceFileMinor:\s*([0-9]{1,9})\s*$", re.MULTILINE)


def find_devices(files: Iterable[str], table: CardTable) -> frozenset[str]:
    """Return the UUIDs of the cards with these device files; none unless each GPU's file fits one of the cards."""
    gpus: set[int | None] = set()
    capabilities: set[int] = set()
    for file in files:
        if match := _CAPABILITY.fullmatch(file):
            capabilities.add(int(match[1]))
        elif match := _GPU.fullmatch(file):
            gpus.add(int(match[1]))
    instances = [table.mig_devices[number] for number in capabilities & table.mig_devices.keys()]
    whole = {card.minor: card.uuid for card in table.whole()}
    partitioned = {card.minor for card in instances}
    if bool(capabilities) is not bool(instances) or not partitioned <= gpus <= partitioned | whole.keys():
        return frozenset()
    return frozenset(card.uuid for card in instances) | frozenset(whole[gpu] for gpu in gpus - partitioned)


def read_mig_devices(procfs: Path, instances: Iterable[CardKey]) -> Mapping[int, CardKey]:
    """Return the instances by the number of their compute instance's file, if it is readable and not shared."""
    numbers: dict[int, CardKey | None] = {}
    for card in instances:
        name = f"gpu{card.minor}/mig/gi{card.gpu_instance_id}/ci{card.compute_instance_id}/access"
        with suppress(OSError), (procfs / CAPABILITIES / name).open("rb") as file:
            if match := _ACCESS.search(file.read(4096)):
                numbers[int(match[1])] = None if int(match[1]) in numbers else card
    return {number: card for number, card in numbers.items() if card is not None}


def list_instances(procfs: Path) -> frozenset[str]:
    """Return the compute instances that the driver lists in procfs, as in ``gpu0/mig/gi7/ci0``."""
    folder = procfs / CAPABILITIES
    return frozenset(str(path.relative_to(folder)) for path in folder.glob("gpu*/mig/gi*/ci*"))
