"""Times, intervals and spans: which moment a row is, what it covers, how files become one recording."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gua.core.errors import DataError, UsageError
from gua.core.moments import to_rfc3339
from gua.core.tick import Origin, Tick
from gua.core.words import Source
from gua.imports.recording import Recording, Spacings, Survey
from gua.imports.rows import Reading
from gua.imports.values import Timestamps

ORIGIN = Origin(host="imported", source=Source.IMPORT, interval_ms=1000, instance_id="import")
HEADER = "timestamp, uuid, memory.used [MiB]\n"
DAY = "2026/03/25 "


def write(folder: Path, name: str, rows: Sequence[tuple[str, str]], header: str = HEADER) -> Path:
    path = folder / name
    path.write_text(header + "".join(f"{DAY}{time}, GPU-{card}, 4 MiB\n" for time, card in rows), encoding="utf-8")
    return path


def imported(*files: Path, interval_ms: int | None = None, zone: tzinfo = UTC) -> tuple[Survey, list[Tick]]:
    recording = Recording(files, reading=Reading(timezone=zone))
    found = recording.survey(interval_ms)
    return found, list(recording.ticks(found, ORIGIN))


def spans(ticks: list[Tick]) -> list[tuple[str, str, int]]:
    return [(to_rfc3339(tick.ts_ms)[11:], card.uuid, card.duration_ms) for tick in ticks for card in tick.cards]


def test_rows_of_one_moment_are_one_tick(tmp_path: Path) -> None:
    found, ticks = imported(
        write(tmp_path, "a.csv", [("04:00:00", "a"), ("04:00:00", "b"), ("04:00:30", "a"), ("04:00:30", "b")])
    )
    assert [len(tick.cards) for tick in ticks] == [2, 2]
    assert (found.card_ticks, found.ticks, found.cards) == (4, 2, 2)


def test_a_row_covers_the_interval_but_never_back_over_the_row_before_it(tmp_path: Path) -> None:
    _, ticks = imported(
        write(tmp_path, "a.csv", [("04:00:00", "a"), ("04:00:29.5", "a"), ("04:01:00", "a"), ("04:05:00", "a")]),
        interval_ms=30_000,
    )
    assert [duration for _, _, duration in spans(ticks)] == [30_000, 29_500, 30_000, 30_000]


@given(
    spacings=st.lists(st.integers(min_value=1, max_value=100_000), min_size=1, max_size=30),
    interval_ms=st.integers(1, 50_000),
)
@settings(max_examples=50)
def test_spans_of_a_card_never_overlap_nor_exceed_the_interval(spacings: list[int], interval_ms: int) -> None:
    moments = list(itertools.accumulate(spacings, initial=1_774_414_039_000))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_text(HEADER + "".join(f"{moment}, GPU-a, 4 MiB\n" for moment in moments), encoding="utf-8")
        _, ticks = imported(path, interval_ms=interval_ms)
    assert [tick.ts_ms for tick in ticks] == moments
    for before, tick in itertools.pairwise(ticks):
        duration_ms = tick.cards[0].duration_ms
        assert duration_ms <= interval_ms
        assert tick.ts_ms - duration_ms >= before.ts_ms


def test_the_interval_is_the_median_distance_of_a_cards_rows_rounded_to_a_second(tmp_path: Path) -> None:
    found, _ = imported(
        write(
            tmp_path,
            "a.csv",
            [("04:00:00", "a"), ("04:00:07", "b"), ("04:00:30.06", "a"), ("04:00:37.04", "b"), ("04:02:00", "a")],
        )
    )
    assert (found.interval_ms, found.inferred) == (30_000, True)


def test_rows_closer_than_half_a_second_have_an_interval_of_one_second(tmp_path: Path) -> None:
    found, ticks = imported(write(tmp_path, "a.csv", [("04:00:00", "a"), ("04:00:00.2", "a"), ("04:00:00.4", "a")]))
    assert found.interval_ms == 1000
    assert [duration for _, _, duration in spans(ticks)] == [1000, 200, 200]


@given(st.lists(st.integers(min_value=1, max_value=60_000), min_size=1, max_size=50))
def test_the_median_of_distances_up_to_a_minute_is_exact(distances: list[int]) -> None:
    spacings = Spacings()
    for distance in distances:
        spacings.add(distance)
    low, high = sorted(distances)[(len(distances) - 1) // 2], sorted(distances)[len(distances) // 2]
    assert spacings.nominal_interval_ms() == max(1000, ((low + high) // 2 + 500) // 1000 * 1000)


def test_one_row_does_not_determine_the_interval(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", [("04:00:00", "a")])
    with pytest.raises(UsageError, match="--interval"):
        imported(path)
    assert spans(imported(path, interval_ms=30_000)[1]) == [("04:00:00Z", "GPU-a", 30_000)]


def test_files_are_one_recording_whatever_their_order(tmp_path: Path) -> None:
    first = write(tmp_path, "1.csv", [("04:00:00", "a"), ("04:00:30", "a")])
    second = write(tmp_path, "2.csv", [("04:00:50", "a"), ("04:01:20", "a")])
    beside = write(tmp_path, "3.csv", [("04:00:30", "b"), ("04:01:00", "b")])
    _, ticks = imported(second, beside, first)
    assert spans(ticks) == [
        ("04:00:00Z", "GPU-a", 30_000),
        ("04:00:30Z", "GPU-a", 30_000),
        ("04:00:30Z", "GPU-b", 30_000),
        ("04:00:50Z", "GPU-a", 20_000),
        ("04:01:00Z", "GPU-b", 30_000),
        ("04:01:20Z", "GPU-a", 30_000),
    ]
    assert [len(tick.cards) for tick in ticks] == [1, 2, 1, 1, 1]
    assert imported(first, second, beside)[1] == ticks


def test_a_thousand_daily_files_need_few_open_ones(tmp_path: Path) -> None:
    files = [
        write(tmp_path, f"{n}.csv", [(f"{n // 60:02d}:{n % 60:02d}:{s:02d}", "a") for s in (0, 30)])
        for n in range(1200)
    ]
    assert len(imported(*files)[1]) == 2400


def test_a_row_that_stands_twice_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", [("04:00:00", "a"), ("04:00:00", "a"), ("04:00:30", "a")])
    copy = tmp_path / "copy.csv"
    copy.write_bytes(path.read_bytes())
    for files, duplicates in (((path,), 1), ((path, copy), 4)):
        found, ticks = imported(*files)
        assert (found.card_ticks, found.duplicates) == (2, duplicates)
        assert len(spans(ticks)) == 2


def test_two_different_rows_of_a_card_at_one_time_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}{DAY}04:00:00, GPU-a, 4 MiB\n{DAY}04:00:00, GPU-a, 5 MiB\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.csv:3: card GPU-a has two different rows"):
        imported(path)


def test_times_of_a_card_that_go_back_are_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv:4: the time of card GPU-a goes back by 1s to 2026-03-25T04:00:29Z"):
        imported(write(tmp_path, "a.csv", [("04:00:00", "a"), ("04:00:30", "a"), ("04:00:29", "a")]))


def test_a_file_may_hold_one_card_after_the_other(tmp_path: Path) -> None:
    found, ticks = imported(
        write(tmp_path, "a.csv", [("04:00:00", "a"), ("04:00:30", "a"), ("04:00:00", "b"), ("04:00:30", "b")])
    )
    assert (found.card_ticks, found.cards) == (4, 2)
    assert {duration for _, _, duration in spans(ticks)} == {30_000}


def test_local_times_are_those_of_the_given_zone(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", [("04:00:00", "a"), ("04:00:30", "a")])
    _, ticks = imported(path, zone=ZoneInfo("Europe/Berlin"))
    assert to_rfc3339(ticks[0].ts_ms) == "2026-03-25T03:00:00Z"


def test_the_hour_that_a_clock_shows_twice_in_autumn_is_both_hours() -> None:
    stamps = Timestamps(ZoneInfo("Europe/Berlin"))
    shown = ["01:59:30", "02:00:00", "02:30:00", "02:59:30", "02:00:00", "02:30:00", "02:59:30", "03:00:00"]
    moments = [stamps.parse(f"2026/10/25 {time}.000") for time in shown]
    assert [to_rfc3339(moment)[11:16] for moment in moments] == [
        "23:59", "00:00", "00:30", "00:59", "01:00", "01:30", "01:59", "02:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cell", "moment"),
    [
        ("2026/03/25 04:47:19.043", "2026-03-25T04:47:19.043Z"),
        ("2026-03-25T04:47:19.043999+00:00", "2026-03-25T04:47:19.043Z"),
        ("2026-03-25 04:47:19Z", "2026-03-25T04:47:19Z"),
        ("2026-03-25T04:47:19.5+02:00", "2026-03-25T02:47:19.500Z"),
        ("1774414039", "2026-03-25T04:47:19Z"),
        (1_774_414_039, "2026-03-25T04:47:19Z"),
        (1774414039.043, "2026-03-25T04:47:19.043Z"),
        (1_774_414_039_043, "2026-03-25T04:47:19.043Z"),
        (1_774_414_039_043_000_000, "2026-03-25T04:47:19.043Z"),
    ],
)
def test_times_are_read_in_the_forms_that_recorders_write(cell: str | float, moment: str) -> None:
    assert to_rfc3339(Timestamps(UTC).parse(cell)) == moment
