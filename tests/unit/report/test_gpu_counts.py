"""How many GPUs and MIG instances there are, in words that add up."""

from __future__ import annotations

import pytest

from fakes.store import UNTIL_MS, card, lab, whole
from gua.report.collect import collect
from gua.report.kit.fields import filled
from gua.report.kit.words import PartOfGpu, cards_in_words, gpus_in_words, parts
from gua.report.model import Card
from gua.report.rows import OVERVIEW
from gua.report.sections.groups import added, group_of
from gua.report.window import ReportRequest

WHOLE: list[PartOfGpu] = [("a", "none", None), ("b", None, None)]
CUT: list[PartOfGpu] = [("c", "parent", None), ("c1", "instance", "c"), ("c2", "instance", "c")]
SECOND: list[PartOfGpu] = [("d", "parent", None), *((f"d{number}", "instance", "d") for number in range(5))]


@pytest.mark.parametrize(
    ("cards", "words", "apart"),
    [
        ([], "0 GPUs", "0 GPUs"),
        (WHOLE[:1], "1 GPU", "1 GPU"),
        (WHOLE, "2 GPUs", "2 GPUs"),
        ([(str(number), "none", None) for number in range(1_200)], "1,200 GPUs", "1,200 GPUs"),
        ([*WHOLE, *CUT], "3 GPUs (one in 2 MIG instances)", "2 GPUs and 2 MIG instances"),
        ([*WHOLE, *CUT[:2]], "3 GPUs (one in 1 MIG instance)", "2 GPUs and 1 MIG instance"),
        ([*WHOLE, *CUT, *SECOND], "4 GPUs (2 in 7 MIG instances)", "2 GPUs and 7 MIG instances"),
        (CUT, "1 GPU (in 2 MIG instances)", "2 MIG instances"),
        ([*CUT, *SECOND], "2 GPUs (in 7 MIG instances)", "7 MIG instances"),
        ([*WHOLE, CUT[0]], "3 GPUs (one in no MIG instance)", "2 GPUs"),
        # Whole by its newest tick, in instances before: they were seen, and so was it.
        ([*WHOLE, ("c", "none", None), *CUT[1:]], "3 GPUs (one in 2 MIG instances)", "3 GPUs and 2 MIG instances"),
        # Their GPU is unknown.
        ([("x", "instance", None), ("y", "instance", None)], "2 GPUs (in 2 MIG instances)", "2 MIG instances"),
    ],
)
def test_gpus_and_their_instances_add_up(cards: list[PartOfGpu], words: str, apart: str) -> None:
    assert gpus_in_words(cards) == words
    assert gpus_in_words(reversed(cards)) == words
    assert cards_in_words(mig for _, mig, _ in cards) == apart


def cards_of(host: str) -> list[Card]:
    """Return the cards of a host with one whole GPU and one in two instances."""
    rows = [
        card(host, "GPU-whole", (1.0, 0.0, 0.0, 0.0)),
        card(host, "GPU-cut", (0.0, 0.0, 1.0, 0.0), mig="parent"),
        *(card(host, f"MIG-{one}", (0.0, 1.0, 0.0, 0.0), mig="instance", parent="GPU-cut") for one in "ab"),
    ]
    return [filled(Card, row, states=row.state_times) for row in OVERVIEW.parsed(whole(OVERVIEW, row) for row in rows)]


def test_a_gpu_is_one_of_its_host() -> None:
    assert gpus_in_words(parts([*cards_of("node-1"), *cards_of("node-2")])) == "4 GPUs (2 in 4 MIG instances)"


def test_groups_add_up_to_the_gpus_of_the_heading_and_call_slices_no_card() -> None:
    groups = [group_of(host, cards_of(host)) for host in ("node-1", "node-2")]
    assert [(one.gpus, one.cards) for one in [*groups, added(groups)]] == [(2, 3), (2, 3), (4, 6)]


def test_the_cards_of_a_report_are_counted_in_gpus_and_instances() -> None:
    report = collect(lab(), ReportRequest(now_ms=UNTIL_MS, since="2d"))
    assert gpus_in_words(parts(report.cards)) == "5 GPUs (one in 1 MIG instance)"
