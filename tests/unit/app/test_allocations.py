"""Which sources of allocations an agent looks at, by its options."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gua.allocation.sources import ReaderLook, Sources
from gua.app.settings import (
    SOURCES,
    AllocationSettings,
    chosen_sources,
    open_allocations,
    own_pod,
    poll_seconds,
    settle,
    source_openers,
)
from gua.core.allocation import CardKey
from gua.core.errors import UsageError


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (None, ("auto",)),
        ([], ("auto",)),
        (["off"], ()),
        (["OFF ", "off"], ()),
        (["slurm", "files", "Slurm"], ("slurm", "files")),
        (["auto", "slurm"], ("auto", "slurm")),
    ],
)
def test_sources_are_named_and_found_by_themselves_if_not(names: list[str] | None, chosen: tuple[str, ...]) -> None:
    assert chosen_sources(names) == chosen


@pytest.mark.parametrize("names", [["lsf"], ["slurm", "x\x1b[2J"], [""], ["off", "slurm"], ["slurm,files"]])
def test_what_is_no_source_is_refused_in_one_line(names: list[str]) -> None:
    with pytest.raises(UsageError, match="--allocation") as caught:
        chosen_sources(names)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [(None, None), ("60s", 60.0), ("5m", 300.0), ("30s", 30.0), ("off", 0.0), (" 0", 0.0)]
)
def test_slurm_poll_takes_an_interval_or_off(text: str | None, seconds: float | None) -> None:
    assert poll_seconds(text) == seconds


@pytest.mark.parametrize("text", ["29s", "1ms", "often", ""])
def test_a_slurm_poll_interval_that_is_too_short_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--slurm-poll"):
        poll_seconds(text)


def test_every_source_that_can_be_named_can_be_opened() -> None:
    assert tuple(opener.name for opener in source_openers(AllocationSettings())) == SOURCES


def test_off_opens_nothing() -> None:
    assert open_allocations(AllocationSettings(sources=())) is None


def test_files_are_read_where_the_settings_say(tmp_path: Path) -> None:
    content = {"source": "site", "id": "1", "owner": "ada", "cards": ["GPU-a"], "since": 1_700_000_000}
    tmp_path.chmod(0o755)
    (tmp_path / "one.json").write_text(json.dumps(content))
    sources = open_allocations(AllocationSettings(sources=("files",), folder=tmp_path))
    assert sources is not None
    now_ms = time.time_ns() // 1_000_000
    look = sources.look(now_ms - 1_000, now_ms, [CardKey("GPU-a", 0)])
    assert [(each.source, each.reason) for each in look.sources] == [("files", None)]
    assert [(each.source, each.id, each.owner) for each in look.allocations] == [("site", "1", "ada")]
    sources.close()


def test_available_sources_are_detected_and_without_any_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    nowhere = AllocationSettings(folder=tmp_path / "none", pod_resources=tmp_path / "none.sock")
    assert open_allocations(nowhere) is None
    found = open_allocations(AllocationSettings(folder=tmp_path, pod_resources=tmp_path / "none.sock"))
    assert found is not None
    assert found.names == ("files",)
    found.close()


def test_the_own_pod_is_known_only_if_both_variables_of_the_manifest_are_set() -> None:
    assert own_pod({"POD_NAMESPACE": "gua", "POD_NAME": "gua-x"}) == ("gua", "gua-x")
    assert own_pod({"POD_NAMESPACE": "gua"}) is None
    assert own_pod({"POD_NAMESPACE": "", "POD_NAME": "gua-x"}) is None


class Late:
    """A reader that answers at the third look."""

    name = "late"

    def __init__(self) -> None:
        self.looks = 0

    def look(self, *_: object) -> ReaderLook:
        self.looks += 1
        return ReaderLook(reason="no answer yet" if self.looks < 3 else None)

    def close(self) -> None:
        pass


def test_a_single_tick_waits_for_background_sources_up_to_a_limit() -> None:
    late = Late()
    settle(Sources([late]))
    assert late.looks == 3
    never = Late()
    never.looks = -(10**6)
    settle(Sources([never]), patience_seconds=0.0)
    assert never.looks == -(10**6) + 1
