"""Mapping of column names, as nvidia-smi, DCGM and custom recorders write them, to fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from gua.core.errors import DataError

_BRACKET = re.compile(r"[\[(]")
_MEMORY_SUFFIXES = {
    "": "mib",
    "_mb": "mib",  # recorders copy MiB from nvidia-smi and name them MB
    "_mib": "mib",
    "_gb": "gib",
    "_gib": "gib",
    "_kb": "kib",
    "_kib": "kib",
    "_bytes": "b",
}
_STAMP_NAMES: Final = "timestamp time ts datetime @timestamp time_utc"
_SHOWN = {"used": "memory.used", "uuid": "uuid", "index": "index"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Alias:
    """Meaning of a column name. If several columns have one field, the lowest rank is used, then the first."""

    field: str
    unit: str = ""
    rank: int = 0


def _aliases(fields: Mapping[str, str]) -> dict[str, Alias]:
    return {
        name: Alias(field=field, rank=rank)
        for field, names in fields.items()
        for rank, name in enumerate(names.split())
    }


def _memory(fields: Iterable[str], names: str) -> dict[str, Alias]:
    return {
        f"{name.format(field)}{suffix}": Alias(field=field, unit=unit)
        for field in fields
        for name in names.split()
        for suffix, unit in _MEMORY_SUFFIXES.items()
    }


CARD_COLUMNS: Final[Mapping[str, Alias]] = {
    **_aliases(
        {
            "timestamp": _STAMP_NAMES,
            "uuid": "uuid gpu_uuid",
            "host": "host hostname host_name node",
            "index": "index gpu_index gpu_id device_index",
            "name": "name gpu_name model gpu_model",
            "driver": "driver_version driver",
            "pci": "pci_bus_id gpu_bus_id bus_id",
            "mig": "mig_mode_current mig_mode",
            "utilization": "utilization_gpu gpu_util_pct gpu_util gpu_utilization gpu_utilization_pct util_pct "
            "utilization_pct utilization_gpu_pct gpu_util_percent util utilization",
            "encoder": "utilization_encoder encoder_util_pct encoder_util enc_util_pct",
            "decoder": "utilization_decoder decoder_util_pct decoder_util dec_util_pct",
            "power": "power_draw power_draw_average power_draw_instant power_w power_draw_w power_watts power_usage_w",
            "temperature": "temperature_gpu gpu_temp_c gpu_temp temp_c temperature_c temperature_gpu_c temperature",
            "clock_reasons": "clocks_event_reasons_active clocks_throttle_reasons_active",
        }
    ),
    **_memory(("used", "total", "free", "reserved"), "memory_{} mem_{} gpu_memory_{} gpu_mem_{} vram_{}"),
}
"""Columns of cards by normalised name, including those of ``nvidia-smi --help-query-gpu``."""

DMON_COLUMNS: Final[Mapping[str, Alias]] = {
    **CARD_COLUMNS,
    **_aliases(
        {
            "index": "gpu entity",
            "utilization": "sm gputl dcgm_fi_dev_gpu_util dcgm_fi_dev_gpu_util_ratio gpu_utilization 203",
            "encoder": "enc ecutl dcgm_fi_dev_enc_util enc_utilization 206",
            "decoder": "dec dcutl dcgm_fi_dev_dec_util dec_utilization 207",
            "power": "pwr power dcgm_fi_dev_power_usage power_usage 155",
            "temperature": "gtemp tmptr dcgm_fi_dev_gpu_temp gpu_temp 150",
            "clock_reasons": "dvcctr dcgm_fi_dev_clocks_event_reasons dcgm_fi_dev_clock_throttle_reasons 112",
        }
    ),
    **_aliases(
        {
            "used": "fb fbusd dcgm_fi_dev_fb_used fb_used 252",
            "total": "fbttl dcgm_fi_dev_fb_total fb_total 250",
            "free": "fbfre dcgm_fi_dev_fb_free fb_free 251",
            "reserved": "fbrsv dcgm_fi_dev_fb_reserved fb_resv 253",
            "sm_utilization": "smact dcgm_fi_prof_sm_active dcgm_fi_prof_sm_util_ratio sm_active 1002",
            "sm_occupancy": "smocc dcgm_fi_prof_sm_occupancy dcgm_fi_prof_sm_occupancy_ratio 1003",
            "tensor_utilization": "tenso dcgm_fi_prof_pipe_tensor_active dcgm_fi_prof_tensor_util_ratio "
            "tensor_active 1004",
            "memory_bandwidth_utilization": "drama dcgm_fi_prof_dram_active dcgm_fi_prof_dram_util_ratio "
            "dram_active 1005",
        }
    ),
    # The driver's utilization is the share of time in which the graphics engine was busy: the last choice.
    **dict.fromkeys(
        ("gract", "dcgm_fi_prof_gr_engine_active", "gr_engine_active", "1001"),
        Alias(field="utilization", unit="ratio", rank=9),
    ),
}
"""Columns of ``nvidia-smi dmon``, and DCGM fields by short name, name and id (``dcgmi dmon -l``)."""

APP_COLUMNS: Final[Mapping[str, Alias]] = {
    **_aliases({"timestamp": _STAMP_NAMES, "uuid": "gpu_uuid uuid", "pid": "pid", "program": "process_name name"}),
    **_memory(("used",), "{}_gpu_memory {}_memory"),
}
"""Columns of processes (``nvidia-smi --help-query-compute-apps``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Places of the fields in a file's rows (positions in CSV, keys in JSON), and the units in column names."""

    places: Mapping[str, int | str]
    units: Mapping[str, str]

    def row(self, cells: Any) -> dict[str, Any]:  # noqa: ANN401 - a list of CSV cells or a JSON object
        """Return a row's cells by field."""
        return {field: cells[place] for field, place in self.places.items()}


def normalise(name: str) -> tuple[str, str]:
    """Return a column's normalised name and its unit: ``memory.used [MiB]`` becomes ``memory_used`` and ``mib``."""
    text = name.strip().strip("\"'").lstrip("\ufeff").strip().lower()
    unit = ""
    # No regular expression for all of it: with 100,000 brackets that takes quadratic time.
    if text.endswith(("]", ")")) and (
        bracket := _BRACKET.search(text, max(text.rfind(end, 0, -1) for end in "])") + 1)
    ):
        text, unit = text[: bracket.start()].rstrip(), text[bracket.end() : -1].strip()
    return re.sub(r"[\s.\-/]+", "_", text), unit


def layout(names: Iterable[str], columns: Mapping[str, Alias], places: Iterable[int | str] | None = None) -> Layout:
    """Return the places and units of the fields of ``columns`` in a file with these names; unknown names are ignored.

    Without ``places``, the cells are in the order of the names.
    """
    best: dict[str, tuple[int, int | str, str]] = {}
    for name, place in zip(names, count() if places is None else places, strict=False):
        text, unit = normalise(name)
        alias = columns.get(text)
        if alias is None:
            continue
        if alias.field not in best or alias.rank < best[alias.field][0]:
            best[alias.field] = (alias.rank, place, unit or alias.unit)
    return Layout(
        places={field: place for field, (_, place, _) in best.items()},
        units={field: unit for field, (_, _, unit) in best.items()},
    )


CARD_QUERY: Final = ("--query-gpu=timestamp,uuid,memory.used,…", ("timestamp",), ("uuid", "index"), ("used",))
"""The query of nvidia-smi that records cards, and the columns that the file must have: one of each group."""
APP_QUERY: Final = ("--query-compute-apps=timestamp,gpu_uuid,pid,…", ("timestamp",), ("uuid",), ("pid",))
"""The same for processes."""


def require_dmon(file_layout: Layout, where: str) -> None:
    """Raise DataError, with the remedy, unless a dmon recording has card, time, and memory or utilization."""
    if not {"uuid", "index"} & file_layout.places.keys():
        msg = f"{where}: there is no column gpu and no entity: give the output of nvidia-smi dmon or dcgmi dmon"
    elif "timestamp" not in file_layout.places:
        msg = f"{where}: there are no dates and times: record with nvidia-smi dmon -o DT"
    elif not {"used", "utilization"} & file_layout.places.keys():
        msg = (
            f"{where}: there is neither utilization nor memory: "
            "record with nvidia-smi dmon -s um -o DT, or dcgmi dmon -e 203,252"
        )
    else:
        return
    raise DataError(msg)


def require_columns(file_layout: Layout, where: str, query: str, *groups: tuple[str, ...]) -> None:
    """Raise DataError, with missing columns and remedy, unless the file has one column of each group."""
    lacking = [
        " or ".join(_SHOWN.get(field, field) for field in group)
        for group in groups
        if not any(field in file_layout.places for field in group)
    ]
    if lacking:
        raise DataError(f"{where}: there is no column {' and none '.join(lacking)}: record with {query}")
