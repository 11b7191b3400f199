"""Notices as a policy makes them, harmless and hostile."""

from __future__ import annotations

from typing import Any, Final

from gua.core.moments import zone
from gua.notices.held import Held, HeldCard, HeldState, HolderKind, Notice
from gua.notices.messages import MessageSettings

SINCE_MS: Final = 1_795_878_300_000  # 2026-11-28 15:05 UTC
SETTING: Final = MessageSettings(
    timezone=zone("Europe/Berlin"), interval_seconds=30, sender="the GPU team", contact="gpu-team@example.org"
)
HOSTILE: Final = (
    "a\r\nBcc: root@example.org\r\n\r\n<script>alert(1)</script> <!channel> @channel [pay](http://evil.example/) "
    "`x` *b* \u202e\x1b[31m"
)


def card(index: int, host: str = "node1", **changes: Any) -> HeldCard:  # noqa: ANN401 - a field each
    known: dict[str, Any] = {"name": "NVIDIA H100 80GB HBM3", "memory_bytes": 61 * 2**30}
    return HeldCard(host=host, gpu=f"GPU-{index}c3f2a7e-0000", index=index, **{**known, **changes})


def idle(**changes: Any) -> Held:  # noqa: ANN401 - a field each
    known: dict[str, Any] = {
        "state": HeldState.IDLE_HELD,
        "kind": HolderKind.PROCESS,
        "key": "node1 4711",
        "cards": (card(0), card(1)),
        "owner": "alice",
        "since_ms": SINCE_MS,
        "idle_ms": 11_400_000,
        "last_ms": SINCE_MS + 11_400_000,
        "program": "python",
        "pid": 4711,
    }
    return Held(**{**known, **changes})


def notice(held: Held | None = None, **changes: Any) -> Notice:  # noqa: ANN401 - a field each
    known: dict[str, Any] = {"rule": "idle", "step": 1, "reminder": 1, "to": ("write://",)}
    return Notice(held=held or idle(), **{**known, **changes})


def hostile() -> Notice:
    """Return a notice in which every name is hostile."""
    names = ("owner", "program", "job", "job_name", "pod", "namespace", "container_id")
    return notice(idle(cards=(card(0, HOSTILE, name=HOSTILE),), **dict.fromkeys(names, HOSTILE)), rule="idle")
