"""The open door: allocations that anybody on the host who is trusted tells by a file."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gua.allocation.file_format import FileAllocation
from gua.allocation.folder import AllocationFolder, Tables, allocation_of, merged
from gua.allocation.gres_conf import GresConf
from gua.allocation.reader import ReaderLook
from gua.core.allocation import Allocation, CardKey

FILES: Final = "files"


class FilesReader:
    """What the files of the folder tell; those whose names ``without`` says are another reader's."""

    name = FILES

    def __init__(
        self,
        folder: AllocationFolder,
        *,
        without: Callable[[str], bool] = lambda _: False,
        conf: GresConf | None = None,
    ) -> None:
        self._folder = folder
        self._without = without
        self._conf = GresConf() if conf is None else conf
        self._tables = Tables()
        self._memo: Memo | None = None

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
        """Return the allocations; a bad file or an unknown card fails the source, and costs no other file."""
        look = self._folder.look(since_ms, now_ms)
        if look.reason is not None:
            return ReaderLook(reason=look.reason)
        table = self._tables.of(cards)
        self._conf.refresh()
        basis = (look, table, self._conf.version)
        if self._memo is not None and self._memo.holds(basis, since_ms):
            return self._memo.look
        begun = {name: each for name, each in look.told.items() if not (self._without(name) or each.is_to_come(now_ms))}
        told, wrong = merged(begun, since_ms)
        troubles = [f"{name}: {why}" for name, why in sorted(look.bad.items()) if not self._without(name)]
        troubles += [] if wrong is None else [wrong]
        allocations: list[Allocation] = []
        for name, each in told.items():
            uuids, missing = self._conf.order(each.node).find(table, each.cards)
            if missing is not None:
                troubles.append(f"{name}: {missing}")
            if uuids:
                allocations.append(allocation_of(each, uuids))
        found = ReaderLook(allocations=tuple(allocations), reason=first_of(troubles))
        self._memo = Memo.of(basis, since_ms, found, look.told.values())
        return found

    def close(self) -> None:
        """Nothing goes on in the background."""


@dataclass(frozen=True, slots=True)
class Memo:
    """What a reader found, to be found again while what it rests on is the same and nothing in it begins or ends."""

    basis: tuple[object, ...]
    since_ms: int
    look: ReaderLook

    @classmethod
    def of(
        cls, basis: tuple[object, ...], since_ms: int, look: ReaderLook, told: Iterable[FileAllocation]
    ) -> Memo | None:
        """Return the look at what is ``told``, to be remembered; ``None`` if the next one may be another."""
        changes = [each.until_ms for each in look.allocations]
        for each in told:
            changes += [each.until_ms, each.since_ms if each.is_planned else None]
        return None if any(at is not None and at > since_ms for at in changes) else cls(basis, since_ms, look)

    def holds(self, basis: tuple[object, ...], since_ms: int) -> bool:
        """Return whether a look from there on finds the same."""
        return since_ms >= self.since_ms and all(map(operator.is_, basis, self.basis))


def first_of(troubles: Sequence[str]) -> str | None:
    """Return the first trouble, and how many more there are; ``None`` if there is none."""
    if len(troubles) < 2:
        return troubles[0] if troubles else None
    return f"{troubles[0]} (and {len(troubles) - 1} more)"


def found_folder(path: Path) -> str | None:
    """Return what is found of the folder."""
    return f"the folder {path}" if path.is_dir() else None
