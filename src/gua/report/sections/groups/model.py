"""Groups: cards added up by host, cluster, model or a label."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from gua.report.costs import CostByState
from gua.report.kit.fields import AS_IS, RATIO, ByState, Hours


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Cards added up; times in ms of GPU time.

    ``name`` is ``None`` for those of which it is not known; ``cards`` are GPUs that are not partitioned and MIG
    instances; ``ratio`` is observed / expected, ``None`` if nothing was.
    """

    name: Annotated[str | None, AS_IS.named("group")]
    hosts: int
    cards: int
    expected_gpu_ms: Hours[float]
    observed_gpu_ms: Hours[float]
    unobserved_gpu_ms: Hours[float]
    ratio: Annotated[float | None, replace(RATIO, column="observed_ratio")] = field(init=False)
    gaps: int
    states: ByState
    gpus: int
    costs: CostByState = None

    def __post_init__(self) -> None:
        ratio = self.observed_gpu_ms / self.expected_gpu_ms if self.expected_gpu_ms > 0 else None
        object.__setattr__(self, "ratio", ratio)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grouping:
    """All cards of a report in groups ``by`` host, model, cluster or a label's key."""

    by: str
    groups: tuple[Group, ...]


class Groupings(tuple[Grouping, ...]):
    """The sums asked for, in that order, and by host where there are several."""

    __slots__ = ()
