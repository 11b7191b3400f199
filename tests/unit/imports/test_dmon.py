"""What nvidia-smi dmon and dcgmi dmon print, as people keep it: both forms, both tools, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gua.core.errors import DataError
from gua.core.facts import card_facts
from gua.core.rules import Rules, classify
from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import ProcessList, Source
from gua.imports.recording import Recording
from gua.imports.rows import Reading

MIB = 2**20
ORIGIN = Origin(host="imported", source=Source.IMPORT, interval_ms=1000, instance_id="import")
Read = Callable[..., Recording]

# nvidia-smi dmon -i 0,1 -s pucvmet -d 10 -o DT, driver 550: the header comes again.
TEXT = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  pviol  tviol \
    fb   bar1   ccpm  sbecc  dbecc    pci  rxpci  txpci
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %      %      %    MHz    MHz      %   bool \
    MB     MB     MB   errs   errs   errs   MB/s   MB/s
 20260325   04:47:10      0     71     32     33      0      0      0      0      0      0   2619   1980      0      0 \
    14      1      0      0      0      0      0      0
 20260325   04:47:10      1    412     55     60     97     40      -      3      0      0   2619   1755      2      0 \
 70123      3      0      0      0      0     12      5
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  pviol  tviol \
    fb   bar1   ccpm  sbecc  dbecc    pci  rxpci  txpci
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %      %      %    MHz    MHz      %   bool \
    MB     MB     MB   errs   errs   errs   MB/s   MB/s
 20260325   04:47:20      0     72     32     33      4      0      0      0      0      0   2619   1980      0      0 \
  5120      1      0      0      0      0      0      0
 20260325   04:47:20      1      -      -      -      -      -      -      -      -      -      -      -      -      - \
     -      -      -      -      -      -      -      -
"""
DCGM = """\
2026-03-25T04:47:10+0100 #Entity   GPUTL       POWER           FBTTL       FBUSD       FBRSV       SMACT   DVCCTR
2026-03-25T04:47:10+0100 ID                    W
2026-03-25T04:47:10+0100 GPU 0     97          412.345         81559       70123       468         0.312   4
2026-03-25T04:47:10+0100 GPU-I 3   N/A         N/A             N/A         N/A         N/A         N/A     N/A
2026-03-25T04:47:20+0100 GPU 0     N/A         71.000          81559       14          468         N/A     N/A
2026-03-25T04:47:21+0100 \n2026-03-25T04:47:21+0100 dmon was stopped due to receiving a signal
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def recording(text: str, zone: tzinfo = UTC, **reading: object) -> Recording:
        path = tmp_path / "dmon.log"
        path.write_text(text, encoding="utf-8")
        return Recording([path], reading=Reading(timezone=zone, is_dmon=True, **reading))

    return recording


def ticks(recording: Recording, interval_ms: int | None = 10_000) -> list[Tick]:
    return list(recording.ticks(recording.survey(interval_ms), ORIGIN))


def cards(recording: Recording) -> list[CardReading]:
    return [card for tick in ticks(recording) for card in tick.cards]


def states(recording: Recording) -> list[str]:
    return [str(classify(card_facts(card), Rules()).state) for card in cards(recording)]


def test_each_row_of_nvidia_smi_is_a_card_tick_whatever_groups_it_has(read: Read) -> None:
    recording = read(TEXT, host="n1")
    first, second, later, lost = cards(recording)
    assert [tick.ts_ms for tick in ticks(recording)] == [1_774_414_030_000, 1_774_414_040_000]
    assert first == CardReading(
        uuid="imported-n1-0",
        duration_ms=10_000,
        gpu_time_ms=10_000,
        process_list=ProcessList.ABSENT,
        index=0,
        vendor="NVIDIA",
        utilization=0.0,
        utilization_encoder=0.0,
        utilization_decoder=0.0,
        utilization_coverage_ms=0,
        memory_used_bytes=14 * MIB,
        memory_reserved_bytes=0,
        power_watts=71.0,
        temperature_celsius=32.0,
    )
    assert (second.index, second.utilization, second.utilization_encoder) == (1, 0.97, None)
    assert (second.utilization_decoder, second.memory_used_bytes) == (0.03, 70_123 * MIB)
    assert (later.utilization, later.memory_used_bytes) == (0.04, 5120 * MIB)
    assert (lost.utilization, lost.memory_used_bytes, lost.power_watts, lost.failed) == (None, None, None, None)


def test_imported_cards_have_no_holders_and_are_never_idle_with_unknown_values(read: Read) -> None:
    assert [card.processes for card in cards(read(TEXT))] == [()] * 4
    assert states(read(TEXT)) == ["truly-idle", "active", "idle-held", "unknown"]


def test_without_memory_a_card_that_does_nothing_is_unknown(read: Read) -> None:
    recording = read(
        "#Date Time gpu sm mem\n#YYYYMMDD HH:MM:SS Idx % %\n20260325 04:47:10 0 9 1\n20260325 04:47:20 0 10 1\n"
    )
    assert states(recording) == ["unknown", "active"]
    assert (recording.assumed.memory_unknown, recording.assumed.reserve_excluded) == (True, False)


@pytest.mark.parametrize("has_units", [True, False])
def test_its_csv_is_the_same(read: Read, *, has_units: bool) -> None:
    csv = "\n".join(
        ",".join(line.split()) if number % 2 else ", ".join(line.split())
        for number, line in enumerate(TEXT.splitlines())
        if has_units or "YYYYMMDD" not in line
    )
    assert ticks(read(csv + "\n")) == ticks(read(TEXT))


def test_fields_of_dcgm_are_known_by_their_short_names(read: Read) -> None:
    recording = read(DCGM)
    busy, idle = cards(recording)
    assert [tick.ts_ms for tick in ticks(recording)] == [1_774_410_430_000, 1_774_410_440_000]
    assert (busy.uuid, busy.index, busy.utilization, busy.power_watts) == ("imported-imported-0", 0, 0.97, 412.345)
    assert (busy.memory_limit_bytes, busy.memory_used_bytes) == (81_559 * MIB, 70_123 * MIB)
    assert (busy.memory_reserved_bytes, busy.clock_reasons, idle.clock_reasons) == (468 * MIB, 4, None)
    assert (idle.utilization, idle.memory_used_bytes) == (None, 14 * MIB)
    assert states(recording) == ["active", "truly-idle"]
    assert not recording.assumed.times_without_offset
    assert recording.left_out[0].endswith("dmon.log:4: GPU-I 3 is no whole GPU")
    assert recording.left_out_lines == 1


@pytest.mark.parametrize(
    "header",
    [
        "timestamp,gpu,203,252,155",
        "timestamp,gpu,DCGM_FI_DEV_GPU_UTIL,DCGM_FI_DEV_FB_USED,DCGM_FI_DEV_POWER_USAGE",
        "time,gpu_id,gpu_utilization,fb_used,power_usage",
    ],
)
def test_so_they_are_by_id_and_by_name_in_csv(read: Read, header: str) -> None:
    (card,) = cards(read(f"{header}\n2026-03-25T04:47:10Z,3,37,512,100.5\n"))
    assert (card.index, card.utilization, card.memory_used_bytes, card.power_watts) == (3, 0.37, 512 * MIB, 100.5)


def test_engine_activity_stands_for_utilization_where_nothing_else_does(read: Read) -> None:
    row = "1774410430.5 GPU 0 0.250"
    assert cards(read(f"#Entity GRACT\nID\n{row}\n"))[0].utilization == 0.25
    assert cards(read(f"#Entity GRACT GPUTL\nID\n{row} 7\n"))[0].utilization == 0.07
    with pytest.raises(DataError, match=r"utilization\.gpu is 1\.5, not within 0 and 1"):
        cards(read("#Entity GRACT\n1774410430 GPU 0 1.500\n"))


def test_activity_comes_with_its_fields(read: Read) -> None:
    header = "timestamp,gpu,GPUTL,SMACT,1003,DCGM_FI_PROF_PIPE_TENSOR_ACTIVE,DRAMA\n"
    first, second = cards(read(f"{header}1774410430,0,97,0.312,0.1,0,N/A\n1774410440,0,97,N/A,N/A,N/A,N/A\n"))
    activity = (first.sm_utilization, first.sm_occupancy, first.tensor_utilization, first.memory_bandwidth_utilization)
    assert activity == (0.312, 0.1, 0.0, None)
    assert (second.sm_utilization, second.sm_occupancy) == (None, None)
    with pytest.raises(DataError, match="sm_utilization is 31, not within 0 and 1"):
        cards(read("timestamp,gpu,GPUTL,SMACT\n1774410430,0,97,31\n"))


def test_cards_may_be_named_by_number_and_then_all_of_them_are(read: Read) -> None:
    assert [card.uuid for card in cards(read(TEXT, cards=("GPU-a", "GPU-b")))] == ["GPU-a", "GPU-b"] * 2
    with pytest.raises(DataError, match=r":4: GPU 1 is not among the 1 of --cards \(name it, too\)"):
        cards(read(TEXT, cards=("GPU-a",)))


def test_a_header_that_changes_its_columns_counts_from_there_on(read: Read) -> None:
    text = "#Date Time gpu sm fb\n20260325 04:47:10 0 9 1\n#Date Time gpu fb sm\n20260325 04:47:20 0 9 1\n"
    assert [(card.utilization, card.memory_used_bytes) for card in cards(read(text))] == [
        (0.09, MIB),
        (0.01, 9 * MIB),
    ]


def test_times_are_in_a_zone_and_the_repeated_hour_is_resolved(read: Read) -> None:
    rows = [f"20261025 {time} 0 5 9\n" for time in ("02:30:00", "02:59:00", "02:01:00", "02:30:00", "03:00:00")]
    recording = read("#Date Time gpu sm fb\n" + "".join(rows), ZoneInfo("Europe/Berlin"))
    at = [tick.ts_ms // 60_000 for tick in ticks(recording)]
    assert [later - at[0] for later in at] == [0, 29, 31, 60, 90]
    assert recording.assumed.times_without_offset


def test_a_hole_is_a_hole_and_a_row_stands_for_the_interval_alone(read: Read) -> None:
    rows = [f"20260325 04:{minute:02}:00 0 50 9\n" for minute in (0, 1, 2, 30)]
    recording = read("#Date Time gpu sm fb\n" + "".join(rows))
    assert [card.duration_ms for tick in ticks(recording, None) for card in tick.cards] == [60_000] * 4


def test_a_row_with_a_number_sign_is_a_damaged_row_and_no_header(read: Read) -> None:
    lines = DCGM.splitlines(keepends=True)
    lines.insert(4, lines[4].replace("N/A", "9# ", 1))
    with pytest.raises(DataError, match=r":5: utilization\.gpu is '9#', not a number: correct or remove the line$"):
        ticks(read("".join(lines)))


def test_it_is_the_same_twice_and_a_torn_end_is_left_out(read: Read) -> None:
    recording = read(TEXT + " 20260325   04:47:30      0     72     3")
    whole = ticks(recording)
    assert whole == ticks(recording)
    assert recording.left_out[0].endswith("dmon.log:9: the last line is cut off")
    assert whole == ticks(read(TEXT))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "# gpu sm mem\n# Idx % %\n    0  3  1\n",
            r":1: there are no dates and times: record with nvidia-smi dmon -o DT",
        ),
        ("#Time gpu sm\n04:47:10 0 3\n", r":1: there are no dates and times: record with nvidia-smi dmon -o DT"),
        ("#Date gpu sm\n20260325 0 3\n", r":1: there are no dates and times: record with nvidia-smi dmon -o DT"),
        ("#Entity GPUTL\nID\nGPU 0  3\n", r":3: there are no times, and dcgmi dmon prints none: record with .* ts "),
        (
            "#Date Time gpu pclk\n20260325 04:47:10 0 3\n",
            r":1: there is neither utilization nor memory: .* -s um -o DT",
        ),
        ("#Date Time sm fb\n20260325 04:47:10 0 3\n", r":1: there is no column gpu and no entity"),
        ("20260325, 04:47:10, 0, 3\n", r":1: the line stands before any header: record without noheader"),
        ("20260325 04:47:10 0 3\n", r":1: the line stands before any header: record without noheader"),
        ("04:47 0 3\n#Date Time gpu sm\n", r":1: the line stands before any header: record without noheader"),
        ("#Date Time gpu sm\n20260325 04:47:10 0\n", r":2: the row has 3 fields, 4 are expected: correct or remove"),
        ("#Date Time gpu sm\n2026032 04:47:10 0 5\n", r":2: timestamp is '2026032 04:47:10', not a time"),
        ("#Date Time gpu sm\n20260325 04:47:10 x 5\n", r":2: index is 'x', not a number"),
        ("#Date Time gpu sm\n20260325 04:47:10 - 5\n", r":2: the row has neither uuid nor index"),
        ("#Date Time gpu sm\n20260325 04:47:10 0 500\n", r":2: utilization\.gpu is 500, not within 0 and 100"),
        ("#Entity GPUTL\n1774410430 GPU x 5\n", r":2: the row does not begin with a time and GPU and its number"),
        ("#Entity GPUTL\nJan 31 04:47:10 GPU 0 5\n", r":2: timestamp is 'Jan 31 04:47:10', not a time"),
        ("#Entity DVNAM GPUTL\n1774410430 GPU 0 NVIDIA H100 5\n", r":2: the row has 4 fields, 3 are expected"),
        ("#Date Time gpu sm\n", r"has no rows"),
        ("#Date Time gpu sm\n20260325 04:47:10 0 1\n20260325 04:47:10 0 2\n", r":3: card .* two different rows"),
        ("#Date Time gpu sm\n20260325 04:47:10 0 1\n20260325 04:46:00 0 2\n", r":3: the time of card .* goes back"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_what_to_do(read: Read, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as refused:
        read(text).survey(10_000)
    assert "\n" not in str(refused.value)


def test_a_message_between_rows_is_left_out_and_named(read: Read) -> None:
    text = (
        "#Date Time gpu sm\n20260325 04:47:10 0 1\nGPU is lost. Reboot the system to recover\n20260325 04:47:20 0 1\n"
    )
    recording = read(text)
    assert recording.survey(10_000).card_ticks == 2
    assert recording.left_out_lines == 1
