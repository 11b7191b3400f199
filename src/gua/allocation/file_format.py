"""The form of a file that tells of one allocation: see docs/allocation.md."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gua.allocation.card_names import CardName, plain_pci
from gua.core.plaintext import storable
from gua.core.untrusted import is_like, is_number, is_within
from gua.core.workloads import NO_WORK, Work, declared, declared_in

MOST_CARDS: Final = 1024
_MOST_ID: Final = 128
_is_source: Final = is_like(r"[a-z0-9_-]{1,32}")
_is_uid: Final = is_within(0, 2**32 - 2)
_is_number_of_card: Final = is_within(0, 2**16)
_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,120}")
# Seconds, from 2001 on; ms would be the year 33658 and are refused.
_LEAST_SECONDS: Final = 1_000_000_000
_MOST_SECONDS: Final = 100_000_000_000
_TEXTS: Final = {"owner": 256, "kind": 32, "job_name": 128, "node": 256}
_WORKLOAD: Final = {"workload_kind": "kind", "workload_model": "model"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FileAllocation:
    """What one file tells; the cards still by the names that it has for them. Times are Unix ms.

    ``node`` is the name of this host by which a scheduler numbers its cards. ``is_planned``: it was written down before
    it began. Of any other one that is said to begin later than now, the clock was set back.
    """

    source: str
    id: str
    cards: tuple[CardName, ...]
    since_ms: int
    until_ms: int | None = None
    owner: str | None = None
    uid: int | None = None
    kind: str | None = None
    job_name: str | None = None
    node: str | None = None
    workload: Work = NO_WORK
    is_planned: bool = False

    def is_to_come(self, now_ms: int) -> bool:
        """Return whether it has not begun yet, Unix ms."""
        return self.is_planned and self.since_ms > now_ms


def parse_file(content: bytes) -> FileAllocation:
    """Return what a file tells. Raises ValueError, with what is wrong in a few plain words."""
    try:
        found = json.loads(content.decode(errors="replace"))
    except (ValueError, RecursionError):
        msg = "no JSON, or torn"
        raise ValueError(msg) from None
    if not isinstance(found, dict):
        msg = "no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - whatever is wrong with a file is one kind of error
    source, identity = found.get("source"), found.get("id")
    if not isinstance(source, str) or not _is_source(source):
        msg = "source is not 1 to 32 of a-z, 0-9, _ and -"
        raise ValueError(msg)
    if type(identity) is int:
        identity = str(identity)
    if not isinstance(identity, str) or not identity.isprintable() or not 0 < len(identity) <= _MOST_ID:
        msg = "id is not 1 to 128 printable characters"
        raise ValueError(msg)
    uid = found.get("uid")
    if uid is not None and not _is_uid(uid):
        msg = "uid is no user id"
        raise ValueError(msg)
    texts = {name: _text(found.get(name), name, most) for name, most in _TEXTS.items()}
    since_ms = _moment(found.get("since"), "since")
    return FileAllocation(
        source=source,
        id=identity,
        cards=_cards(found.get("cards")),
        since_ms=since_ms,
        until_ms=None if found.get("until") is None else _moment(found["until"], "until"),
        uid=uid,
        is_planned=False,
        workload=_workload(found),
        **texts,
    )


def _workload(found: dict[str, object]) -> Work:
    """Return what a file declares, else what the name of its job does."""
    job_name = found.get("job_name")
    named = declared_in(job_name) if isinstance(job_name, str) else NO_WORK
    own = declared({key: found.get(name) for name, key in _WORKLOAD.items()})
    return Work(own.kind or named.kind, own.model or named.model)


def _text(value: object, name: str, most: int) -> str | None:
    if value is not None and not isinstance(value, str):
        msg = f"{name} is no text"
        raise ValueError(msg)
    return storable(value, most) if value else None


def _moment(value: object, name: str) -> int:
    """Return Unix ms of Unix seconds, or of a time with its zone by ISO 8601."""
    seconds: float | None = None
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            seconds = None if moment.tzinfo is None else moment.timestamp()
        except (ValueError, OverflowError):
            seconds = None
    elif isinstance(value, (int, float)) and is_number(value):
        seconds = value
    if seconds is None or not _LEAST_SECONDS <= seconds < _MOST_SECONDS:
        msg = f"{name} is no time in Unix seconds"
        raise ValueError(msg)
    return round(seconds * 1000)


def _cards(value: object) -> tuple[CardName, ...]:
    if not isinstance(value, list) or not value:
        msg = "cards is no list, or empty"
        raise ValueError(msg)
    if len(value) > MOST_CARDS:
        msg = f"more than {MOST_CARDS} cards"
        raise ValueError(msg)
    return tuple(dict.fromkeys(map(_card, value)))


def _card(value: object) -> CardName:
    if isinstance(value, str) and _UUID.fullmatch(value):
        return CardName("uuid", value)
    if isinstance(value, int) and _is_number_of_card(value):
        return CardName("index", value)
    if isinstance(value, dict):
        instance = value.get("instance")
        kinds = [kind for kind in ("index", "minor", "gres", "pci") if kind in value]
        if (
            len(kinds) == 1
            and set(value) <= {*kinds, "instance"}
            and (instance is None or _is_number_of_card(instance))
        ):
            [kind] = kinds
            name = value[kind]
            if kind == "pci":
                name = plain_pci(name) if isinstance(name, str) else None
            elif not _is_number_of_card(name):
                name = None
            if name is not None:
                return CardName(kind, name, instance)
    msg = 'a card is not "GPU-…", "MIG-…", an index, or one of {"minor": n}, {"pci": "…"}, {"gres": n}'
    raise ValueError(msg)
