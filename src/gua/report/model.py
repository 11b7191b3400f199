"""The report before formatting: typed models, GPU time in milliseconds, unknown values as ``None``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar

from gua.core.view import Count, Moment, Named
from gua.report.costs import CostByState, Costs
from gua.report.kit.fields import NO_OUTPUT, ByState, FirstSeen, Hours, LastSeen, Ratio, Seconds, Timestamp, Unit
from gua.report.states import States

T = TypeVar("T")
_ID_LENGTH: Final = 12
_NOW_TICKS: Final = 3
_NOW_MS: Final = 5 * 60_000


def shortened(identifier: str) -> str | None:
    """Return the first 12 characters of an id: enough to distinguish agents; ``None`` for an unknown one (``""``)."""
    return identifier[:_ID_LENGTH] or None


ShortId = Annotated[str, Unit(json=shortened, cell=shortened)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The time of a report, (since, until] in Unix ms, and the time zone of hours of the day and printed times."""

    since_ms: Timestamp[int]
    until_ms: Timestamp[int]
    timezone: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A record about a card: host, UUID, index on the host."""

    host: str
    gpu: str
    index: Annotated[Count | None, Named("gpu_index")]

    def place(self) -> tuple[str, bool, int, str]:
        """Return the sort key of cards: host and index, those without an index last."""
        return (self.host, self.index is None, self.index or 0, self.gpu)


@dataclass(frozen=True, kw_only=True, slots=True)
class Extent:
    """The data of one host from one source: its cards, first and newest tick (Unix ms), nominal interval [ms]."""

    host: str
    source: str
    cards: Count
    first_ms: Moment
    last_ms: Moment
    interval_ms: Count | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting of the rules and its value at the time of the report."""

    key: str
    value: float
    is_default: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """Expected and observed GPU time [ms]; ``ratio`` is ``None`` if none was expected."""

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

    idle_gpu_ms: Annotated[Hours[float], Named("active_idle_gpu_ms")]


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleSeconds:
    """Sampled active GPU time of all cards [ms], and its idle seconds [ms].

    ``idle_share`` is the share of the sampled time, 0 to 1. ``most_idle`` is ``None`` where no card had idle seconds.
    """

    sampled_gpu_ms: Annotated[Hours[float], Named("active_sampled_gpu_ms")]
    idle_gpu_ms: Annotated[Hours[float], Named("active_idle_gpu_ms")]
    idle_share: Ratio[float]
    most_idle: MostIdle | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WithoutProcess:
    """GPU time [ms] of active cards without a process and without held memory, and its ``share`` of active time.

    ``known_gpu_ms`` is the active time in which it is known whether a process was there. The other two are ``None``
    where that is 0.
    """

    gpu_ms: Hours[float | None]
    known_gpu_ms: Hours[float]
    share: Ratio[float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """The observed time by state, with each state's share, equivalent GPUs, and cost.

    ``idle_seconds`` are those of active time; ``None`` where no active time was sampled.
    """

    states: States
    shares: Mapping[str, float | None]
    equivalent_gpus: Mapping[str, float | None]
    costs: Costs | None = None
    idle_seconds: IdleSeconds | None = None
    active_without_process: WithoutProcess = WithoutProcess(gpu_ms=None, known_gpu_ms=0.0, share=None)

    @property
    def expected_gpus(self) -> float | None:
        """Return the number of expected GPUs, ``None`` where nothing was observed."""
        known = [gpus for gpus in self.equivalent_gpus.values() if gpus is not None]
        return sum(known) if known else None

    @property
    def card_ticks(self) -> int:
        """Return the card ticks of all states."""
        return sum(time.card_ticks or 0 for time in self.states.values())


@dataclass(frozen=True, slots=True)
class UnknownReason:
    """The card ticks and GPU time [ms] that were unknown for one reason."""

    reason: str
    card_ticks: Count
    gpu_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedCard(Placed):
    """A card: the driver's name, the model of its GPU, and its role in MIG."""

    name: str | None
    model: str | None
    mig: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Card(NamedCard):
    """One card in the window; times in ms of GPU time.

    ``recovery_action`` is the newest one that NVML reported, 0 if none is needed. ``recovery_ms`` is the observed time
    in which one was needed [ms], ``recovery_at_ms`` the newest tick that had it (Unix ms).
    """

    parent: str | None
    expected_gpu_ms: Hours[float]
    observed_gpu_ms: Hours[float]
    unobserved_gpu_ms: Hours[float]
    gaps: int
    states: ByState
    recovery_action: Count | None = None
    recovery_ms: Hours[Count | None] = None
    recovery_at_ms: Timestamp[int | None] = None
    costs: CostByState = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OfCard(Placed):
    """A record about a card, with the driver's name of its model."""

    model: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """A host with more observed time than elapsed time outside holes: two agents, or a clock set back (ms)."""

    host: str
    observed_ms: Hours[float]
    elapsed_ms: Hours[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """A resource attribute (``host.name``, ``k8s.cluster.name``, ``team``) and the values that select hosts."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Silent:
    """A host without a tick since (Unix ms)."""

    host: str
    since_ms: Timestamp[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Skew:
    """A host whose clock is ahead of the server's [ms], or all of whose ticks arrive that late [ms]."""

    host: str
    ahead_ms: Seconds[int | None]
    behind_ms: Seconds[int | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimant:
    """An agent that used a host's name: its installation, its machine, its first and last tick (Unix ms)."""

    host: str = field(metadata=NO_OUTPUT)
    instance: ShortId
    host_id: ShortId
    first_ms: FirstSeen[Moment]
    last_ms: LastSeen[Moment]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A host name that several agents used at the same time."""

    host: str
    agents: tuple[Claimant, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedSource:
    """An allocation source on a host: whether it was readable at the newest tick, and how long it was or was not [ms].

    ``reason`` is the latest failure, ``None`` if it was always readable. ``last_ms``: its newest reading (Unix ms).
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
    """The content of a report, for all sections and the basis.

    ``sections`` are the names of the requested sections, in report order. :meth:`get` returns a section's own model. A
    requested section may have none: ``streaks_skipped`` is then the number of card-hours that exceeded its limit.
    ``requested_at_ms`` is the time of the request (Unix ms), ``groups_by`` the requested groups of cards.
    ``allocation_sources`` is empty where no allocation source is configured. ``imported`` says what imported ticks rest
    on.
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
    imported: tuple[str, ...] = ()
    silent: tuple[Silent, ...] = ()
    skewed: tuple[Skew, ...] = ()
    claimed: tuple[Claim, ...] = ()
    allocation_sources: tuple[ReportedSource, ...] = ()
    sections: tuple[str, ...]
    streaks_skipped: int | None = None
    requested_at_ms: int | None = None
    groups_by: tuple[str, ...] = ()
    models: Mapping[type, object] = field(default_factory=dict)

    @property
    def ends_now(self) -> bool:
        """Return whether the window ends at the request, within three intervals or five minutes; True if unknown."""
        return self.requested_at_ms is None or self.window.until_ms >= self.requested_at_ms - self._near_ms

    def is_now(self, unix_ms: int) -> bool:
        """Return whether a time is at most three intervals or five minutes before a window's end that is now."""
        return self.ends_now and unix_ms >= self.window.until_ms - self._near_ms

    @property
    def _near_ms(self) -> int:
        return max(_NOW_TICKS * max((extent.interval_ms or 0 for extent in self.extents), default=0), _NOW_MS)

    def get(self, kind: type[T]) -> T | None:
        """Return the model of this class, ``None`` where its section was not requested or could not be made."""
        model = self.models.get(kind)
        return model if isinstance(model, kind) else None

    def __getitem__(self, kind: type[T]) -> T:
        """Return the model of this class. Raises KeyError where :meth:`get` returns ``None``."""
        model = self.get(kind)
        if model is None:
            raise KeyError(kind)
        return model
