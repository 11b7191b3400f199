"""A store in memory of notices and runs, as ``gua.notices`` is read with FINAL, and channels that record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final

from gua.core.moments import parse_moment_ms
from gua.notices.channels import Channel, SendResult
from gua.notices.held import NoticeResult
from gua.notices.messages import Message

_KEY: Final = ("host", "kind", "holder", "rule", "step", "reminder", "channel")
_SENT: Final = ("kind", "holder", "rule", "step", "reminder", "owner", "channel", "result", "message")


def unix_ms(moment: object) -> int:
    return parse_moment_ms(str(moment), now_ms=0, timezone=UTC)


@dataclass
class NoticeStore:
    """Keeps the newest version of each notice's channel; a run is not kept, as an embedded store needs no lease."""

    is_embedded: bool = True
    is_concurrent: bool = False
    stored: dict[tuple[object, ...], Mapping[str, Any]] = field(default_factory=dict)
    inserted: list[Mapping[str, Any]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def insert_json(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        assert table == "notices"
        for row in rows:
            self.inserted.append(row)
            key = tuple(row[name] for name in _KEY)
            before = self.stored.get(key)
            if before is None or unix_ms(row["written"]) >= unix_ms(before["written"]):
                self.stored[key] = row

    def keep_notices(self, holders: Sequence[str]) -> None:
        self.kept += holders

    def rows(self, view: str, parameters: Mapping[str, object]) -> Iterable[Mapping[str, Any]]:
        assert (view, parameters) == ("sent_notices", {"since_ms": 0})
        return [
            {
                **{name: row[name] for name in _SENT},
                "sent_ms": unix_ms(row["sent"]),
                "written_ms": unix_ms(row["written"]),
            }
            for row in self.stored.values()
        ]

    @contextmanager
    def open(self) -> Iterator[NoticeStore]:
        yield self

    def results(self) -> dict[tuple[str, int, int, str], str]:
        """Return the result of each holder's step, reminder and channel."""
        return {
            (row["holder"], row["step"], row["reminder"], row["channel"]): str(row["result"])
            for row in self.stored.values()
        }


@dataclass
class RecordingChannels:
    """Channels that take what they get, unless their URL is one that is unreachable or fails."""

    unreachable: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    killed: set[str] = field(default_factory=set)
    success: NoticeResult = NoticeResult.SENT
    sent: list[tuple[str, str]] = field(default_factory=list)

    def reachable(self, channel: Channel, **_others: object) -> str | None:
        return "connection refused" if channel.url in self.unreachable else None

    def send(self, channel: Channel, message: Message, **_others: object) -> SendResult:
        if channel.url in self.killed:
            raise KeyboardInterrupt
        if channel.url in self.failing:
            return SendResult(result=NoticeResult.FAILED, detail="refused")
        self.sent.append((channel.url, message.text))
        return SendResult(result=self.success)

    @property
    def urls(self) -> list[str]:
        return [url for url, _ in self.sent]
