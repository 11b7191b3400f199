"""Hosts that send: ticks of 8 cards x 10 processes, encoded and packed beforehand, posted at a steady rate."""

from __future__ import annotations

import gzip
import http.client
import itertools
import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from fakes.full_host import full_host
from gua.core.tick import Tick
from gua.otlp.encode import encode

CARDS, PROCESSES = 8, 10
INTERVAL_S = 30
_KINDS = 16  # hosts whose readings differ; all others are like one of them, with cards of their own
_CONNECTIONS = 16
_RETRY_SECONDS = 0.5


@dataclass(frozen=True)
class Load:
    """``rate`` ticks/s for ``seconds``, the first at ``base_ms``; from as many hosts as send that at 30 s."""

    rate: float
    seconds: float
    base_ms: int

    @property
    def ticks(self) -> int:
        return round(self.rate * self.seconds)

    @property
    def hosts(self) -> int:
        return max(1, round(self.rate * INTERVAL_S))


@dataclass(frozen=True)
class Sent:
    """What one sender did: requests that were accepted, those refused first, the largest lateness, when it ended."""

    accepted: int
    refused: int
    late_seconds: float


class Sender:
    """A process of its own that has its part of a load ready."""

    def __init__(self, endpoint: str, load: Load, part: int, parts: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_send, args=(theirs, endpoint, load, part, parts), daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0

    def wait_until_ready(self) -> None:
        self._pipe.recv()

    def go(self, at: float) -> None:
        """Begin at that time of time.monotonic, which is the same in all processes."""
        self._pipe.send(at)

    def result(self) -> Sent:
        """Return what it did, once it is done."""
        sent: Sent = self._pipe.recv()
        return sent

    def end(self) -> None:
        self._process.kill()
        self._process.join()


@contextmanager
def senders(endpoint: str, load: Load, count: int) -> Iterator[list[Sender]]:
    """Yield senders that are ready."""
    made = [Sender(endpoint, load, part, count) for part in range(count)]
    try:
        for sender in made:
            sender.wait_until_ready()
        yield made
    finally:
        for sender in made:
            sender.end()


def bodies(load: Load, part: int, parts: int) -> list[bytes]:
    """Return the packed requests of one part of a load, in the order in which they are due."""
    kinds = [_kind(number, load.base_ms) for number in range(_KINDS)]
    made = []
    for number in range(part, load.ticks, parts):
        host = number % load.hosts
        tick = next(kinds[host % _KINDS])
        ts_ms = load.base_ms + round(number * 1000 / load.rate)
        named = replace(tick, ts_ms=ts_ms, origin=replace(tick.origin, host=f"load-{host:05d}"))
        made.append(gzip.compress(_with_own_cards(encode(named), tick, host)))
    return made


def _kind(number: int, base_ms: int) -> Iterator[Tick]:
    return full_host(
        cards=CARDS, processes=PROCESSES, interval_ms=1000 * INTERVAL_S, days=30, end_ms=base_ms, seed=number
    )


def _with_own_cards(raw: bytes, tick: Tick, host: int) -> bytes:
    """Return the request with UUIDs that no other host has, of the same length."""
    for card in tick.cards:
        raw = raw.replace(card.uuid.encode(), f"{card.uuid[:-6]}{host:06d}".encode())
    return raw


def _send(pipe: Connection, endpoint: str, load: Load, part: int, parts: int) -> None:
    made = bodies(load, part, parts)
    pipe.send("ready")
    begin: float = pipe.recv()
    numbers = itertools.count()
    results: list[Sent] = []

    def work() -> None:
        connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=60)
        accepted = refused = 0
        late = 0.0
        while (number := next(numbers)) < len(made):
            due = begin + (part + number * parts) / load.rate
            time.sleep(max(0.0, due - time.monotonic()))
            late = max(late, time.monotonic() - due)
            while _status(connection, made[number]) != http.client.OK:
                refused += 1
                time.sleep(_RETRY_SECONDS)
            accepted += 1
        results.append(Sent(accepted, refused, late))

    threads = [threading.Thread(target=work) for _ in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(results) != _CONNECTIONS:
        msg = "a sender lost its connection"
        raise RuntimeError(msg)
    pipe.send(
        Sent(
            sum(sent.accepted for sent in results),
            sum(sent.refused for sent in results),
            max(sent.late_seconds for sent in results),
        )
    )


def _status(connection: http.client.HTTPConnection, body: bytes) -> int:
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    connection.request("POST", "/v1/metrics", body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status
