"""What an agent sends of an hour in which much changes is, to the byte, what it sent before somebody made it faster."""

from __future__ import annotations

import lzma
from itertools import zip_longest
from pathlib import Path

import pytest

from fakes.hour import TICKS, an_hour
from gua.core.words import AllocationStatus, Mig, Relation
from gua.otlp.decode import decode

KEPT = Path(__file__).parents[2] / "fixtures" / "ticks" / "hour.xz"
_LENGTH_BYTES = 4


def _packed(requests: list[bytes]) -> bytes:
    return lzma.compress(b"".join(len(one).to_bytes(_LENGTH_BYTES, "big") + one for one in requests), preset=9)


def _unpacked(data: bytes) -> list[bytes]:
    content, requests = lzma.decompress(data), []
    while content:
        end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "big")
        requests.append(content[_LENGTH_BYTES:end])
        content = content[end:]
    return requests


def test_each_request_of_an_hour_is_what_it_was(request: pytest.FixtureRequest) -> None:
    made = list(an_hour())
    if request.config.getoption("--update-golden"):
        KEPT.write_bytes(_packed(made))
    for number, (now, before) in enumerate(zip_longest(made, _unpacked(KEPT.read_bytes()))):
        if now != before:  # in words: 24 kB of protobuf are unreadable
            assert now is not None, f"tick {number} is no longer made"
            assert before is not None, f"tick {number} was not made before"
            assert decode(now) == decode(before)
            pytest.fail(f"tick {number}: the same values in other bytes; look, then run pytest --update-golden")


def test_the_hour_has_what_is_hard_to_make_fast() -> None:
    ticks = [decode(one) for one in _unpacked(KEPT.read_bytes())]
    cards = [card for tick in ticks for card in tick.cards]
    assert len(ticks) == TICKS
    assert {card.mig for card in cards} == {Mig.NONE, Mig.PARENT, Mig.INSTANCE}
    assert {card.failed for card in cards} >= {True, False}
    assert {card.allocation for card in cards} == set(AllocationStatus)
    assert {each.relation for card in cards for each in card.allocations} == {*Relation} - {Relation.SOLE}
    assert any(0 < each.duration_ms < card.duration_ms for card in cards for each in card.allocations)
    assert any(each.reason for tick in ticks for each in tick.allocation_sources)
    sampled = [card for card in cards if card.idle_energy_coverage_ms]
    assert any((card.idle_energy_coverage_ms or 0) < (card.idle_time_ms or 0) for card in sampled)
    assert len(sampled) < sum(card.idle_time_ms is not None for card in cards)
    assert any(card.power_watts is None for card in cards if card.mig is Mig.NONE)
    assert len({one.pid for card in cards for one in card.processes}) > 50
