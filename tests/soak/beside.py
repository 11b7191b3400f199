"""One server with writers, readers, heavy readers and reports at once; then the account of what was sent."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gua.otlp.decode import decode
from servers.agent import assert_spans_never_overlap
from servers.clickhouse import PASSWORDS, ClickHouseServer
from servers.gua import Gua
from servers.process import poll
from servers.recipes import recipes
from soak.accounts import Account, account, landed, points_in
from soak.fleet import Fleet, fleet
from soak.witness import recorded, waiting, watch

# Charts and whole views; reports query as another user, which the limits of the first do not affect.
BI, REPORTS = "gua_bi", "gua_reader"
# What BI tools do when somebody clicks on a name: whole views, sorted, without limit.
HEAVY = (
    "SELECT * FROM gua_public.card_ticks",
    "SELECT * FROM gua_public.card_ticks ORDER BY power_watts, tick_time",
    "SELECT * FROM gua_public.idle_streaks",
    "SELECT * FROM gua_public.costs",
    "SELECT owner, program, uniqExact(gpu), quantileExact(0.9)(process_hours) FROM gua_public.usage_hours GROUP BY ALL",
    # Refused by the limits of the user, one line each.
    "SELECT groupArray(number) FROM numbers(1000000000)",
    "SELECT count() FROM gua_public.card_ticks AS a CROSS JOIN gua_public.card_ticks AS b WHERE a.gpu > b.gpu",
)
PARTS = {"p50": 0.5, "p99": 0.99, "longest": 1.0}
REFUSED = ("MEMORY_LIMIT_EXCEEDED", "TIMEOUT_EXCEEDED", "TOO_MANY_ROWS", "TOO_SLOW", "TOO_MANY_SIMULTANEOUS")
# Who may look at the server itself, as none of the project's own users may.
_WATCHER = """
<clickhouse><users><watcher>
    <password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>
    <grants><query>GRANT SELECT ON *.*</query></grants>
</watcher></users></clickhouse>
"""
_QUERY_LOG = """
<query_log>
    <database>system</database><table>query_log</table><flush_interval_milliseconds>2000</flush_interval_milliseconds>
</query_log>
"""
_INSERTS = """
    SELECT
        countIf(type = 'QueryFinish'), countIf(type LIKE 'Exception%'), sumIf(written_rows, type = 'QueryFinish'),
        quantileExactIf(0.5)(query_duration_ms, type = 'QueryFinish'),
        quantileExactIf(0.99)(query_duration_ms, type = 'QueryFinish'),
        maxIf(query_duration_ms, type = 'QueryFinish')
    FROM system.query_log
    WHERE user = 'gua_writer' AND query_kind = 'Insert' AND type != 'QueryStart' AND is_initial_query
"""
# What the queries of a user took, and by which of the limits they were refused: query, user or server.
_READS = """
    SELECT
        user, count(), max(memory_usage),
        countIf(exception LIKE '%Query memory limit%'),
        countIf(exception LIKE '%User memory limit%'),
        countIf(exception LIKE '%(total)%')
    FROM system.query_log
    WHERE user IN ('gua_bi', 'gua_reader') AND type != 'QueryStart' AND is_initial_query
    GROUP BY user
    ORDER BY user
"""
_SETTLES_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Load:
    """Who is there: agents, cards and history of the simulated host, readers of charts, readers of whole views."""

    hosts: int
    gpus: int
    history: str
    readers: int
    heavy: int


@dataclass
class Turns:
    """What one kind of reader met, in seconds and by the name of the refusal."""

    name: str
    seconds: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    read: int = 0

    def line(self) -> str:
        """Return the figures in a line."""
        spread = " ".join(f"{name} {at(self.seconds, part):.2f} s" for name, part in PARTS.items())
        read = f", {self.read / 1e6:,.1f} MB read" if self.read else ""
        refused = "".join(f", {count} refused ({name})" for name, count in sorted(self.refused.items()))
        return f"{self.name:<16} {len(self.seconds):>9,}: {spread}{read}{refused}"


def at(values: Sequence[float], part: float) -> float:
    """Return the quantile by nearest rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def beside(folder: Path, load: Load, *, minutes: float, say: Callable[[str], None]) -> Account:
    """Return the account after so many minutes of all of it; fails if anything is lost, counted twice or down."""
    say(
        f"{minutes:g} min: {load.hosts} agents at 2 s, a simulated host of {load.gpus} cards with {load.history}, "
        f"{load.readers} readers, {load.heavy} heavy readers, reports in a loop"
    )
    turns = {name: Turns(name) for name in ("charts", "whole views", "default reports")}
    with fleet(folder, hosts=load.hosts, interval="2s") as made:
        (made.server.folder / "users.d" / "watcher.xml").write_text(_WATCHER, encoding="utf-8")
        made.server.configure(_QUERY_LOG)
        # More than both readers may take, as docs/fleet.md requires: else they take it from the writers.
        config = made.server.folder / "config.xml"
        config.write_text(config.read_text().replace(">3000000000<", ">14000000000<"))
        made.server.patience_seconds = 900.0
        made.start()
        spool = folder / "simulated" / "spool.db"
        watch(spool)
        with _simulated(made, spool.parent, load):
            with _reader_loop(made.server, turns, load):
                _stay(made, minutes * 60)
            assert made.server.query("SELECT 1") == "1"
        made.drain()
        _send_the_rest(made, spool, load)
        for line in (_inserts(made.server), *(each.line() for each in turns.values()), *_reads(made.server)):
            say(line)
        final = _settled(made, spool)
        for line in final.lines():
            say(line)
        for raws in made.recorded().values():
            assert_spans_never_overlap([decode(raw) for raw in raws])
    assert final.settled, final.differences()
    broken = [line for each in turns.values() for line in each.broken]
    assert not broken, broken[:5]
    # How long its 60 s are is the machine's matter; memory and turns are the server's.
    refused = {*turns["charts"].refused} - {"TIMEOUT_EXCEEDED"}
    assert not refused, f"charts may not be refused because others ask too much: {turns['charts'].refused}"
    assert all(each.seconds for each in turns.values())
    return final


def _inserts(server: ClickHouseServer) -> str:
    """Return what the server's own log has of the Collector's inserts."""
    counts = map(float, server.query(_INSERTS, user="watcher").split("\t"))
    count, failed, rows, middle, slow, longest = counts
    took = f"p50 {middle / 1000:.2f} s p99 {slow / 1000:.2f} s longest {longest / 1000:.2f} s"
    return f"{'inserts':<16} {count:>9,.0f}: {took}, {failed:.0f} failed, {rows:,.0f} rows with the views'"


def _reads(server: ClickHouseServer) -> Iterator[str]:
    """Yield what the server's own log has of each reading user."""
    for counts in server.query(_READS, user="watcher").splitlines():
        user, *numbers = counts.split("\t")
        count, largest, by_query, by_user, by_server = map(int, numbers)
        refused = f"refused by memory: {by_query} of their own, {by_user} of the user, {by_server} of the server"
        yield f"{user:<16} {count:>9,} queries, the largest {largest / 1e9:.2f} GB; {refused}"


def _stay(made: Fleet, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(5.0, max(0.0, end - time.monotonic())))
        for host in made.hosts:
            host.revive()


@contextmanager
def _simulated(made: Fleet, state: Path, load: Load) -> Iterator[None]:
    command = [sys.executable, "-m", "gua", *_simulate(made, state, load)]
    with (state / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
        assert process.poll() is None, (state / "log").read_text()
    finally:
        process.terminate()
        process.wait(60)


def _simulate(made: Fleet, state: Path, load: Load) -> list[str]:
    where = ["simulate", "--endpoint", made.collector.endpoint, "--state", str(state)]
    return [*where, "--gpus", str(load.gpus), "--history", load.history, "--interval", "10s"]


def _send_the_rest(made: Fleet, spool: Path, load: Load) -> None:
    """Start the simulated host once more until nothing of it waits; it records a tick at most in that time."""
    if waiting(spool):
        with _simulated(made, spool.parent, load):
            poll(lambda: waiting(spool) == 0, "the simulated host to send the rest", seconds=_SETTLES_SECONDS)


def _settled(made: Fleet, spool: Path) -> Account:
    sent = {**made.recorded(), "simulated-host": recorded(spool)}
    points = sum(points_in(raw) for raws in sent.values() for raw in raws)
    deadline = time.monotonic() + _SETTLES_SECONDS
    while landed(made.server)[1] < points and time.monotonic() < deadline:
        time.sleep(5)
    while not (final := account(sent, made.server, made.gua)).settled and time.monotonic() < deadline:
        time.sleep(2)
    return final


@contextmanager
def _reader_loop(server: ClickHouseServer, turns: dict[str, Turns], load: Load) -> Iterator[None]:
    """Have all readers query until the context ends."""
    over = threading.Event()
    charts = [recipe.sql for recipe in recipes(days=7)]
    gua = Gua(server.folder.parent / "reporter")
    kinds: list[Callable[[], None]] = [
        *(lambda place=place: _query(server, charts, place, turns["charts"], over) for place in range(load.readers)),
        *(lambda place=place: _query(server, HEAVY, place, turns["whole views"], over) for place in range(load.heavy)),
        lambda: _report(gua, server, turns["default reports"], over),
    ]
    threads = [threading.Thread(target=kind) for kind in kinds]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _query(server: ClickHouseServer, statements: Sequence[str], place: int, met: Turns, over: threading.Event) -> None:
    while not over.is_set():
        place += 1
        begun = time.perf_counter()
        try:
            met.read += _read(server, statements[place % len(statements)])
        except RefusedError as error:
            name = next((known for known in REFUSED if known in str(error)), None)
            if name is None:
                met.broken.append(str(error))
            else:
                met.refused[name] += 1
        except (OSError, http.client.HTTPException) as error:
            met.broken.append(repr(error))
        else:
            met.seconds.append(time.perf_counter() - begun)
        over.wait(0.5)


class RefusedError(Exception):
    """The server's own word for why it did not answer."""


def _read(server: ClickHouseServer, sql: str) -> int:
    """Return how many bytes the whole answer has. Raises RefusedError, also where the refusal comes in its midst."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http_port}/",
        data=sql.encode(),
        headers={"X-ClickHouse-User": BI, "X-ClickHouse-Key": PASSWORDS[BI]},
    )
    size, tail = 0, b""
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310 - the bench's own server
            while part := answer.read(1 << 20):
                size += len(part)
                tail = (tail + part)[-2000:]
    except urllib.error.HTTPError as error:
        raise RefusedError(error.read().decode(errors="replace")) from None
    except http.client.IncompleteRead as error:
        raise RefusedError((tail + error.partial)[-2000:].decode(errors="replace")) from None
    return size


def _report(gua: Gua, server: ClickHouseServer, met: Turns, over: threading.Event) -> None:
    while not over.is_set():
        begun = time.perf_counter()
        done = gua.run("report", "--store", server.dsn(REPORTS), seconds=600)
        if done.returncode:
            met.broken.append(done.stderr)
        else:
            met.seconds.append(time.perf_counter() - begun)
        over.wait(1.0)
