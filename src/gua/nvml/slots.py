"""Slots for the host's cards: one per driver index with its current job, and card caches by UUID."""

from collections.abc import Sequence
from functools import partial

from gua.core.ports import Clock, RawCard
from gua.core.tick import ReadError
from gua.nvml.calls import Calls, Executor, Job
from gua.nvml.card import CardCache
from gua.nvml.card_read import CardRead, drain
from gua.nvml.driver import Driver, Handle
from gua.nvml.gpm import Gpm

ReadCards = dict[str, Sequence[RawCard]]


class _Slot:
    """A driver index: its last job, and the card that was last at this index."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.handle: Handle | None = None
        self.cache: CardCache | None = None
        self.read: CardRead | None = None
        self.job: Job | None = None

    @property
    def busy(self) -> bool:
        return self.job is not None and not self.job.done


class Slots:
    """Parallel reader of all cards; deadlines ``until`` are times of time.monotonic.

    ``with_activity``: also read their performance counters.
    """

    def __init__(self, driver: Driver, clock: Clock, executor: Executor, *, with_activity: bool = False) -> None:
        self._driver = driver
        self._clock = clock
        self._executor = executor
        self._with_activity = with_activity
        self._slots: list[_Slot] = []
        self._caches: dict[str, CardCache] = {}
        self._forgotten: list[Gpm] = []
        self._abandoned: list[Job] = []

    @property
    def lost(self) -> bool:
        """Whether any card is lost."""
        return any(cache.lost for cache in self._caches.values())

    @property
    def idle(self) -> bool:
        """Whether no thread is inside a driver call. The driver may be released only then."""
        self._abandoned = [job for job in self._abandoned if not job.done]
        return not self._abandoned and not any(slot.busy for slot in self._slots)

    def take_gpms(self) -> list[Gpm]:
        """Return the counters to free before the driver is released; the cards start with new ones."""
        forgotten, self._forgotten = self._forgotten, []
        return [*forgotten, *(gpm for cache in self._caches.values() for gpm in cache.take_gpms())]

    def resize(self, count: int) -> None:
        """Adapt to the driver's number of cards. If it changed, every index may refer to another card."""
        if count == len(self._slots):
            return
        self._abandoned += [slot.job for slot in self._slots[count:] if slot.job is not None]
        del self._slots[count:]
        self._slots += [_Slot(index) for index in range(len(self._slots), count)]
        self.forget_handles()

    def forget_handles(self) -> None:
        """Discard all handles, so that the next reading looks up every card: the driver reopened, or cards moved."""
        for slot in self._slots:
            slot.handle = None

    def read(
        self, version: str | None, read_cards: ReadCards, until: float
    ) -> tuple[list[ReadError], ReadError | None]:
        """Read every card that is not yet in ``read_cards`` into it.

        Return the errors, and the last one that shows that the whole driver is gone, ``None`` without one.
        """
        errors: list[ReadError] = []
        gone: ReadError | None = None
        waiting = [slot for slot in self._slots if slot.cache is None or slot.cache.uuid not in read_cards]
        # Up to three passes: again for slots whose drain had to end first, and for indexes with another card now.
        for _ in range(3):
            done = self._read_once(waiting, version, until)
            waiting = [slot for slot in waiting if slot not in done]
            for slot, read in done.items():
                errors += read.calls.errors
                gone = read.calls.errors[-1] if read.gone else gone
                if read.moved:
                    waiting.append(slot)
                else:
                    self._take(slot, read, read_cards)
            if any(read.moved for read in done.values()):
                self.forget_handles()
            if all(slot.busy for slot in waiting):
                break
        errors += self._no_answers(waiting)
        for error in self._errors_between():
            if error not in errors:
                errors.append(error)
        return errors, gone

    def cards(self, read_cards: ReadCards, *, complete: bool) -> list[RawCard]:
        """Return the cards by index: as read, else with unknown values.

        A card without an index is removed from the cache, unless it is lost or the look was not ``complete``.
        """
        present = {slot.cache.uuid for slot in self._slots if slot.cache is not None}
        for uuid, cache in list(self._caches.items()):
            if complete and uuid not in read_cards and uuid not in present and not cache.lost:
                self._forgotten += self._caches.pop(uuid).take_gpms()
        order = sorted(self._caches.values(), key=lambda cache: (cache.identity.index or 0, cache.lost))
        return [raw for cache in order for raw in read_cards.get(cache.uuid) or cache.unread()]

    def drain(self, until: float) -> None:
        """Read the ring buffers of every whole card until ``until``; slow jobs continue in the background."""
        jobs: list[Job] = []
        for slot in self._slots:
            cache = slot.cache
            if cache is None or slot.busy or cache.partitioned:
                continue
            slot.read = None
            calls = Calls(self._driver, cache.uuid)
            slot.job = Job(calls, partial(drain, calls, slot.index, slot.handle, cache))
            jobs.append(slot.job)
        self._executor.run(jobs, until)

    def wait(self, until: float) -> None:
        """Wait for running jobs, except those that already hung."""
        self._executor.wait([slot.job for slot in self._slots if slot.job is not None and not slot.job.hung], until)

    def _read_once(self, waiting: Sequence[_Slot], version: str | None, until: float) -> dict[_Slot, CardRead]:
        """Read the cards of idle slots; return those that finished in time."""

        def get_cache(uuid: str) -> CardCache:
            return self._caches.setdefault(uuid, CardCache(uuid, self._clock, with_activity=self._with_activity))

        reads: dict[_Slot, CardRead] = {}
        for slot in waiting:
            if not slot.busy:
                calls = Calls(self._driver, None if slot.cache is None else slot.cache.uuid)
                read = reads[slot] = slot.read = CardRead(calls, slot.index, slot.handle, slot.cache, version)
                slot.job = Job(calls, partial(read.run, get_cache))
        self._executor.run([slot.job for slot in reads if slot.job is not None], until)
        self.wait(until)
        for slot, read in reads.items():
            job = slot.job
            if job is None or read.cache is None or job.done or job.calls.optional_since is None:
                continue
            # Complete the reading without its hanging optional call, and abandon its job.
            read.cache.abandon(job)
            read.finish()
            self._executor.give_up(job)
            self._abandoned.append(job)
            slot.job = None
        return {slot: read for slot, read in reads.items() if not slot.busy}

    def _take(self, slot: _Slot, read: CardRead, read_cards: ReadCards) -> None:
        """Store the result of a reading."""
        slot.handle = read.handle
        slot.cache = read.cache or slot.cache
        if slot.cache is None:
            return
        if read.lost:
            slot.cache.lost = True
        if read.cards:
            slot.cache.lost = False
            read_cards.setdefault(slot.cache.uuid, read.cards)

    def _no_answers(self, waiting: Sequence[_Slot]) -> list[ReadError]:
        """Return the hanging call of each unfinished slot; later readings do not wait for it again."""
        errors: list[ReadError] = []
        for slot in waiting:
            job = slot.job
            if job is not None and not job.done:
                errors.append(job.no_answer())
                self._executor.give_up(job)
                if slot.cache is None and slot.read is not None:
                    slot.cache = slot.read.cache
        return errors

    def _errors_between(self) -> list[ReadError]:
        """Return the errors of disabled calls, and those of drains since the last reading."""
        caches = [(slot, slot.cache) for slot in self._slots if slot.cache is not None]
        errors = [error for _, cache in caches for error in cache.given_up.errors()]
        for slot, cache in caches:
            if not slot.busy:
                errors += cache.drained
                cache.drained.clear()
        return errors
