"""Names that parts of a report had before: whoever writes one is told, in one line, what it is called now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gua.core.errors import UsageError

SECTIONS: Final = {"who": "usage", "before": "previous", "rollups": "groups", "identities": "usage", "parties": "usage"}
KEYS: Final = {"identity": "owner", "party": "owner", "who": "owner"}
METRICS: Final = {"episode": "streak", "not-told": "unknown"}
_ALIASES: Final = {"user": "owner"}


def check_name(option: str, name: str, renamed: Mapping[str, str]) -> None:
    """Raise UsageError for a name that is another one now."""
    if name in renamed:
        msg = f"{option} {name} is called {renamed[name]} now: write {option} {renamed[name]}"
        raise UsageError(msg)


def usage_key(key: str) -> str:
    """Return what ``--by`` means: ``user`` is an ``owner``. Raises UsageError for a name that is another one now."""
    check_name("--by", key, KEYS)
    return _ALIASES.get(key, key)
