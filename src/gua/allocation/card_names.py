"""Which cards are meant by the names that sources give them: UUID, index, minor number, PCI address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
