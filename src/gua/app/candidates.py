"""The cards as a grant needs them: read from the driver now, each with why it cannot be given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gua.core.errors import UnavailableError
from gua.core.facts import card_facts
from gua.core.ports import CardReader, ProcessFacts, RawCard
from gua.core.rules import Reason, Rules, State, classify
from gua.core.tick import CardReading, ProcessReading
from gua.core.words import Mig, ProcessType
from gua.reservations.model import Candidate

_GIB: Final = 2**30
_RULES: Final = Rules()
_MOST_NAMED: Final = 3
_WHY_UNKNOWN: Final = {
    Reason.UTILIZATION: "is unknown: its utilization cannot be read",
    Reason.PID_NAMESPACE: "is unknown: the agent does not see the host's processes",
    Reason.PROCESSES: "is unknown: its processes cannot be read",
    Reason.MEMORY: "is unknown: the memory of one of its processes cannot be read",
}


class Candidates:
    """Reads the cards for grants; safe for threads, and apart from the agent's own reading of them.

    ``promised`` says, by UUID, to whom a scheduler gave a card, or the GPU that it is a part of; set it before anybody
    asks.
    """

    def __init__(
        self,
        cards: CardReader,
        processes: ProcessFacts,
        *,
        seen_by_host: bool,
        rules: Rules = _RULES,
    ) -> None:
        self._cards = cards
        self._processes = processes
        self._seen_by_host = seen_by_host
        self.promised: Callable[[], Mapping[str, str]] = dict
        self._rules = rules
        self._lock = threading.Lock()

    def read(self) -> Sequence[Candidate]:
        """Return every card. Raises UnavailableError if none can be read."""
        with self._lock:
            raws, _ = self._cards.read()
            promised = self.promised()
            found = [self._candidate(raw, _promised(raw.reading, promised)) for raw in raws]
        if not found:
            msg = "no card can be read now: see gua status"
            raise UnavailableError(msg)
        return found

    def close(self) -> None:
        """Release the driver."""
        with self._lock:
            self._cards.close()

    def _candidate(self, raw: RawCard, promised: str | None) -> Candidate:
        card = raw.reading
        processes = tuple(self._processes.identify(process) for process in raw.processes)
        counted = [process for process in processes if process.type is not ProcessType.IGNORED]
        verdict = classify(card_facts(_with(raw, processes)), self._rules)
        refusal, may_be_accepted = None, False
        if card.mig is Mig.PARENT:
            refusal = "is partitioned: name one of its instances"
        elif verdict.reason is Reason.LOST:
            refusal = "is lost or needs a reset"
        elif promised is not None:
            refusal = promised
        elif counted:
            refusal = f"is held by {_named(counted)}"
        elif verdict.state is State.UNKNOWN:
            refusal = _WHY_UNKNOWN.get(verdict.reason or Reason.PROCESSES, _WHY_UNKNOWN[Reason.PROCESSES])
            may_be_accepted = True
        elif verdict.state is not State.TRULY_IDLE:
            refusal = "is held by a process that nobody lists"
        elif not self._seen_by_host:
            refusal, may_be_accepted = _WHY_UNKNOWN[Reason.PID_NAMESPACE], True
        return Candidate(
            uuid=card.uuid,
            index=-1 if card.index is None else card.index,
            model=card.model,
            whole=card.mig in {None, Mig.NONE},
            refusal=refusal,
            may_be_accepted=may_be_accepted,
            uids=frozenset(process.uid for process in counted if process.uid is not None),
            containers=frozenset(process.container_id for process in counted if process.container_id is not None),
            parent=card.parent,
            held_by=_named(counted) if counted else None,
        )


def _promised(card: CardReading, promised: Mapping[str, str]) -> str | None:
    return next((promised[uuid] for uuid in (card.uuid, card.parent) if uuid is not None and uuid in promised), None)


def _with(raw: RawCard, processes: tuple[ProcessReading, ...]) -> CardReading:
    return replace(raw.reading, processes=processes)


def _named(processes: Sequence[ProcessReading]) -> str:
    """Return who holds a card, the largest first."""
    ranked = sorted(processes, key=lambda process: -(process.memory_bytes or 0))
    names = [
        f"{_user(process)} ({process.comm or 'unknown'}{_size(process.memory_bytes)})"
        for process in ranked[:_MOST_NAMED]
    ]
    more = len(ranked) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _user(process: ProcessReading) -> str:
    return process.owner or ("an unknown user" if process.uid is None else f"uid {process.uid}")


def _size(memory_bytes: int | None) -> str:
    return "" if memory_bytes is None else f" {memory_bytes / _GIB:.1f} GiB"
