"""Which cards are meant by the names that sources give them: files and Slurm, device plugins and DRA drivers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gua.allocation.pod_resources import ClaimedDevice, Device
from gua.core.allocation import CardKey

_PCI: Final = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")


@dataclass(frozen=True, slots=True)
class CardName:
    """A card by one of its names: ``kind`` is uuid, index, minor, pci, or gres (a place in Slurm's gres.conf).

    ``instance`` is the id of a GPU instance on it, ``None`` for the whole card.
    """

    kind: str
    value: str | int
    instance: int | None = None

    def __str__(self) -> str:
        name = str(self.value) if self.kind == "uuid" else f"{self.kind} {self.value}"
        return name if self.instance is None else f"{name} instance {self.instance}"


class CardTable:
    """The cards of the host by all their names."""

    def __init__(self, cards: Sequence[CardKey]) -> None:
        self.cards = tuple(cards)
        self.uuids = frozenset(card.uuid for card in cards)
        whole = [card for card in cards if card.parent is None]
        self.has_instances = len(whole) < len(self.cards)
        self._by_name: dict[tuple[str, str | int], str] = {("uuid", card.uuid): card.uuid for card in cards}
        for card in whole:
            if card.gpu_index is not None:
                self._by_name["index", card.gpu_index] = card.uuid
            if card.minor is not None:
                self._by_name["minor", card.minor] = card.uuid
            pci = None if card.pci is None else plain_pci(card.pci)
            if pci is not None:
                self._by_name["pci", pci] = card.uuid
        self._instances: dict[tuple[str, int], set[str]] = {}
        for card in cards:
            if card.parent is not None and card.gpu_instance_id is not None:
                self._instances.setdefault((card.parent, card.gpu_instance_id), set()).add(card.uuid)

    def find(self, name: CardName) -> frozenset[str]:
        """Return the UUIDs that are meant, none if there is no such card. ``gres`` is not known here."""
        uuid = self._by_name.get((name.kind, name.value))
        if uuid is None:
            return frozenset()
        if name.instance is None:
            return frozenset({uuid})
        return frozenset(self._instances.get((uuid, name.instance), ()))

    def by_index(self) -> list[CardKey]:
        """Return the whole cards in the driver's order, which is that of the PCI bus."""
        whole = [card for card in self.cards if card.parent is None and card.gpu_index is not None]
        return sorted(whole, key=lambda card: card.gpu_index or 0)


def plain_pci(text: str) -> str | None:
    """Return a PCI address with 8 digits of domain, as the driver writes it; ``None`` if it is none."""
    match = _PCI.fullmatch(text.lower())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):08x}:{bus}:{device}.{function}"


_LONGEST_SHOWN: Final = 64
DRA_DRIVER: Final = "gpu.nvidia.com"
# nvidia.com/gpu, nvidia.com/mig-1g.5gb, and both as they are called where a plugin shares cards.
_RESOURCE: Final = re.compile(r"nvidia\.com/(?:gpu|mig-[-.a-z0-9]+)(?:\.shared)?")
# A card shared in time, or by MPS, has several ids: https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus,
# and GKE's: https://github.com/GoogleCloudPlatform/container-engine-accelerators.
_SLOT: Final = re.compile(r"(?:::[0-9]+|/vgpu[0-9]+)$")
_UUID: Final = re.compile(r"(?:GPU|MIG)-[-0-9a-fA-F]+")
_OLD_INSTANCE: Final = re.compile(r"MIG-(GPU-[-0-9a-fA-F]+)/([0-9]{1,3})/[0-9]{1,3}")
_GKE: Final = re.compile(r"nvidia([0-9]{1,4})(?:/gi([0-9]{1,3}))?")
_INDEX: Final = re.compile(r"[0-9]{1,4}")
_INDEX_OF_INSTANCE: Final = re.compile(r"([0-9]{1,4}):[0-9]{1,3}")
_DRA_NAME: Final = re.compile(r"gpu-([0-9]{1,4})(-mig-[-.a-z0-9]+)?")
# Given to a virtual machine as a whole, so the driver here does not have it.
_DRA_PASSED_ON: Final = re.compile(r"gpu-vfio-[0-9]{1,4}")
# Where the driver names devices by UUID, and in names for the container's runtime.
_DRA_UUID: Final = re.compile(
    r"(?:gpu|mig)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)


class UnknownDeviceError(Exception):
    """A device of a resource of GPUs that is none of this host's cards."""

    def __init__(self, id_: str) -> None:
        super().__init__(f"device {id_[:_LONGEST_SHOWN]!r} is no card of this host")


class Cards:
    """This host's cards, to be found by what Kubernetes calls them.

    What is asked for is answered as UUIDs: one, if it is certain which card it is, several, if it may be any of them.
    """

    def __init__(self, cards: Sequence[CardKey]) -> None:
        self._cards = cards
        self._by_uuid = {card.uuid.lower(): card for card in cards}
        self._parents = {card.parent for card in cards if card.parent is not None}

    @property
    def uuids(self) -> frozenset[str]:
        """All UUIDs."""
        return _uuids(self._cards)

    def whole(self) -> list[CardKey]:
        """Return the cards that are whole GPUs and not partitioned."""
        return [card for card in self._cards if card.parent is None and card.uuid not in self._parents]

    def instances(self) -> list[CardKey]:
        """Return the MIG instances."""
        return [card for card in self._cards if card.parent is not None]

    def of_device(self, device: Device) -> frozenset[str]:
        """Return the card of a plugin's id; nothing for resources that are no GPUs. Raises UnknownDeviceError."""
        name = _SLOT.sub("", device.id)
        found = self._of_id(name)
        if _RESOURCE.fullmatch(device.resource):
            if found:
                return found
            raise UnknownDeviceError(device.id)
        # A plugin may call its resources anything: a UUID of one of the cards is that card.
        return found if _UUID.fullmatch(name) else frozenset()

    def of_claim(self, device: ClaimedDevice) -> frozenset[str]:
        """Return the card of a claimed device; nothing for other drivers. Raises UnknownDeviceError."""
        if device.driver != DRA_DRIVER:
            return frozenset()
        uuids = (uuid for text in (device.name, *device.cdi) for uuid in _DRA_UUID.findall(text))
        for uuid in uuids:
            if uuid.lower() in self._by_uuid:
                return frozenset({self._by_uuid[uuid.lower()].uuid})
        if _DRA_PASSED_ON.fullmatch(device.name):
            return frozenset()
        named = _DRA_NAME.fullmatch(device.name)
        found = self._of_number(int(named.group(1)), is_instance=named.group(2) is not None) if named else None
        if not found:
            raise UnknownDeviceError(device.name)
        return _uuids(found)

    def _of_id(self, name: str) -> frozenset[str]:
        if name.lower() in self._by_uuid:
            return frozenset({self._by_uuid[name.lower()].uuid})
        if match := _OLD_INSTANCE.fullmatch(name):
            return _uuids(self._instances_of([match.group(1)], int(match.group(2))))
        if match := _GKE.fullmatch(name):
            gpus = [card.uuid for card in self._gpus() if card.minor == int(match.group(1))]
            return frozenset(gpus) if match.group(2) is None else _uuids(self._instances_of(gpus, int(match.group(2))))
        if _INDEX.fullmatch(name):
            return _uuids(card for card in self._gpus() if card.gpu_index == int(name))
        if match := _INDEX_OF_INSTANCE.fullmatch(name):
            return _uuids(
                self._instances_of([card.uuid for card in self._gpus() if card.gpu_index == int(match.group(1))])
            )
        return frozenset()

    def _gpus(self) -> list[CardKey]:
        return [card for card in self._cards if card.parent is None]

    def _instances_of(self, gpus: Iterable[str], gpu_instance_id: int | None = None) -> list[CardKey]:
        parents = {uuid.lower() for uuid in gpus}
        return [
            card
            for card in self.instances()
            if card.parent is not None
            and card.parent.lower() in parents
            and gpu_instance_id in {None, card.gpu_instance_id}
        ]

    def _of_number(self, number: int, *, is_instance: bool) -> list[CardKey]:
        """Return the cards that ``gpu-N`` may be: by the device file's number, or by index in drivers before 25.8.

        An instance is told by its profile and place, which may be any of the GPU's.
        """
        gpus = [card for card in self._gpus() if number in {card.minor, card.gpu_index}]
        return self._instances_of(card.uuid for card in gpus) if is_instance else gpus


def _uuids(cards: Iterable[CardKey]) -> frozenset[str]:
    return frozenset(card.uuid for card in cards)
