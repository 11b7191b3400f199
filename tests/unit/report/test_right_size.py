"""What fits a part of a card: large enough to be sure, unknown as soon as a tick does not report it."""

from __future__ import annotations

import pytest

from gua.report.prices import Price, PricedTime, Prices
from gua.report.sections.right_size import (
    CardSize,
    ModelSize,
    Peak,
    RightSizeRow,
    fits_half,
    fits_slice,
    fits_smaller,
    models_of,
    right_size_of,
)

GIB = 1 << 30


def card_size(
    index: int,
    model: str | None,
    limit: int,
    usable: int | None,
    *,
    is_instance: bool = False,
    whole: int | None = None,
) -> CardSize:
    """Return a card's size; ``usable`` is ``None`` of a partitioned one."""
    reserved = None if usable is None else limit - usable
    return CardSize("node-1", "GPU-1", index, model, limit, reserved, int(usable is None), is_instance, whole, 0)


H100 = card_size(0, "NVIDIA H100 80GB HBM3", 80 * GIB, 79 * GIB)
UNKNOWN_CARD = card_size(0, "NVIDIA H100 80GB HBM3", 80 * GIB, None)
HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("peak", "half", "slice_", "part"),
    [
        (Peak(8 * GIB, is_whole=True), True, True, "1/8"),
        (Peak(9 * GIB, is_whole=True), True, True, "1/8"),
        (Peak(9 * GIB + 1, is_whole=True), True, True, "1/4"),
        (Peak(36 * GIB, is_whole=True), True, True, "1/2"),
        (Peak(36 * GIB + 1, is_whole=True), True, False, None),
        (Peak(79 * GIB // 2, is_whole=True), True, False, None),
        (Peak(79 * GIB // 2 + 1, is_whole=True), False, False, None),
        (Peak(8 * GIB, is_whole=False), None, None, None),
        (Peak(70 * GIB, is_whole=False), False, False, None),
        (Peak(None, is_whole=False), None, None, None),
    ],
)
def test_a_peak_fits_does_not_fit_or_is_unknown(peak: Peak, half: bool | None, slice_: bool | None, part: str) -> None:  # noqa: FBT001 - a case
    assert fits_half(peak, H100) is half
    assert fits_slice(peak, H100) == (slice_, part)
    assert (fits_half(peak, UNKNOWN_CARD), fits_slice(peak, UNKNOWN_CARD)) == (None, (None, None))
    assert fits_smaller(peak, UNKNOWN_CARD, {"A30": ModelSize(24 * GIB, 24 * GIB)}) == (None, None)


def test_a_model_that_cannot_be_cut_has_no_slices_and_an_a30_has_four() -> None:
    small = Peak(5 * GIB, is_whole=True)
    assert fits_slice(small, card_size(0, "NVIDIA GeForce RTX 4090", 24 * GIB, 23 * GIB)) == (False, None)
    assert fits_slice(small, card_size(0, "NVIDIA A30", 24 * GIB, 23 * GIB)) == (True, "1/4")
    assert fits_slice(small, card_size(0, None, 24 * GIB, 23 * GIB)) == (None, None)


INSTANCE = card_size(0, "NVIDIA H100 80GB HBM3", 40 * GIB, 39 * GIB, is_instance=True, whole=80 * GIB)


@pytest.mark.parametrize(
    ("limit_gib", "peak_gib", "is_whole", "expected"),
    [
        (40, 9, True, (True, "1/8")),
        (40, 18, True, (True, "1/4")),
        (40, 19, True, (False, None)),
        (40, 8, False, (None, None)),
        (40, 19, False, (False, None)),
        (20, 9, True, (True, "1/8")),
        (20, 10, True, (False, None)),
        (10, 1, True, (False, None)),
        (76, 36, True, (True, "1/2")),
    ],
)
def test_an_instance_may_fit_a_smaller_profile_of_its_gpu_and_never_its_own(
    limit_gib: int,
    peak_gib: int,
    is_whole: bool,  # noqa: FBT001 - a case
    expected: tuple[bool | None, str | None],
) -> None:
    instance = INSTANCE._replace(limit_bytes=limit_gib * GIB)
    assert fits_slice(Peak(peak_gib * GIB, is_whole=is_whole), instance) == expected


def test_an_instance_with_unknown_whole_or_profiles_has_no_fit() -> None:
    small = Peak(GIB, is_whole=True)
    assert fits_slice(small, INSTANCE._replace(whole_bytes=None)) == (None, None)
    assert fits_slice(small, INSTANCE._replace(model="a model of tomorrow")) == (None, None)
    assert fits_half(small, INSTANCE) is True


def test_a_model_is_as_large_as_its_whole_cards_and_may_do_for_an_instance() -> None:
    models = models_of([H100, INSTANCE, card_size(1, "A30", 24 * GIB, 23 * GIB)])
    assert models == {
        "NVIDIA H100 80GB HBM3": ModelSize(80 * GIB, 79 * GIB),
        "A30": ModelSize(24 * GIB, 23 * GIB),
    }
    assert fits_smaller(Peak(20 * GIB, is_whole=True), INSTANCE, models) == (True, "A30")


def test_the_smallest_model_that_fits_is_named_and_a_larger_one_never() -> None:
    models = models_of(
        [H100, card_size(1, "A10", 24 * GIB, 23 * GIB), card_size(2, "A10", 24 * GIB, 22 * GIB), UNKNOWN_CARD]
    )
    assert models == {
        "A10": ModelSize(24 * GIB, 22 * GIB),
        "NVIDIA H100 80GB HBM3": ModelSize(80 * GIB, 79 * GIB),
    }
    models = {**models, "L40S": ModelSize(45 * GIB, 44 * GIB), "H200": ModelSize(140 * GIB, 139 * GIB)}
    assert fits_smaller(Peak(20 * GIB, is_whole=True), H100, models) == (True, "A10")
    assert fits_smaller(Peak(30 * GIB, is_whole=True), H100, models) == (True, "L40S")
    assert fits_smaller(Peak(60 * GIB, is_whole=True), H100, models) == (False, None)
    assert fits_smaller(Peak(20 * GIB, is_whole=False), H100, models) == (None, None)


def test_a_card_whose_driver_reports_less_memory_is_no_smaller_model() -> None:
    other = card_size(1, H100.model, 80 * GIB, 78 * GIB)
    same_size = card_size(2, "A100 80GB", 80 * GIB, 77 * GIB)
    assert fits_smaller(Peak(GIB, is_whole=True), H100, models_of([H100, other, same_size])) == (False, None)


def test_unknown_memory_is_not_usable() -> None:
    def card(limit: int | None, reserved: int | None, *, is_cut: int = 0, is_shared: int = 0) -> CardSize:
        return CardSize("node-1", "GPU-1", 0, None, limit, reserved, is_cut, False, None, is_shared)  # noqa: FBT003

    assert card(80 * GIB, GIB).usable_bytes == card(80 * GIB, None).usable_bytes == 79 * GIB
    assert card(None, GIB).usable_bytes is card(0, 0).usable_bytes is None
    assert card(80 * GIB, 0, is_cut=1).usable_bytes is card(80 * GIB, 0, is_shared=1).usable_bytes is None


def row(gpu: str, owner: str, peak: int | None, *, unknown_ms: int = 0) -> RightSizeRow:
    return RightSizeRow(
        "node-1", gpu, owner, "python", None, 2 * HOUR_US, 7_200_000, unknown_ms, peak, peak, 9000, 8000, None,
        (PricedTime(1, HOUR_US),),
    )  # fmt: skip


def test_an_owner_on_several_cards_is_judged_on_each_and_hours_and_money_add_up() -> None:
    sizes = [
        CardSize("node-1", "GPU-a", 0, "H100", 80 * GIB, GIB, 0, 0, None, 0),
        CardSize("node-1", "GPU-b", 1, "H100", 80 * GIB, GIB, 0, 0, None, 0),
        CardSize("node-1", "GPU-c", 2, "H100", 40 * GIB, 0, 1, 0, None, 0),
        CardSize("node-1", "GPU-d", 3, "GH200 480GB", 96 * GIB, 0, 0, 0, None, 1),
        CardSize("node-1", "MIG-e", 4, "H100", 40 * GIB, 0, 0, 1, 80 * GIB, 0),
    ]
    rows = [
        row("GPU-a", "ana", 8 * GIB),
        row("GPU-b", "ana", 70 * GIB),
        row("GPU-b", "bo", 8 * GIB, unknown_ms=3_600_000),
        row("GPU-c", "ana", GIB),
        row("MIG-e", "ana", 30 * GIB),
        row("GPU-d", "ana", GIB),
        row("GPU-gone", "ana", GIB),
    ]
    prices = Prices((Price("H100", "EUR", 2.5, 0, None, None),))
    found = right_size_of(rows, sizes, prices, 20 * 3_600_000)
    fits = {(one.gpu, one.owner): (one.fits_half, one.slice, one.fits) for one in found.workloads}
    assert fits == {
        ("GPU-a", "ana"): (True, "1/8", True),
        ("GPU-b", "ana"): (False, None, False),
        ("GPU-b", "bo"): (None, None, None),
        ("GPU-c", "ana"): (None, None, None),
        ("MIG-e", "ana"): (False, None, False),
        ("GPU-d", "ana"): (None, None, None),
        ("GPU-gone", "ana"): (None, None, None),
    }
    assert (found.half.gpu_ms, found.half.workloads, found.half.share) == (7_200_000, 1, pytest.approx(1 / 7))
    assert found.half.cost is not None
    assert (found.half.cost.amounts, found.half.cost.unpriced_gpu_ms) == ({"EUR": 2.5}, 3_600_000)
    assert (found.none.workloads, found.not_known.workloads, found.every.workloads) == (2, 4, 7)
    assert found.smaller.workloads == 0
    assert found.smaller.cost is not None, "nothing is not of unknown cost"
    assert (found.smaller.cost.amounts, found.smaller.cost.unpriced_gpu_ms) == ({}, 0)
    (bo,) = [one for one in found.workloads if one.owner == "bo"]
    assert bo.unknown_gpu_ms == 3_600_000
