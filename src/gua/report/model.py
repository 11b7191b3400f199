"""What a report says, before anybody draws it: typed, in milliseconds of GPU time, unknown as ``None``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar

from gua.core.view import Count, Moment
from gua.report.costs import CostByState, Costs
from gua.report.kit.fields import ByState, FirstSeen, Hours, LastSeen, Ratio, Seconds, Timestamp, Unit
from gua.report.states import States

T = TypeVar("T")
_ID_LENGTH: Final = 12
_NOW_TICKS: Final = 3
_NOW_MS: Final = 5 * 60_000


def shortened(identifier: str | None) -> str | None:
    """Return the head of an id, enough to tell agents apart; ids in full are nobody's business."""
    return identifier if identifier is None else identifier[:_ID_LENGTH]


ShortId = Annotated[str | None, Unit(json=shortened, cell=shortened)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The time reported on, (since, until], as Unix ms, and the zone of hours of the day and printed times."""

    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    timezone: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """What is about a card: by its host, its UUID, its index on the host."""

    host: str
    gpu: str
    index: int | None

    def place(self) -> tuple[str, bool, int, str]:
        """Return what orders cards by host and index, those without an index last."""
        return (self.host, self.index is None, self.index or 0, self.gpu)


@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    """What a store has of one host from one source: its cards, first and newest moment (Unix ms), nominal interval."""

    host: str
    source: str
    cards: Count
    first_ms: Moment
    last_ms: Moment
    interval_ms: Count | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting of the rules as it was in force."""

    key: str
    value: float
    is_default: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """How much of the expected GPU time (ms) was observed; ``ratio`` is ``None`` if none was expected."""

    expected_gpu_ms: Hours[float]
    observed_gpu_ms: Hours[float]
    unobserved_gpu_ms: Hours[float]
    ratio: Ratio[float | None]
    gaps: int
    effective_since_ms: Timestamp[int | None]
    effective_until_ms: Timestamp[int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class MostIdle(Placed):
    """The card with the most idle seconds in active time, in ms of GPU time."""

    idle_gpu_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleSeconds:
    """What samples tell of active GPU time (ms), all cards together, and how much of that was idle seconds.

    ``idle_share`` is of what samples tell. ``most_idle`` is ``None`` where no card had any.
    """

    sampled_gpu_ms: Hours[float]
    idle_gpu_ms: Hours[float]
    idle_share: Ratio[float]
    most_idle: MostIdle | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The split of everything observed, with each state's share, the whole GPUs it is worth, and what it cost.

    ``idle_seconds`` are those of active time; ``None`` where samples tell of none of it.
    """

    states: States
    shares: Mapping[str, float | None]
    equivalent_gpus: Mapping[str, float | None]
    costs: Costs | None = None
    idle_seconds: IdleSeconds | None = None

    @property
    def card_ticks(self) -> int:
        """Return the ticks of all cards."""
        return sum(time.card_ticks or 0 for time in self.states.values())


@dataclass(frozen=True, slots=True)
class UnknownReason:
    """Why cards were unknown for that GPU time (ms)."""

    reason: str
    card_ticks: Count
    gpu_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Card(Placed):
    """One card in the window; times in ms of GPU time."""

    name: str | None
    model: str | None
    mig: str | None
    parent: str | None
    expected_gpu_ms: Hours[float]
    observed_gpu_ms: Hours[float]
    unobserved_gpu_ms: Hours[float]
    gaps: int
    states: ByState
    costs: CostByState = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OfCard(Placed):
    """What is about a card, and what the driver calls it."""

    model: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """A host that claims to have observed more time than has passed outside holes: two agents, or a clock set back."""

    host: str
    observed_ms: Hours[float]
    elapsed_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """A resource attribute (``host.name``, ``k8s.cluster.name``, ``team``) and its values that hosts were chosen by."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Silent:
    """A host of which no agent has told anything since (Unix ms)."""

    host: str
    since_ms: Timestamp[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Skew:
    """A host whose clock is that far ahead of the server's, or whose ticks all reach the server that late (ms)."""

    host: str
    ahead_ms: Seconds[int | None]
    behind_ms: Seconds[int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimant:
    """An agent that used a host's name: its installation, its machine, its first and last tick (Unix ms)."""

    instance: ShortId
    host_id: ShortId
    first_ms: FirstSeen[int]
    last_ms: LastSeen[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A host whose name several agents used at the same time."""

    host: str
    agents: tuple[Claimant, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedSource:
    """A source of allocations on a host: whether it could be read at the newest tick, for how long it could, in ms.

    ``reason`` is why it could not, the newest time; ``None`` if it always could. ``last_ms``: when somebody looked at
    it last (Unix ms).
    """

    host: str
    source: str
    ok: bool
    reason: str | None
    failed_ms: Seconds[int]
    ok_ms: Seconds[int]
    last_ms: LastSeen[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Everything that the sections and the basis lines say.

    ``sections`` are the names of those asked for, in the order in which they are shown. What a section alone says is a
    model of its own, which :meth:`get` returns; it may be missing although asked for: ``streaks_skipped`` then says for
    how many card-hours it would have been too much. ``asked_ms``: when the report was
    asked for (Unix ms); ``groups_by``: what cards were asked to be added up by. ``allocation_sources`` are those that
    tell to whom cards are promised; without any, nobody looks at allocation.
    """

    window: Window
    hosts: tuple[str, ...]
    extents: tuple[Extent, ...]
    rules: tuple[Setting, ...]
    coverage: Coverage
    unknown: tuple[UnknownReason, ...]
    headline: Headline
    cards: tuple[Card, ...]
    overlaps: tuple[Overlap, ...] = ()
    filters: tuple[Filter, ...] = ()
    silent: tuple[Silent, ...] = ()
    skewed: tuple[Skew, ...] = ()
    claimed: tuple[Claim, ...] = ()
    allocation_sources: tuple[ReportedSource, ...] = ()
    sections: tuple[str, ...]
    streaks_skipped: int | None = None
    asked_ms: int | None = None
    groups_by: tuple[str, ...] = ()
    models: Mapping[type, object] = field(default_factory=dict)

    @property
    def ends_now(self) -> bool:
        """Return whether the window reaches to when the report was asked for, within some ticks."""
        near_ms = _NOW_TICKS * max((extent.interval_ms or 0 for extent in self.extents), default=0)
        return self.asked_ms is None or self.window.until_ms >= self.asked_ms - max(near_ms, _NOW_MS)

    @property
    def is_allocation_looked_at(self) -> bool:
        """Return whether any source tells of any host to whom its cards are promised."""
        return bool(self.allocation_sources)

    def get(self, kind: type[T]) -> T | None:
        """Return the model of this class, ``None`` where no section that has it was asked for or could be made."""
        model = self.models.get(kind)
        return model if isinstance(model, kind) else None

    def __getitem__(self, kind: type[T]) -> T:
        """Return the model of this class. Raises KeyError where :meth:`get` returns ``None``."""
        model = self.get(kind)
        if model is None:
            raise KeyError(kind)
        return model
