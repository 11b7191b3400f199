"""Card ticks in columns as rows of an embedded store's tables, or as ticks for other destinations."""

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
from gua.store.native import block
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
    sources: defaultdict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    # Of each card the status and the unallocated GPU time of its ticks.
    allocated: list[tuple[object, object]] = []
    blocks = (one for ticks in every for one in _allocation_blocks(ticks, allocated, sources))
    yield _rows_of("allocation_ticks", _ALLOCATION_COLUMNS, blocks)
    columns = _pick("allocation_source_ticks", _SOURCE_COLUMNS)
    of_sources = (
        block(columns, [host, [*durations], source, "ok", [*durations.values()]], len(durations))
        for (host, source), durations in sources.items()
    )
    yield _rows_of("allocation_source_ticks", _SOURCE_COLUMNS, of_sources)
    infos = [_info_line(ticks, origin_of(ticks, found)) for ticks in every]
    yield TableLines("card_info", _pick("card_info", _INFO_COLUMNS), ["\n".join(infos).encode()])
    yield TableLines("card_seen", TABLES["card_seen"], ["\n".join(map(_seen_line, every)).encode()])
    cards: defaultdict[tuple[str, ...], list[tuple[CardTicks, tuple[object, object]]]] = defaultdict(list)
    for ticks, of_card in zip(every, allocated, strict=True):
        cards[tuple(sorted(ticks.columns))].append((ticks, of_card))
    for names, alike in cards.items():
        yield _rows_of("card_ticks", (*_CARD_COLUMNS, *names), (_card_block(*one) for one in alike))


def _rows_of(table: str, names: Iterable[str], blocks: Iterable[bytes]) -> TableLines:
    return TableLines(table, _pick(table, names), blocks, "Native")


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


def _card_block(ticks: CardTicks, allocated: tuple[object, object]) -> bytes:
    """Return the rows of ``card_ticks``."""
    card, names = ticks.card, sorted(ticks.columns)
    known = ProcessList.ABSENT if ticks.processes is None else ProcessList.KNOWN
    begin = [card.host, Source.IMPORT, ticks.interval_ms, card.uuid, known, card.mig]
    values = [*begin, ticks.ts_ms, ticks.duration_ms, gpu_times(ticks), *allocated]
    columns = _pick("card_ticks", (*_CARD_COLUMNS, *names))
    return block(columns, [*values, *(ticks.columns[name] for name in names)], len(ticks.ts_ms))


def _allocation_blocks(
    ticks: CardTicks, allocated: list[tuple[object, object]], sources: dict[tuple[str, str], dict[int, int]]
) -> Iterator[bytes]:
    """Yield the rows of a card's allocations; add its status and unallocated GPU time, and times of its sources [ms].

    Equal scrapes are one object: their allocations differ in time alone.
    """
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, scrapes in enumerate(ticks.scrapes):
        places[id(scrapes)].append(place)
    if not ticks.is_mapped and not any(any(ticks.scrapes[of[0]]) for of in places.values()):
        allocated.append((None, None))
        return
    card = ticks.card
    status: list[str] = [AllocationStatus.UNALLOCATED] * len(ticks.ts_ms)
    unallocated: list[int | None] = [None] * len(ticks.ts_ms)
    for of_scrapes in places.values():
        scrapes = ticks.scrapes[of_scrapes[0]]
        times, durations = [ticks.ts_ms[one] for one in of_scrapes], [ticks.duration_ms[one] for one in of_scrapes]
        made = {one: parts_of(ticks, scrapes, one, one * card.slices // card.total) for one in set(durations)}
        source = next((one.source for one in scrapes if one is not None), KUBERNETES)
        sources[card.host, source].update(zip(times, durations, strict=True))
        parts, _ = made[durations[0]]
        for place, duration in zip(of_scrapes, durations, strict=True):
            unallocated[place] = made[duration][1] if ticks.is_mapped else None
            status[place] = AllocationStatus.ALLOCATED if parts else AllocationStatus.UNALLOCATED
        for number, (one, relation, *_) in enumerate(parts):
            amounts = [[made[duration][0][number][which] for duration in durations] for which in (2, 3)]
            who = [relation, one.source, one.id, one.owner, one.uid, _KIND[one.source], one.job_name]
            values = [card.host, times, card.uuid, *amounts, *who, one.pod_uid, one.pod_name, one.pod_namespace]
            yield block(_pick("allocation_ticks", _ALLOCATION_COLUMNS), values, len(times))
    allocated.append((status, unallocated))


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
