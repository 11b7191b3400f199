"""What a report says, before anybody draws it: typed, in milliseconds of GPU time, unknown as ``None``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gua.core.view import Count, Moment
from gua.report.section_names import DEFAULT
from gua.report.states import Coverage, States

if TYPE_CHECKING:  # they are made of what stands here
    from gua.report.sections.calendar.model import Before, Day, WeekHour
    from gua.report.sections.contention.model import Contention
    from gua.report.sections.energy.model import Energy
    from gua.report.sections.headline.model import IdleSplit
    from gua.report.sections.money.model import Money
    from gua.report.sections.now.model import Now
    from gua.report.sections.streaks.model import Streaks
    from gua.report.sections.timeline.model import Timeline
    from gua.report.sections.usage.model import Parties


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The time reported on, (since, until], as Unix ms, and the zone of hours of the day and printed times."""

    since_ms: int
    until_ms: int
    timezone: str


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
class Headline:
    """The split of everything observed, with each state's share and the whole GPUs it is worth."""

    states: States
    shares: Mapping[str, float | None]
    equivalent_gpus: Mapping[str, float | None]

    @property
    def card_ticks(self) -> int:
        """Return the ticks of all cards."""
        return sum(time.card_ticks or 0 for time in self.states.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownReason:
    """Why cards were unknown for that GPU time (ms)."""

    reason: str
    gpu_ms: float
    card_ticks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One card in the window; times in ms of GPU time."""

    host: str
    gpu: str
    index: int | None
    name: str | None
    model: str | None
    mig: str | None
    parent: str | None
    expected_gpu_ms: float
    observed_gpu_ms: float
    unobserved_gpu_ms: float
    gaps: int
    states: States


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """A user's program, or (kind ``unlisted``) the time in which no process was listed on a card that was not idle.

    ``gpu_ms`` is the part of the cards' GPU time attributed to it, ``unsplit_ms`` how long its processes
    were on cards. ``states`` are those of the cards. The others, ``None`` where streaks were not asked for, are as of a
    :class:`~gua.report.sections.usage.model.Party`.
    """

    kind: str
    owner: str | None
    program: str | None
    gpu_ms: float
    unsplit_ms: float
    states: States
    longest_idle_ms: int | None = None
    sessions: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """A host that claims to have observed more time than has passed: two agents, or a clock set back."""

    host: str
    observed_ms: float
    elapsed_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """A resource attribute (``host.name``, ``k8s.cluster.name``, ``team``) and its values that hosts were chosen by."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Cards added up; times in ms of GPU time. ``name`` is ``None`` for those of which it is not known."""

    name: str | None
    hosts: int
    cards: int
    expected_gpu_ms: float
    observed_gpu_ms: float
    unobserved_gpu_ms: float
    gaps: int
    states: States

    @property
    def ratio(self) -> float | None:
        """Return observed / expected, ``None`` if nothing was expected."""
        return self.observed_gpu_ms / self.expected_gpu_ms if self.expected_gpu_ms > 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollup:
    """All cards of a report in groups ``by`` host, model, cluster or a label's key."""

    by: str
    groups: tuple[Group, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Silent:
    """A host of which no agent has told anything since (Unix ms)."""

    host: str
    since_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Skew:
    """A host whose clock is that far ahead of the server's, or whose ticks all reach the server that late (ms)."""

    host: str
    ahead_ms: int | None
    behind_ms: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimant:
    """An agent that used a host's name: its installation, its machine, its first and last tick (Unix ms)."""

    instance: str | None
    host_id: str | None
    first_ms: int
    last_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A host whose name several agents used at the same time."""

    host: str
    agents: tuple[Claimant, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Everything that the sections and the basis lines say.

    ``sections`` are those asked for; what belongs to others is ``None`` or empty. ``idle_split`` and ``now`` may be
    ``None`` although asked for: ``streaks_skipped`` then says for how many card-hours it would have been too much.
    """

    window: Window
    hosts: tuple[str, ...]
    extents: tuple[Extent, ...]
    rules: tuple[Setting, ...]
    coverage: Coverage
    unknown: tuple[UnknownReason, ...]
    headline: Headline
    cards: tuple[Card, ...]
    identities: tuple[Identity, ...]
    time_of_day: tuple[States, ...]
    overlaps: tuple[Overlap, ...]
    filters: tuple[Filter, ...] = ()
    rollups: tuple[Rollup, ...] = ()
    silent: tuple[Silent, ...] = ()
    skewed: tuple[Skew, ...] = ()
    claimed: tuple[Claim, ...] = ()
    sections: frozenset[str] = frozenset(DEFAULT)
    streaks_skipped: int | None = None
    idle_split: IdleSplit | None = None
    now: Now | None = None
    parties: tuple[Parties, ...] = ()
    streaks: Streaks | None = None
    contention: tuple[Contention, ...] = ()
    money: Money | None = None
    energy: Energy | None = None
    week: tuple[WeekHour, ...] = ()
    days: tuple[Day, ...] = ()
    before: Before | None = None
    timeline: Timeline | None = None
