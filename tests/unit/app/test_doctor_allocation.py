"""What gua doctor says of the sources of allocations, with an agent and without."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gua.allocation.sources import Opener, ReaderLook
from gua.app.doctor.allocation import card_keys, check_allocation
from gua.app.doctor.finding import CheckState, Finding
from gua.app.settings import AllocationSettings, source_openers
from gua.core.allocation import CardKey
from gua.core.errors import UnavailableError

OK, WARNING, SKIPPED = CheckState.OK, CheckState.WARNING, CheckState.SKIPPED
CARD = CardKey("GPU-a", 0)


class Reader:
    def __init__(self, name: str, look: ReaderLook) -> None:
        self.name = name
        self.told = look
        self.asked: list[Sequence[CardKey]] = []
        self.closed = 0

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
        assert since_ms <= now_ms
        self.asked.append(cards)
        return self.told

    def close(self) -> None:
        self.closed += 1


def opener(reader: Reader, found: str | None) -> Opener:
    return Opener(name=reader.name, detect=lambda: found, open=lambda: reader)


def check(openers: Sequence[Opener], status: Mapping[str, Any] | None = None) -> list[Finding]:
    return list(check_allocation(openers, lambda: status, lambda: [CARD], patience_seconds=0))


def source(name: str, reason: str | None = None) -> dict[str, object]:
    return {"source": name, "ok": reason is None, "reason": reason}


FILES = Reader("files", ReaderLook())
GOOD, NONE = opener(FILES, "the folder /run/gua-allocations"), opener(FILES, None)


def test_a_host_without_an_allocation_source_is_reported_as_off() -> None:
    for status in (None, {"allocation_sources": []}):
        (found,) = check([NONE], status)
        assert (found.state, found.detail) == (
            SKIPPED,
            "off, and no source is on this host: a free card may be allocated",
        )


def test_an_agent_that_does_not_read_an_existing_source_is_a_warning() -> None:
    (found,) = check([GOOD], {"allocation_sources": []})
    assert (found.state, found.detail) == (
        WARNING,
        "the agent does not look at it, and there is files: the folder /run/gua-allocations",
    )


def test_each_source_of_the_agent_stands_with_what_it_is_and_why_it_fails() -> None:
    status = {
        "allocation_sources": [source("files"), source("slurm", "squeue gives no answer within 3 s")],
        "allocation_notes": ["Slurm's job 77 on card 0: in no allocation source"],
    }
    assert [(each.state, each.title, each.detail) for each in check([GOOD], status)] == [
        (OK, "allocation, files", "can be read (the folder /run/gua-allocations)"),
        (WARNING, "allocation, slurm", "named, and cannot be read: squeue gives no answer within 3 s"),
        (WARNING, "allocation", "Slurm's job 77 on card 0: in no allocation source"),
    ]


@pytest.mark.parametrize("strange", [{}, {"allocation_sources": None}])
def test_an_agent_from_before_allocations_is_as_none(strange: Mapping[str, Any]) -> None:
    assert [each.detail for each in check([GOOD], strange)] == ["can be read (the folder /run/gua-allocations)"]


@pytest.mark.parametrize("value", [None, 1, "x", [], {}])
def test_whatever_an_agent_answers_is_drawn(value: object) -> None:
    status = {"allocation_sources": [value, {"source": value, "ok": value, "reason": value}], "allocation_notes": value}
    assert check([GOOD], status)


def test_without_an_agent_sources_are_looked_at_once_and_let_go() -> None:
    reader = Reader("slurm", ReaderLook(reason="no cards", notes=("the hooks are silent",)))
    quick = Reader("files", ReaderLook())
    found = check([opener(quick, "a folder"), opener(reader, "scontrol")])
    assert [(each.state, each.detail) for each in found] == [
        (OK, "can be read (a folder)"),
        (WARNING, "scontrol, and cannot be read: no cards"),
        (WARNING, "the hooks are silent"),
    ]
    assert (reader.closed, quick.closed) == (1, 1)
    assert reader.asked[-1] == [CARD]


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "torn.json").write_text('{"source": "si')
    (tmp_path / "good.json").write_text(
        json.dumps({"source": "site", "id": "1", "cards": ["GPU-a"], "since": 1_700_000_000})
    )
    settings = AllocationSettings(folder=tmp_path, pod_resources=tmp_path / "none", sources=("files",))
    files, *_ = source_openers(settings)
    (found,) = check([files])
    assert found.state is WARNING
    assert "torn.json" in found.detail


def test_a_host_whose_driver_cannot_be_read_has_no_cards() -> None:
    class Driver:
        closed = False

        def read(self) -> tuple[Sequence[Any], Sequence[Any]]:
            msg = "the driver is not loaded"
            raise UnavailableError(msg)

        def drain(self) -> None: ...

        def close(self) -> None:
            self.closed = True

    driver = Driver()
    assert card_keys(lambda: driver) == []
    assert driver.closed
