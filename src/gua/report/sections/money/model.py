"""What GPU time cost, by the prices that were valid then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gua.report.kit.fields import Number, Timestamp


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What an hour of a whole GPU of a model costs from a moment (Unix ms) on, and who says so."""

    model: str
    currency: str
    per_gpu_hour: Number[float]
    valid_from_ms: Timestamp[int]
    source: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCost:
    """One model's GPU time in the window by state [ms], and its cost in one currency.

    ``gpu_ms`` is the priced part. What no price counted for is a cost of its own, without a ``currency``:
    ``unpriced_gpu_ms``.
    """

    model: str | None
    currency: str | None
    gpu_ms: Mapping[str, float]
    cost: Mapping[str, float]
    unpriced_gpu_ms: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Money:
    """Costs by model and currency, and the prices they were made with.

    They are estimates, as prices are what somebody entered.
    """

    costs: tuple[ModelCost, ...]
    prices: tuple[Price, ...]
