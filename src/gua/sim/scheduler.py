"""Weekly allocations of the simulated lab's cards, in UTC.

Separate from the habits, as a scheduler does not know how its allocations are used. All names and figures are invented.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gua.core.allocation import Allocation, AllocationLook, SourceHealth
from gua.sim.calendar import FRI, HOUR_MS, MINUTE_MS, MON, NEXT_WEEK, SAT, SUN, THU, TUE, WED, Stretch, clock
from gua.sim.habits import HabitSetting, server, start

NOTEBOOK, TRAINING, INFERENCE, ORPHAN, PARTITIONED, SHARED, TRAINING_TOO, WORKSTATION = range(8)
"""Roles of a round's cards, in card order."""
ROLES: Final = 8

SLURM: Final = "slurm"
KUBERNETES: Final = "kubernetes"
SILENT: Final = Stretch(WED + clock(11), WED + clock(12))
SILENT_REASON: Final = "no answer within 3 s"
"""Reason why Slurm's jobs are unknown for an hour on Wednesday."""

_LEAD_MS: Final = 2 * MINUTE_MS
"""Delay from the start of an allocation to its first process [ms]."""
_DAY: Final = clock(24)


class _Request(NamedTuple):
    """A requested allocation: cards as (role, part), where 0 is a whole card, 2 the second instance; minutes."""

    person: int
    cards: tuple[tuple[int, int], ...]
    start: int
    end: int
    limit: int
    name: str
    has_job_id: bool = False
    """Whether the job's processes have its Slurm job id."""


_NODE: Final = ((TRAINING, 0), (TRAINING_TOO, 0))
_OWN: Final = ((NOTEBOOK, 0), (WORKSTATION, 0))
_SHARED: Final = ((SHARED, 0),)
_WEEK: Final = (
    # Ends before its limit, as most do; the next one hangs from Thursday 18:05.
    _Request(1, _NODE, MON + clock(10, 18), WED + clock(6, 40), 3 * _DAY, "pretrain", has_job_id=True),
    _Request(2, _NODE, WED + clock(9, 13), THU + clock(23, 50), 3 * _DAY, "ablation", has_job_id=True),
    _Request(1, _NODE, FRI + clock(8, 3), SAT + clock(19, 30), 3 * _DAY, "pretrain", has_job_id=True),
    # Crashes: its memory stays on a card that is unallocated then.
    _Request(4, ((ORPHAN, 0),), FRI + clock(17, 58), SAT + clock(3, 10), _DAY, "finetune", has_job_id=True),
    # Requests two cards and uses one; others run a container and a film on the second.
    _Request(0, _OWN, MON + clock(9, 10), NEXT_WEEK + MON + clock(8, 55), 7 * _DAY, "lab"),
    # Never used.
    _Request(10, ((PARTITIONED, 2),), MON + clock(8, 30), SAT + clock(20), 6 * _DAY, "sweep"),
    # Allocated on all working days but Monday, when the card is used without an allocation.
    _Request(5, _SHARED, TUE + clock(10), TUE + clock(18, 15), clock(12), "experiment"),
    _Request(5, _SHARED, WED + clock(10, 35), THU + clock(6, 35), _DAY, "experiment"),
    _Request(5, _SHARED, THU + clock(10), THU + clock(18, 15), clock(12), "experiment"),
    _Request(5, _SHARED, FRI + clock(10), FRI + clock(18, 15), clock(12), "experiment"),
    # Shares that card on two afternoons; on Friday the same person uses it without an allocation.
    _Request(3, _SHARED, TUE + clock(13, 25), TUE + clock(17, 5), clock(6), "debug"),
    _Request(3, _SHARED, THU + clock(13, 25), THU + clock(17, 5), clock(6), "debug"),
)
_SERVER: Final = Stretch(SUN + clock(3, 58), NEXT_WEEK + SUN + clock(3, 58))


class _Recurring(NamedTuple):
    """A weekly allocation; ``allocation`` returns the one that starts at a time [Unix ms]."""

    stretch: Stretch
    source: str
    allocation: Callable[[int], Allocation]


def _job(setting: HabitSetting, request: _Request, cards: frozenset[str], number: int) -> _Recurring:
    """Return a Slurm job with the requested end; ``number`` distinguishes jobs that start in the same hour."""
    owner, uid = setting.person(request.person)
    (stretch,) = setting.late(Stretch(request.start, request.end))

    def allocation(since_ms: int) -> Allocation:
        job_id = str((since_ms + _LEAD_MS) // HOUR_MS)
        return Allocation(
            source=SLURM,
            id=f"{job_id}_{number}" if number else job_id,
            cards=cards,
            since_ms=since_ms,
            until_ms=since_ms + request.limit * MINUTE_MS,
            owner=owner,
            uid=uid,
            kind="job",
            job_name=request.name,
            slurm_job_id=job_id if request.has_job_id else None,
        )

    return _Recurring(stretch, SLURM, allocation)


def _pod(setting: HabitSetting, cards: frozenset[str]) -> _Recurring:
    """Return a pod without end that is redeployed every week; its container starts a little later."""
    program = server(setting)
    (stretch,) = setting.late(_SERVER)

    def allocation(since_ms: int) -> Allocation:
        pod_uid = start(program, since_ms + _LEAD_MS, setting.seed).pod_uid
        return Allocation(
            source=KUBERNETES,
            id=str(pod_uid),
            cards=cards,
            since_ms=since_ms,
            owner=program.owner,
            uid=program.uid,
            kind="pod",
            pod_uid=pod_uid,
            pod_name="llm-0",
            pod_namespace="serving",
        )

    return _Recurring(stretch, KUBERNETES, allocation)


class Scheduler:
    """Schedule of the cards' allocations.

    ``cards`` lists the host's cards: each habit's setting, and the card's UUID followed by those of its instances.
    """

    def __init__(self, cards: Sequence[tuple[HabitSetting, Sequence[str]]]) -> None:
        self._weekly = [
            each for first in range(0, len(cards), ROLES) for each in _make_round(cards[first : first + ROLES])
        ]
        self._newest = AllocationLook()
        self._holds_until_ms = 0

    def look(self, since_ms: int, now_ms: int) -> AllocationLook:
        """Return the allocations that cover any time in (since_ms, now_ms], and the health of the sources.

        Call with ascending times. Returns the same object if nothing changed.
        """
        if now_ms > self._holds_until_ms:
            is_silent = SILENT.begun_ms(now_ms) is not None
            allocations = (
                allocation
                for weekly in self._weekly
                if not (is_silent and weekly.source == SLURM)
                for allocation in _within(weekly, since_ms, now_ms)
            )
            slurm = SourceHealth(source=SLURM, reason=SILENT_REASON if is_silent else None)
            sources = (SourceHealth(source=KUBERNETES), slurm)
            self._newest = AllocationLook(allocations=tuple(allocations), sources=sources)
            stretches = [SILENT, *[weekly.stretch for weekly in self._weekly]]
            ended = any(stretch.ended_ms(now_ms) > since_ms for stretch in stretches)
            self._holds_until_ms = now_ms if ended else min(stretch.changes_ms(now_ms) for stretch in stretches)
        return self._newest


def _make_round(cards: Sequence[tuple[HabitSetting, Sequence[str]]]) -> list[_Recurring]:
    """Return a round's allocations, without those of cards that the host lacks."""
    weekly: list[_Recurring] = []
    setting, _ = cards[0]
    turn = setting.round
    for place, request in enumerate(_WEEK):
        uuids = frozenset(cards[role][1][part] for role, part in request.cards if role < len(cards))
        if uuids:
            number = 0 if request.has_job_id and turn == 0 else 1 + place + turn * len(_WEEK)
            weekly.append(_job(setting, request, uuids, number))
    if len(cards) > INFERENCE:
        of_server, uuids_of_server = cards[INFERENCE]
        weekly.append(_pod(of_server, frozenset(uuids_of_server)))
    return weekly


def _within(weekly: _Recurring, since_ms: int, now_ms: int) -> Iterator[Allocation]:
    """Yield allocations in (since_ms, now_ms]: the one that ended, with its end, then the current one."""
    stretch = weekly.stretch
    begun_ms = stretch.begun_ms(now_ms)
    ended_ms = stretch.ended_ms(now_ms)
    if ended_ms > since_ms:
        yield replace(weekly.allocation(ended_ms - stretch.length_ms), until_ms=ended_ms)
    if begun_ms is not None:
        yield weekly.allocation(begun_ms)
