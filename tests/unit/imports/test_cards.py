"""What becomes of the cells of a row: units, unknowns, reserve, lost cards, names of columns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest

from gua.core.tick import CardReading, Origin, Tick
from gua.core.words import Mig, ProcessList, Source
from gua.imports.recording import Recording
from gua.imports.rows import Reading

MIB = 2**20
ORIGIN = Origin(host="imported", source=Source.IMPORT, interval_ms=1000, instance_id="import")
Import = Callable[..., list[Tick]]


@pytest.fixture
def ticks_of(tmp_path: Path) -> Import:
    def read(text: str, **reading: object) -> list[Tick]:
        path = tmp_path / "recording"
        path.write_text(text, encoding="utf-8")
        recording = Recording([path], reading=Reading(timezone=UTC, **reading))
        return list(recording.ticks(recording.survey(30_000), ORIGIN))

    return read


def only_card(ticks: list[Tick]) -> CardReading:
    ((card,),) = (tick.cards for tick in ticks)
    return card


def test_a_row_of_every_column_becomes_a_card_reading_in_base_units(ticks_of: Import) -> None:
    card = only_card(
        ticks_of(
            "timestamp, index, name, uuid, pci.bus_id, driver_version, mig.mode.current, utilization.gpu [%], "
            "utilization.encoder [%], utilization.decoder [%], memory.total [MiB], memory.reserved [MiB], "
            "memory.used [MiB], memory.free [MiB], power.draw [W], temperature.gpu\n"
            "2026/03/25 04:47:19.043, 3, NVIDIA H100 80GB HBM3, GPU-a, 00000000:65:00.0, 570.86.15, Disabled, 37 %, "
            "1 %, 0 %, 81559 MiB, 468 MiB, 1234 MiB, 79857 MiB, 121.56 W, 40\n"
        )
    )
    assert card == CardReading(
        uuid="GPU-a",
        duration_ms=30_000,
        gpu_time_ms=30_000,
        process_list=ProcessList.ABSENT,
        index=3,
        name="NVIDIA H100 80GB HBM3",
        vendor="NVIDIA",
        driver_version="570.86.15",
        pci="00000000:65:00.0",
        mig=Mig.NONE,
        utilization=0.37,
        utilization_encoder=0.01,
        utilization_decoder=0.0,
        utilization_coverage_ms=0,
        memory_used_bytes=1234 * MIB,
        memory_limit_bytes=81559 * MIB,
        memory_reserved_bytes=468 * MIB,
        power_watts=121.56,
        temperature_celsius=40.0,
    )


def test_columns_come_in_any_order_and_without_units(ticks_of: Import) -> None:
    card = only_card(
        ticks_of(
            "memory.used [MiB], utilization.gpu [%], gpu_uuid, timestamp\n7, 100, GPU-a, 2026/03/25 04:47:19.043\n"
        )
    )
    assert (card.memory_used_bytes, card.utilization) == (7 * MIB, 1.0)


@pytest.mark.parametrize("unknown", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", "", "[Whatever]"])
def test_a_value_unavailable_in_nvidia_smi_is_unknown_and_zero_is_zero(ticks_of: Import, unknown: str) -> None:
    cards = [
        card
        for tick in ticks_of(
            "timestamp, uuid, memory.used [MiB], utilization.gpu [%], power.draw [W], temperature.gpu\n"
            f"2026/03/25 04:47:19.043, GPU-a, 0 MiB, {unknown}, {unknown}, {unknown}\n"
            f"2026/03/25 04:47:49.043, GPU-a, {unknown}, 0 %, 0.00 W, 0\n"
        )
        for card in tick.cards
    ]
    assert [card.memory_used_bytes for card in cards] == [0, None]
    assert [card.utilization for card in cards] == [None, 0.0]
    assert [card.utilization_coverage_ms for card in cards] == [None, 0]
    assert [card.power_watts for card in cards] == [None, 0.0]
    assert [card.temperature_celsius for card in cards] == [None, 0.0]
    assert [card.failed for card in cards] == [None, None]


@pytest.mark.parametrize(
    ("used", "utilization", "failed"),
    [
        ("[GPU is lost]", "[GPU is lost]", True),
        ("[GPU requires reset]", "[N/A]", True),
        ("ERR!", "ERR!", True),
        ("ERR!", "0 %", None),
        ("[N/A]", "[N/A]", None),
        ("[Unknown Error]", "[Unknown Error]", None),
    ],
)
def test_a_card_is_failed_only_if_memory_and_utilization_say_so(
    ticks_of: Import, used: str, utilization: str, *, failed: bool | None
) -> None:
    card = only_card(
        ticks_of(f"timestamp,uuid,memory.used,utilization.gpu\n2026/03/25 04:47:19,GPU-a,{used},{utilization}\n")
    )
    assert card.failed is failed


def test_a_lost_card_without_its_uuid_is_identified_by_its_index(ticks_of: Import) -> None:
    ticks = ticks_of(
        "timestamp, index, uuid, memory.used [MiB], utilization.gpu [%]\n"
        "2026/03/25 04:47:19, 3, GPU-a, 4 MiB, 0 %\n"
        "2026/03/25 04:47:49, 3, [GPU is lost], [GPU is lost], [GPU is lost]\n"
    )
    assert [(card.uuid, card.failed) for tick in ticks for card in tick.cards] == [("GPU-a", None), ("GPU-a", True)]


@pytest.mark.parametrize(
    ("header", "cells", "reserved_mib"),
    [
        ("memory.reserved [MiB], memory.total [MiB], memory.free [MiB]", "468 MiB, 1000 MiB, 900 MiB", 468),
        ("memory.reserved [MiB]", "0 MiB", 0),
        ("memory.reserved [MiB]", "[N/A]", None),
        ("memory.total [MiB], memory.free [MiB]", "1000 MiB, 500 MiB", 400),
        ("memory.total [MiB], memory.free [MiB]", "1000 MiB, 900 MiB", None),
        ("memory.total [MiB], memory.free [MiB]", "1000 MiB, 950 MiB", None),
        ("memory.total [MiB], memory.free [MiB]", "1000 MiB, [N/A]", None),
        ("memory.total [MiB]", "1000 MiB", 0),
    ],
)
def test_the_reserve_is_read_or_computed_and_never_subtracted_from_used(
    ticks_of: Import, header: str, cells: str, reserved_mib: int | None
) -> None:
    card = only_card(
        ticks_of(f"timestamp, uuid, memory.used [MiB], {header}\n2026/03/25 04:47:19, GPU-a, 100 MiB, {cells}\n")
    )
    assert card.memory_used_bytes == 100 * MIB
    assert card.memory_reserved_bytes == (None if reserved_mib is None else reserved_mib * MIB)


def test_a_given_reserve_is_subtracted_from_used_but_not_below_zero(ticks_of: Import) -> None:
    ticks = ticks_of(
        "timestamp, uuid, memory.used [MiB]\n"
        "2026/03/25 04:47:19, GPU-a, 1000 MiB\n"
        "2026/03/25 04:47:49, GPU-a, 400 MiB\n"
        "2026/03/25 04:48:19, GPU-a, [N/A]\n",
        reserve_bytes=600 * MIB,
    )
    cards = [card for tick in ticks for card in tick.cards]
    assert [card.memory_used_bytes for card in cards] == [400 * MIB, 0, None]
    assert {card.memory_reserved_bytes for card in cards} == {600 * MIB}


def test_without_header_the_columns_are_given(ticks_of: Import) -> None:
    ticks = ticks_of(
        "2026/03/25 04:47:19.043, GPU-a, 4 MiB\n2026/03/25 04:47:49.043, GPU-a, 5 MiB\n",
        columns=("timestamp", "gpu_uuid", "memory.used"),
    )
    assert [card.memory_used_bytes for tick in ticks for card in tick.cards] == [4 * MIB, 5 * MIB]


def test_a_header_in_the_file_wins_over_given_columns(ticks_of: Import) -> None:
    card = only_card(
        ticks_of(
            "memory.used [MiB], uuid, timestamp\n4 MiB, GPU-a, 2026/03/25 04:47:19.043\n",
            columns=("timestamp", "uuid", "memory.used"),
        )
    )
    assert card.memory_used_bytes == 4 * MIB


def test_headers_come_again_and_may_change_and_messages_and_blank_lines_are_no_rows(ticks_of: Import) -> None:
    ticks = ticks_of(
        "timestamp, uuid, memory.used [MiB]\n2026/03/25 04:47:19, GPU-a, 4 MiB\n"
        "timestamp, uuid, memory.used [MiB]\n2026/03/25 04:47:49, GPU-a, 5 MiB\n\n"
        "Unable to determine the device handle for GPU 0000:65:00.0: GPU is lost.  Reboot the system\n"
        "memory.used [MiB], uuid, utilization.gpu [%], timestamp\n6 MiB, GPU-a, 50 %, 2026/03/25 04:48:19\n"
    )
    cards = [card for tick in ticks for card in tick.cards]
    assert [card.memory_used_bytes for card in cards] == [4 * MIB, 5 * MIB, 6 * MIB]
    assert [card.utilization for card in cards] == [None, None, 0.5]


def test_byte_order_mark_windows_line_ends_and_quotes_are_read(ticks_of: Import) -> None:
    card = only_card(
        ticks_of('\ufeff"timestamp","uuid","name","memory.used [MiB]"\r\n"2026/03/25 04:47:19","GPU-a","A, B","4"\r\n')
    )
    assert (card.name, card.memory_used_bytes) == ("A, B", 4 * MIB)


def test_without_uuid_the_host_and_the_index_name_the_card(ticks_of: Import) -> None:
    text = "timestamp, host, index, memory.used [MiB]\n2026/03/25 04:47:19, n1, 0, 4\n2026/03/25 04:47:19, n2, 0, 5\n"
    ticks = ticks_of(text)
    assert [(tick.origin.host, tick.cards[0].uuid) for tick in ticks] == [
        ("n1", "imported-n1-0"),
        ("n2", "imported-n2-0"),
    ]
    (tick,) = ticks_of(text, host="rack")
    assert (tick.origin.host, [card.uuid for card in tick.cards]) == ("rack", ["imported-n1-0", "imported-n2-0"])


def test_json_lines_have_named_fields_with_their_usual_aliases(ticks_of: Import) -> None:
    card = only_card(
        ticks_of(
            '{"timestamp": "2026-03-25T04:47:19.043293+00:00", "gpu_name": "L40S", "uuid": "GPU-a", "gpu_id": 2, '
            '"mem_used_mb": 0.0, "mem_total_mb": 46068.0, "mem_free_mb": 45589.0, "gpu_util_pct": 0, "power_w": 35.3, '
            '"gpu_temp_c": null, "phase": {"n": [1]}}\n'
        )
    )
    assert (card.name, card.index, card.memory_used_bytes, card.utilization) == ("L40S", 2, 0, 0.0)
    assert (card.power_watts, card.temperature_celsius) == (35.3, None)
    assert card.memory_reserved_bytes == 479 * MIB


def test_json_rows_may_differ_in_their_fields_and_nan_is_unknown(ticks_of: Import) -> None:
    ticks = ticks_of(
        '{"ts": 1774414039, "uuid": "GPU-a", "memory_used_bytes": 1024, "util": NaN}\n'
        '{"ts": 1774414069.5, "uuid": "GPU-a", "mem_used_gb": 1.5, "gpu_util": 12}\n'
    )
    assert [(tick.ts_ms, tick.cards[0].memory_used_bytes, tick.cards[0].utilization) for tick in ticks] == [
        (1_774_414_039_000, 1024, None),
        (1_774_414_069_500, 1536 * MIB, 0.12),
    ]
