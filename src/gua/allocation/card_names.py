"""Resolution of card names from allocation files, Slurm, device plugins and DRA drivers to UUIDs."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from gua.allocation.pod_resources import ClaimedDevice, Device
from gua.core.allocation import CardKey

_PCI: Final = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_LONGEST_SHOWN: Final = 64
DRA_DRIVER: Final = "gpu.nvidia.com"
# nvidia.com/gpu, nvidia.com/mig-1g.5gb, and both with the suffix of shared cards.
_RESOURCE: Final = re.compile(r"nvidia\.com/(?:gpu|mig-[-.a-z0-9]+)(?:\.shared)?")
# With time-slicing or MPS a card has several ids: https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus;
# on GKE: https://github.com/GoogleCloudPlatform/container-engine-accelerators.
_SLOT: Final = re.compile(r"(?:::[0-9]+|/vgpu[0-9]+)$")
_UUID: Final = re.compile(r"(?:GPU|MIG)-[-0-9a-fA-F]+")
_OLD_INSTANCE: Final = re.compile(r"MIG-(GPU-[-0-9a-fA-F]+)/([0-9]{1,3})/[0-9]{1,3}")
_GKE: Final = re.compile(r"nvidia([0-9]{1,4})(?:/gi([0-9]{1,3}))?")
_INDEX: Final = re.compile(r"([0-9]{1,4})(:[0-9]{1,3})?")  # GPU index, MIG instance
_DRA_NAME: Final = re.compile(r"gpu-([0-9]{1,4})(-mig-[-.a-z0-9]+)?")
# Passed through to a virtual machine, so this host's driver does not have it.
_DRA_PASSED_ON: Final = re.compile(r"gpu-vfio-[0-9]{1,4}")
# DRA drivers may name devices by UUID; CDI names contain it, too.
_DRA_UUID: Final = re.compile(
    r"(?:gpu|mig)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class CardName:
    """A name of a card: ``kind`` is uuid, index, minor, pci, or gres (index in Slurm's gres.conf).

    ``instance`` is the id of a GPU instance (MIG) on it, ``None`` for the whole card.
    """

    kind: str
    value: str | int
    instance: int | None = None

    def __str__(self) -> str:
        name = str(self.value) if self.kind == "uuid" else f"{self.kind} {self.value}"
        return name if self.instance is None else f"{name} instance {self.instance}"


class UnknownDeviceError(Exception):
    """A device of a GPU resource is not a card of this host."""

    def __init__(self, id_: str) -> None:
        super().__init__(f"device {id_[:_LONGEST_SHOWN]!r} is no card of this host")


class CardTable:
    """Index of the host's cards by all their names.

    Lookups return UUIDs: one if the card is certain, several if it may be any of them. ``mig_devices`` are the MIG
    instances by the number of their compute instance's device file, where Slurm's GPUs are looked up.
    """

    def __init__(self, cards: Sequence[CardKey]) -> None:
        self.cards = tuple(cards)
        self.uuids = frozenset(card.uuid for card in cards)
        self.gpus = [card for card in cards if card.parent is None]
        self.has_instances = len(self.gpus) < len(self.cards)
        self.mig_devices: Mapping[int, CardKey] = {}
        self._by_name: dict[tuple[str, str | int | None], str] = {
            ("uuid", card.uuid.lower()): card.uuid for card in cards
        }
        for card in self.gpus:
            pci = None if card.pci is None else plain_pci(card.pci)
            for name in ("index", card.gpu_index), ("minor", card.minor), ("pci", pci):
                self._by_name[name] = card.uuid

    def whole(self) -> list[CardKey]:
        """Return the GPUs without MIG instances."""
        parents = {card.parent for card in self.cards}
        return [card for card in self.gpus if card.uuid not in parents]

    def instances(self) -> list[CardKey]:
        """Return the MIG instances."""
        return [card for card in self.cards if card.parent is not None]

    def find(self, name: CardName) -> frozenset[str]:
        """Return the UUIDs of the named card or instance, none if it does not exist. ``gres`` never matches."""
        uuid = self._by_name.get((name.kind, name.value.lower() if isinstance(name.value, str) else name.value))
        gpus = frozenset[str]() if uuid is None else frozenset({uuid})
        return gpus if name.instance is None else self._instances_of(gpus, name.instance)

    def find_device(self, device: Device | ClaimedDevice) -> frozenset[str]:
        """Return the UUIDs that a device plugin's or DRA driver's device may be; none if it is no GPU.

        Raises UnknownDeviceError for a GPU that is not a card of this host.
        """
        if isinstance(device, ClaimedDevice):
            return self._find_claimed(device)
        id_ = _SLOT.sub("", device.id)
        uuids = self._find_id(id_)
        if _RESOURCE.fullmatch(device.resource):
            if uuids:
                return uuids
            raise UnknownDeviceError(device.id)
        # Resource names are free: a UUID of one of the cards identifies it under any resource name.
        return uuids if _UUID.fullmatch(id_) else frozenset()

    def _find_claimed(self, device: ClaimedDevice) -> frozenset[str]:
        if device.driver != DRA_DRIVER:
            return frozenset()
        for uuid in (uuid for text in (device.name, *device.cdi) for uuid in _DRA_UUID.findall(text)):
            if uuids := self.find(CardName("uuid", uuid)):
                return uuids
        if _DRA_PASSED_ON.fullmatch(device.name):
            return frozenset()
        if named := _DRA_NAME.fullmatch(device.name):
            # The number is the minor number, or the index in drivers before 25.8. Instances are named by profile and
            # placement, so any instance of the GPU may match.
            number = int(named[1])
            gpus = self.find(CardName("minor", number)) | self.find(CardName("index", number))
            if uuids := self._instances_of(gpus) if named[2] else gpus:
                return uuids
        raise UnknownDeviceError(device.name)

    def _find_id(self, id_: str) -> frozenset[str]:
        if match := _OLD_INSTANCE.fullmatch(id_):
            return self.find(CardName("uuid", match[1], int(match[2])))
        if match := _GKE.fullmatch(id_):
            return self.find(CardName("minor", int(match[1]), int(match[2]) if match[2] else None))
        if match := _INDEX.fullmatch(id_):
            gpus = self.find(CardName("index", int(match[1])))
            return self._instances_of(gpus) if match[2] else gpus
        return self.find(CardName("uuid", id_))

    def _instances_of(self, gpus: AbstractSet[str], instance: int | None = None) -> frozenset[str]:
        """Return the UUIDs of the GPU instance with this id on these GPUs, of all their instances without an id."""
        of_gpus = [card for card in self.instances() if card.parent in gpus]
        return frozenset(card.uuid for card in of_gpus if instance in {None, card.gpu_instance_id})


def plain_pci(text: str) -> str | None:
    """Return a PCI address in NVML's form, with a domain of 8 hex digits; ``None`` if it is not a PCI address."""
    match = _PCI.fullmatch(text.lower())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):08x}:{bus}:{device}.{function}"
