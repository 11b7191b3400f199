"""An account of the simulated week by its script: who was allocated which card, and what became of it.

It knows the script and who is on a card, and shares nothing with gua.core.allocation; ``told`` is what ticks say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gua.core.allocation import parts
from gua.core.facts import card_facts
from gua.core.rules import Rules, State, classify
from gua.core.tick import CardReading, Tick
from gua.core.words import ProcessList, ProcessType
from gua.sim.calendar import HOUR_MS, MINUTE_MS
from gua.sim.host import DAY_MS

MONDAY_MS = 1_774_224_000_000  # 2026-03-23 00:00 UTC
WEEK_MS = 7 * DAY_MS
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

# Who was allocated which of the ten card readings of a tick (4 to 6 are the partitioned GPU: its unallocated slices and
# its two instances), from when to when. A week that ends before it begins runs into the next one.
SCRIPT = (
    ("bo", (1, 8), "Mon 10:18", "Wed 06:40"),
    ("chen", (1, 8), "Wed 09:13", "Thu 23:50"),
    ("bo", (1, 8), "Fri 08:03", "Sat 19:30"),
    ("erin", (3,), "Fri 17:58", "Sat 03:10"),
    ("ana", (0, 9), "Mon 09:10", "Mon 08:55"),
    ("kofi", (6,), "Mon 08:30", "Sat 20:00"),
    ("fay", (7,), "Tue 10:00", "Tue 18:15"),
    ("fay", (7,), "Wed 10:35", "Thu 06:35"),
    ("fay", (7,), "Thu 10:00", "Thu 18:15"),
    ("fay", (7,), "Fri 10:00", "Fri 18:15"),
    ("dana", (7,), "Tue 13:25", "Tue 17:05"),
    ("dana", (7,), "Thu 13:25", "Thu 17:05"),
    ("svc-llm", (2,), "Sun 03:58", "Sun 03:58"),
)
SLURM_SILENT = ("Wed 11:00", "Wed 12:00")


def moment(text: str) -> int:
    """Return a time of the week in ms from its beginning."""
    day, clock = text.split()
    hours, minutes = clock.split(":")
    return DAYS.index(day) * DAY_MS + int(hours) * HOUR_MS + int(minutes) * MINUTE_MS


def stretches(first: str, last: str) -> Iterator[tuple[int, int]]:
    """Yield the stretch of each of the weeks around the simulated one, Unix ms."""
    begin, end = moment(first), moment(last)
    for week in range(-2, 3):
        monday_ms = MONDAY_MS + week * WEEK_MS
        yield monday_ms + begin, monday_ms + (end if end > begin else end + WEEK_MS)


ALLOCATED = [(owner, places, *span) for owner, places, *ends in SCRIPT for span in stretches(*ends)]
SILENT = list(stretches(*SLURM_SILENT))


def state_of(card: CardReading) -> State:
    return classify(card_facts(card), Rules()).state


def there(card: CardReading) -> frozenset[str] | None:
    """Return who is on a card, ``None`` if its list was not read."""
    if card.process_list is not ProcessList.KNOWN:
        return None
    return frozenset(str(process.owner) for process in card.processes if process.type is not ProcessType.IGNORED)


def use_of(state: State, owner: str, owners: Sequence[str], present: frozenset[str] | None) -> str:
    """Return what became of the time allocated to ``owner``, one of ``owners``."""
    if state is State.UNKNOWN or present is None:
        return "unknown"
    if owner in present:
        return "used" if state is State.ACTIVE else "held"
    if present - set(owners):
        return "used-by-others"
    if present:
        return "empty"
    return "empty" if state is State.TRULY_IDLE else "unknown"


def account(ticks: Sequence[Tick]) -> Counter[tuple[str, str]]:
    """Return GPU ms by (owner, use); time without an owner has the owner "-"."""
    found: Counter[tuple[str, str]] = Counter()
    before: dict[str, frozenset[str] | None] = {}
    for tick in ticks:
        silent = any(since <= tick.ts_ms < until for since, until in SILENT)
        for place, card in enumerate(tick.cards):
            state, present = state_of(card), there(card)
            start_ms = tick.ts_ms - card.duration_ms
            mine = [each for each in ALLOCATED if place in each[1] and not (silent and each[0] != "svc-llm")]
            bounds = {start_ms, tick.ts_ms}
            bounds |= {ms for *_, since, until in mine for ms in (since, until) if start_ms < ms < tick.ts_ms}
            weight = card.gpu_time_ms / card.duration_ms
            for since_ms, until_ms in pairwise(sorted(bounds)):
                gpu_ms = (until_ms - since_ms) * weight
                now = [each for each in mine if each[2] <= since_ms and until_ms <= each[3]]
                if not now:
                    nobodys = "free" if state is State.TRULY_IDLE else "unallocated-use"
                    found["-", "unknown" if silent or state is State.UNKNOWN else nobodys] += gpu_ms  # type: ignore[assignment]
                # The card was not observed between an allocation's end and the tick: see the tick before.
                for owner, *_, end_ms in now:
                    looked_ms = tick.ts_ms if end_ms >= tick.ts_ms else start_ms
                    seen = present if looked_ms == tick.ts_ms else before.get(card.uuid)
                    owners = [each[0] for each in mine if each[2] < looked_ms <= each[3]]
                    found[owner, use_of(state, owner, owners, seen)] += gpu_ms / len(now)  # type: ignore[assignment]
            before[card.uuid] = present
    return found


def told(ticks: Sequence[Tick]) -> Counter[tuple[str, str]]:
    """Return what the ticks themselves say: GPU ms by (owner, use)."""
    found: Counter[tuple[str, str]] = Counter()
    for tick in ticks:
        for card in tick.cards:
            for part in parts(card, state_of(card)):
                owner = "-" if part.allocation is None else str(part.allocation.owner)
                found[owner, part.use.value] += part.gpu_time_ms
    return found
