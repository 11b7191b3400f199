"""Card ticks in columns as rows of an embedded store's tables, or as ticks for other destinations."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from gua.core import fields
from gua.core.facts import split_gpu_time
from gua.core.fields import PointForm
from gua.core.tick import AllocationReading, AllocationSourceReading, CardReading, Origin, Tick
from gua.core.words import AllocationStatus, ProcessList, Relation, Source
from gua.imports.prometheus.card_ticks import CardTicks
from gua.imports.prometheus.cards import KUBERNETES, SLURM, Attribution
from gua.imports.prometheus.series import Scrapes, has_own_series
from gua.imports.prometheus.survey import DRA, Inventory
from gua.otlp.resource import origin_elsewhere
from gua.store.tick_rows import TABLES, TableLines

_VENDOR: Final = "NVIDIA"
_INSTANCE_ID: Final = "import"
_KIND: Final = {KUBERNETES: "pod", SLURM: "job"}
_COLUMNS: Final = {table: {column.name: column for column in columns} for table, columns in TABLES.items()}
_text = json.JSONEncoder(ensure_ascii=False).encode


def origin_of(ticks: CardTicks, found: Inventory) -> Origin:
    """Return the origin of a card's ticks, with what they rest on as an attribute."""
    job = next(iter(ticks.scrapes[-1]), None)
    has_dra = bool(found.directory.dra_jobs) and (job is None or job.source == KUBERNETES)
    return _origin(ticks.card.host, ticks.interval_ms, basis(ticks, has_dra=has_dra), ticks.card.cluster or "")


@lru_cache(maxsize=4096)
def _origin(host: str, interval_ms: int, text: str, cluster: str) -> Origin:
    made = origin_elsewhere(Source.IMPORT, host, interval_ms, instance_id=_INSTANCE_ID)
    own = {fields.IMPORT_BASIS: text, **({"k8s.cluster.name": cluster} if cluster else {})}
    return replace(made, attributes=tuple(sorted({**dict(made.attributes), **own}.items())))


def basis(ticks: CardTicks, *, has_dra: bool = False) -> str:
    """Return in a sentence what a card's ticks rest on: exporter, resolution, and what utilization is."""
    what = ticks.exporter.sampled
    if ticks.step_ms:
        text = f"steps of {ticks.step_ms / 1000:g} s by Prometheus, each with the mean of its samples ({what})"
    else:
        text = f"a sample stands for the {ticks.interval_ms / 1000:g} s before it; utilization is {what}"
    return f"{ticks.exporter.name}: {text}{f'; {DRA}' if has_dra else ''}"


def gpu_times(ticks: CardTicks) -> list[int]:
    """Return the GPU time of each tick [ms]: its duration, of a MIG instance by its slices."""
    slices, total = ticks.card.slices, ticks.card.total
    return [duration * slices // total for duration in ticks.duration_ms]


def parts_of(
    ticks: CardTicks, scrapes: Scrapes, duration_ms: int, gpu_ms: int
) -> tuple[list[tuple[Attribution, Relation, int, int]], int]:
    """Return a tick's allocations as (attribution, relation, duration, GPU time), and its unallocated GPU time; in ms.

    GPU time is divided by the scrapes of each. While one pod or job alone had the card, what the card did was its own
    (``sole``); of several at once it is unknown which of them used the card.
    """
    counts = {one: count for one, count in scrapes.items() if one is not None}
    most, of_each, without = max(counts.values(), default=0), sum(counts.values()), scrapes.get(None, 0)
    if has_own_series(scrapes, ticks.full):
        without = max(0, without - of_each)
    several = without + of_each > ticks.full
    left = gpu_ms * without // max(without + (most if several else of_each), 1)
    relation = Relation.UNKNOWN if several or ticks.processes is not None else Relation.SOLE
    parts: list[tuple[Attribution, Relation, int, int]] = []
    used = before = 0
    for one, count in sorted(counts.items()):
        before += count
        gpu = (gpu_ms - left) * before // of_each - used
        used += gpu
        covered = min(duration_ms, duration_ms * count // min(without + of_each, ticks.full))
        parts.append((one, relation, covered, gpu))
    return parts, left


def table_lines(every: Sequence[CardTicks], found: Inventory) -> Iterator[TableLines]:
    """Yield the rows of cards without known processes, table by table; cards last, as an import may be interrupted."""
    allocations: list[str] = []
    sources: dict[tuple[str, str, int], int] = {}
    infos: list[str] = []
    seen: list[str] = []
    cards: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for ticks in every:
        origin = origin_of(ticks, found)
        cards[tuple(sorted(ticks.columns))] += _card_lines(ticks, allocations, sources)
        infos.append(_info_line(ticks, origin))
        seen.append(_seen_line(ticks))
    if allocations:
        yield TableLines("allocation_ticks", _pick("allocation_ticks", _ALLOCATION_COLUMNS), allocations)
    if sources:
        lines = [_text([host, at, source, "ok", duration]) for (host, source, at), duration in sources.items()]
        yield TableLines("allocation_source_ticks", _pick("allocation_source_ticks", _SOURCE_COLUMNS), lines)
    yield TableLines("card_info", _pick("card_info", _INFO_COLUMNS), infos)
    yield TableLines("card_seen", TABLES["card_seen"], seen)
    for names, lines in cards.items():
        yield TableLines("card_ticks", _pick("card_ticks", (*_CARD_COLUMNS, *names)), lines)


_ALLOCATION_COLUMNS: Final = (
    *("host", "ts", "gpu", "duration_ms", "gpu_time_ms", "relation", "source", "allocation_id", "owner", "uid", "kind"),
    *("job_name", "pod_uid", "pod_name", "pod_namespace"),
)
_SOURCE_COLUMNS: Final = ("host", "ts", "source", "status", "duration_ms")
_INFO_COLUMNS: Final = (
    *("host", "gpu", "ts", "source", "interval_ms", "labels", "gpu_index", "name", "model", "vendor"),
    *("driver_version", "pci", "mig", "parent"),
)
_CARD_COLUMNS: Final = (
    *("host", "source", "interval_ms", "gpu", "process_list", "mig"),
    *("ts", "duration_ms", "gpu_time_ms", "allocation", "unallocated_gpu_time_ms"),
)


def _pick(table: str, names: Iterable[str]) -> list:  # type: ignore[type-arg] # columns of the table
    return [_COLUMNS[table][name] for name in names]


def _card_lines(ticks: CardTicks, allocations: list[str], sources: dict[tuple[str, str, int], int]) -> list[str]:
    """Return the rows of ``card_ticks``; add those of its allocations and their sources."""
    card = ticks.card
    known = ProcessList.ABSENT if ticks.processes is None else ProcessList.KNOWN
    begin = _text([card.host, Source.IMPORT, ticks.interval_ms, card.uuid, known, card.mig])[:-1]
    gpu = gpu_times(ticks)
    status, unallocated = _allocated(ticks, gpu, allocations, sources)
    columns = [
        [value if value is not None else "null" for value in ticks.columns[name]] for name in sorted(ticks.columns)
    ]
    rows = zip(ticks.ts_ms, ticks.duration_ms, gpu, status, unallocated, *columns, strict=True)
    template = f"{begin.replace('%', '%%')}{',%s' * (5 + len(columns))}]"
    return [template % row for row in rows]


def _allocated(
    ticks: CardTicks, gpu: Sequence[int], allocations: list[str], sources: dict[tuple[str, str, int], int]
) -> tuple[Sequence[object], Sequence[object]]:
    """Return status and unallocated GPU time of each tick as JSON; add the rows of allocations and sources."""
    count = len(ticks.ts_ms)
    if not ticks.is_mapped and not any(one for scrapes in ticks.scrapes for one in scrapes):
        return ["null"] * count, ["null"] * count
    host, uuid = _text(ticks.card.host), _text(ticks.card.uuid)
    known: dict[tuple[int, int], tuple[str, int | str, list[str], tuple[str, str]]] = {}
    status: list[object] = []
    unallocated: list[object] = []
    for at, duration, gpu_ms, scrapes in zip(ticks.ts_ms, ticks.duration_ms, gpu, ticks.scrapes, strict=True):
        of_tick = known.get((id(scrapes), duration))
        if of_tick is None:
            parts, left = parts_of(ticks, scrapes, duration, gpu_ms)
            ends = [f",{uuid},{covered},{part},{_attribution_text(one, of)}" for one, of, covered, part in parts]
            source = next((one.source for one in scrapes if one is not None), KUBERNETES)
            of_tick = (
                _ALLOCATED if parts else _UNALLOCATED,
                left if ticks.is_mapped else "null",
                ends,
                (ticks.card.host, source),
            )
            known[id(scrapes), duration] = of_tick
        status.append(of_tick[0])
        unallocated.append(of_tick[1])
        allocations.extend(f"[{host},{at}{end}" for end in of_tick[2])
        sources[*of_tick[3], at] = duration
    return status, unallocated


_ALLOCATED: Final = _text(AllocationStatus.ALLOCATED)
_UNALLOCATED: Final = _text(AllocationStatus.UNALLOCATED)


def _attribution_text(one: Attribution, relation: Relation) -> str:
    values = [relation, one.source, one.id, one.owner, one.uid, _KIND[one.source], one.job_name]
    return _text([*values, one.pod_uid, one.pod_name, one.pod_namespace])[1:]


def _info_line(ticks: CardTicks, origin: Origin) -> str:
    card = ticks.card
    labels = {key: value if isinstance(value, str) else f"{value:g}" for key, value in fields.resource(origin).items()}
    values = [card.host, card.uuid, ticks.ts_ms[-1], Source.IMPORT, ticks.interval_ms, labels, card.gpu_index]
    return _text([*values, card.name, card.model, _VENDOR, card.driver_version, card.pci, card.mig, card.parent])


def _seen_line(ticks: CardTicks) -> str:
    gpu = gpu_times(ticks)
    newest = [ticks.ts_ms[-1], gpu[-1], ticks.duration_ms[-1]]
    begin = min(at - duration for at, duration in zip(ticks.ts_ms, ticks.duration_ms, strict=True))
    return _text([ticks.card.host, ticks.card.uuid, begin, ticks.ts_ms[-1], max(ticks.duration_ms), newest])


def ticks_of(every: Sequence[CardTicks], found: Inventory) -> Iterator[Tick]:
    """Yield ticks in the order of time: the cards of one host with one origin that were read at the same time."""
    by_time: defaultdict[tuple[int, str, Origin], list[tuple[CardReading, bool, int, str]]] = defaultdict(list)
    for ticks in every:
        origin = origin_of(ticks, found)
        for place, at in enumerate(ticks.ts_ms):
            source = next((one.source for one in ticks.scrapes[place] if one is not None), KUBERNETES)
            reading = _reading(ticks, place)
            is_mapped = reading.allocation is not None
            by_time[at, ticks.card.host, origin].append((reading, is_mapped, ticks.duration_ms[place], source))
    for (at, _, origin), cards in sorted(by_time.items(), key=lambda item: item[0][:2]):
        sources = {source: duration for _, is_mapped, duration, source in cards if is_mapped}
        yield Tick(
            ts_ms=at,
            origin=origin,
            cards=tuple(reading for reading, *_ in cards),
            allocation_sources=tuple(
                AllocationSourceReading(source=name, duration_ms=duration) for name, duration in sources.items()
            ),
        )


_FORMS: Final = {one.column.name: one for one in fields.CARD_FIELDS if one.column is not None}


def _reading(ticks: CardTicks, place: int) -> CardReading:
    """Return one tick of a card as a reading."""
    card, at, duration = ticks.card, ticks.ts_ms[place], ticks.duration_ms[place]
    gpu_ms = duration * card.slices // card.total
    values: dict[str, Any] = {
        _FORMS[name].name: _unstored(name, column[place]) for name, column in ticks.columns.items() if name in _FORMS
    }
    processes = () if ticks.processes is None else ticks.processes.get(at, ())
    scrapes = ticks.scrapes[place]
    has_source = ticks.is_mapped or any(scrapes)
    parts, left = parts_of(ticks, scrapes, duration, gpu_ms) if has_source else ([], 0)
    return CardReading(
        uuid=card.uuid,
        duration_ms=duration,
        gpu_time_ms=gpu_ms,
        process_list=ProcessList.ABSENT if ticks.processes is None else ProcessList.KNOWN,
        index=card.gpu_index,
        name=card.name,
        model=card.model,
        vendor=_VENDOR,
        driver_version=card.driver_version,
        pci=card.pci,
        mig=card.mig,
        parent=card.parent,
        processes=split_gpu_time(gpu_ms, processes) if processes else (),
        allocation=None if not has_source else AllocationStatus.ALLOCATED if parts else AllocationStatus.UNALLOCATED,
        unallocated_gpu_time_ms=left if ticks.is_mapped else None,
        allocations=tuple(
            AllocationReading(
                source=one.source,
                id=one.id,
                relation=relation,
                duration_ms=covered,
                gpu_time_ms=part,
                owner=one.owner,
                uid=one.uid,
                kind=_KIND[one.source],
                job_name=one.job_name,
                pod_uid=one.pod_uid,
                pod_name=one.pod_name,
                pod_namespace=one.pod_namespace,
            )
            for one, relation, covered, part in parts
        ),
        **values,
    )


def _unstored(name: str, value: int | None) -> float | int | None:
    """Return the reading's number for a stored value of a column."""
    field = _FORMS[name]
    if value is None or field.column is None:
        return None
    if field.form is PointForm.DOUBLE:
        return value / field.column.scale
    return value
