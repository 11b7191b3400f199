"""Several readers as one source."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gua.allocation.sources import Opener, ReaderLook, Sources, detect_sources, open_sources
from gua.core.allocation import Allocation, CardKey, SourceHealth
from gua.core.errors import UsageError


class Reader:
    """Answers what a test says, or raises it."""

    def __init__(self, name: str, answer: ReaderLook | Exception) -> None:
        self.name = name
        self.answer = answer
        self.closed = False

    def look(self, since_ms: int, now_ms: int, cards: Sequence[CardKey]) -> ReaderLook:
        assert (since_ms, now_ms, cards) == (0, 1, ())
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.closed = True
        raise OSError


def allocation(source: str, number: str, owner: str) -> Allocation:
    return Allocation(source=source, id=number, cards=frozenset({"GPU-a"}), since_ms=1, owner=owner)


def test_allocations_of_all_readers_are_merged_and_the_first_wins() -> None:
    sources = Sources(
        [
            Reader("files", ReaderLook(allocations=(allocation("slurm", "1", "file"),))),
            Reader(
                "slurm", ReaderLook(allocations=(allocation("slurm", "1", "poll"), allocation("slurm", "2", "poll")))
            ),
        ]
    )
    look = sources.look(0, 1, ())
    assert [(each.id, each.owner) for each in look.allocations] == [("1", "file"), ("2", "poll")]
    assert look.sources == (SourceHealth(source="files"), SourceHealth(source="slurm"))
    assert look.is_known("GPU-a")


def test_one_that_fails_or_raises_costs_no_other() -> None:
    sources = Sources(
        [
            Reader("files", ReaderLook(reason="bad.json: torn", allocations=(allocation("lab", "1", "a"),))),
            Reader("slurm", RuntimeError("secret")),
            Reader("kubernetes", ReaderLook(unknown_cards=frozenset({"GPU-b"}))),
        ]
    )
    look = sources.look(0, 1, ())
    assert len(look.allocations) == 1
    assert [each.reason for each in look.sources] == ["bad.json: torn", "unexpected RuntimeError", None]
    assert look.sources[2].unknown_cards == {"GPU-b"}


def test_reasons_and_notes_are_safe_for_terminals_and_short() -> None:
    evil = "a\x1b[31m\nb\u202e" + "c" * 1000
    sources = Sources([Reader("files", ReaderLook(reason=evil, notes=(evil,) * 100))])
    [health] = sources.look(0, 1, ()).sources
    assert health.reason is not None
    assert health.reason.startswith("a[31m bccc")
    assert len(health.reason) <= 160
    assert sources.notes == (health.reason,) * 20


def test_a_reason_with_a_long_path_is_shortened_in_the_middle() -> None:
    reason = f"/{'home/' * 100}allocations: No such file or directory"
    [health] = Sources([Reader("files", ReaderLook(reason=reason))]).look(0, 1, ()).sources
    assert health.reason is not None
    assert len(health.reason) <= 160
    assert health.reason.startswith("/home/home/")
    assert health.reason.endswith("/allocations: No such file or directory")
    assert "..." in health.reason


def test_all_are_closed_whatever_happens() -> None:
    readers = [Reader("files", ReaderLook()), Reader("slurm", ReaderLook())]
    Sources(readers).close()
    assert all(reader.closed for reader in readers)


def openers(*found: str) -> list[Opener]:
    def opener(name: str) -> Opener:
        return Opener(
            name=name,
            detect=lambda: f"a {name}" if name in found else None,
            open=lambda: Reader(name, ReaderLook()),
        )

    return [opener(name) for name in ("files", "slurm", "kubernetes")]


@pytest.mark.parametrize(
    ("names", "found", "expected"),
    [
        (["slurm"], [], ("slurm",)),
        (["slurm", "files", "slurm"], [], ("files", "slurm")),
        (["auto"], ["kubernetes"], ("kubernetes",)),
        (["auto", "files"], ["slurm"], ("files", "slurm")),
    ],
)
def test_sources_are_opened_by_name_or_as_they_are_found(
    names: list[str], found: list[str], expected: tuple[str, ...]
) -> None:
    sources = open_sources(names, openers(*found))
    assert sources is not None
    assert sources.names == expected


def test_no_source_is_none() -> None:
    assert open_sources([], openers("files")) is None
    assert open_sources(["auto"], openers()) is None


def test_an_unknown_name_is_refused_in_one_line() -> None:
    with pytest.raises(
        UsageError, match="'pbs' is no source of allocations: take one of files, slurm, kubernetes, auto"
    ):
        open_sources(["pbs"], openers())


def test_detected_sources_are_described() -> None:
    assert detect_sources(openers("slurm", "files")) == [("files", "a files"), ("slurm", "a slurm")]
