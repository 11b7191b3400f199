from __future__ import annotations

import logging

import pytest

from gua.core.tick import CardReading
from gua.core.words import Mig
from gua.instrumentation import options
from gua.instrumentation.visible import visible_cards

A, B, C = "GPU-aa11", "GPU-aa22", "GPU-bb33"
M1, M2 = "MIG-cc01", "MIG-cc02"


def card(uuid: str, index: int, *, model: str = "H100", mig: Mig = Mig.NONE, parent: str | None = None) -> CardReading:
    return CardReading(uuid=uuid, duration_ms=1, gpu_time_ms=0, index=index, model=model, mig=mig, parent=parent)


CARDS = [card(A, 0), card(B, 1), card(C, 2)]
PARTITIONED = [
    card(A, 0),
    card(B, 1, mig=Mig.PARENT),
    card(M1, 1, mig=Mig.INSTANCE, parent=B),
    card(M2, 1, mig=Mig.INSTANCE, parent=B),
]


@pytest.fixture(autouse=True)
def _no_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_warned", set())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


def visible(monkeypatch: pytest.MonkeyPatch, text: str, cards: list[CardReading] = CARDS) -> list[str]:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    return [card.uuid for card in visible_cards(cards)]


@pytest.mark.parametrize(
    ("text", "uuids"),
    [
        ("0", [A]),
        ("2,0", [A, C]),
        (" 1 , 2 ", [B, C]),
        ("1gpu", [B]),
        (C, [C]),
        ("GPU-bb", [C]),
        (f"{B},0", [A, B]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,1", [A]),
        ("0,3,1", [A]),
        ("0,x,1", [A]),
        ("0,GPU-zz,1", [A]),
        ("1,,2", [B]),
        ("GPU-aa", []),  # two cards begin like this
        ("GPU-", []),
        ("0,0", []),
        (f"0,1,{A}", []),
        ("99999999999", []),
    ],
)
def test_the_variable_names_cards_as_cuda_reads_it(
    monkeypatch: pytest.MonkeyPatch, text: str, uuids: list[str]
) -> None:
    assert visible(monkeypatch, text) == uuids


@pytest.mark.parametrize(
    ("text", "uuids"),
    [("0", [A]), (M2, [M2]), (f"{M2},{M1}", [M1, M2]), ("1", [M1]), (B, [M1]), ("MIG-cc", []), ("1,2", [M1])],
)
def test_an_instance_has_a_uuid_and_a_partitioned_gpu_stands_for_its_first_one(
    monkeypatch: pytest.MonkeyPatch, text: str, uuids: list[str]
) -> None:
    assert visible(monkeypatch, text, PARTITIONED) == uuids


@pytest.mark.parametrize(("uuid", "uuids"), [(f"MIG-{B}/1/0", [f"MIG-{B}/1/0"]), (M1, [])])
def test_the_old_form_of_an_instance_names_one_only_where_uuids_have_it(
    monkeypatch: pytest.MonkeyPatch, uuid: str, uuids: list[str]
) -> None:
    cards = [card(B, 0, mig=Mig.PARENT), card(uuid, 0, mig=Mig.INSTANCE, parent=B)]
    assert visible(monkeypatch, f"MIG-{B}/1/0", cards) == uuids


def test_without_the_variable_every_card_is_visible() -> None:
    assert visible_cards(PARTITIONED) == PARTITIONED


def test_a_variable_that_names_no_card_is_one_warning_and_an_empty_one_is_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    visible(monkeypatch, "")
    assert not caplog.records
    for _ in range(3):
        visible(monkeypatch, "7\x1b[31m")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == ("gua: no GPU metrics: CUDA_VISIBLE_DEVICES is '7\\x1b[31m' and names no card")


def test_an_index_among_different_models_names_no_card_unless_the_order_is_that_of_pci(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mixed = [card(A, 0, model="T4"), card(B, 1)]
    assert visible(monkeypatch, "0", mixed) == [A, B]
    assert "CUDA_DEVICE_ORDER is not PCI_BUS_ID" in caplog.text
    assert visible(monkeypatch, B, mixed) == [B]
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert visible(monkeypatch, "0", mixed) == [A]
