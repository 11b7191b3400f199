"""What becomes of ticks when the disk is full or slow, and when the spool is damaged or removed."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from fakes.clock import FakeClock
from fakes.host import DESTINATION, INTERVAL_MS, Cards, Host, show
from fakes.otlp import Answer, HttpReceiver
from gua.core.ports import SpooledTick
from gua.core.tick import Tick
from gua.local_socket.client import query_status
from gua.otlp.decode import decode
from gua.state.compression import decompress
from reliability.promises import assert_none_is_missing, assert_none_was_skipped, assert_time_is_told_once
from servers.agent import Agent, assert_spans_never_overlap, observed_ms, wall_ms
from servers.process import poll

PAGE = 4096


class Disk(Protocol):
    """A disk that can be full; ``home`` lies on it."""

    def fill(self) -> None: ...
    def free(self) -> None: ...


class FileLimit:
    """No file of the agent's can be written to: EFBIG in the place of ENOSPC, which needs no rights and no disk."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def fill(self) -> None:
        self._set(0)

    def free(self) -> None:
        self._set(resource.RLIM_INFINITY)

    def _set(self, size: int) -> None:
        assert self._agent.process is not None
        _, hard = resource.prlimit(self._agent.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._agent.process.pid, resource.RLIMIT_FSIZE, (min(size, hard) if size else 0, hard))


class SmallDisk:
    """A disk of 2 MiB at the agent's home, as those who may mount can have one."""

    def __init__(self, agent: Agent) -> None:
        self._home = agent.home
        self._ballast = agent.home / "ballast"
        self._home.mkdir(mode=0o700)
        mount(self._home)

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(PAGE)):
                pass

    def free(self) -> None:
        self._ballast.unlink()


def mount(folder: Path) -> None:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", folder], check=True, capture_output=True
    )


def may_mount(folder: Path) -> bool:
    if os.geteuid() or not shutil.which("mount"):
        return False
    folder.mkdir()
    with contextlib.suppress(subprocess.CalledProcessError):
        mount(folder)
        subprocess.run(["umount", folder], check=True)
        return True
    return False


@pytest.mark.reliability
@pytest.mark.parametrize("how", ["file limit", "small disk"])
def test_while_the_disk_is_full_ticks_wait_in_memory_and_all_are_there_when_it_is_not(
    agent: Agent, tmp_path: Path, how: str
) -> None:
    # If mounting is not permitted, both are the limit: nothing is left out.
    mounted = how == "small disk" and may_mount(tmp_path / "try")
    disk: Disk = SmallDisk(agent) if mounted else FileLimit(agent)
    log = agent.home / "agent.log"
    began = wall_ms()
    try:
        agent.start("--log-file", str(log))
        agent.wait_for_ticks(2)
        disk.fill()
        full_from = wall_ms()
        poll(lambda: (agent.status()["spool"]["in_memory_ticks"] or 0) >= 3, "ticks to wait in memory")
        status, shown = agent.status(), " ".join(agent.run("status").stdout.split())
        full_seconds = (wall_ms() - full_from) / 1000
        disk.free()
        poll(lambda: agent.status()["spool"]["in_memory_ticks"] == 0, "the disk to take them")
        after = agent.status()
        agent.stop()
        ticks = agent.ticks()
        noted = log.read_text()
    finally:
        if mounted:
            if agent.process is not None:
                agent.kill()
            subprocess.run(["umount", agent.home], check=True)
    waited = status["spool"]["in_memory_ticks"]
    (condition,) = status["conditions"]
    assert "spool" in condition
    assert "\n" not in condition
    assert "wait in memory" in shown
    assert_none_was_skipped(after, kept_waiting_ms=agent.kept_waiting_ms)
    assert (after["conditions"], after["spool"]["dropped_ticks"]) == ([], 0)
    assert_none_is_missing(ticks, kept_waiting_ms=agent.kept_waiting_ms)
    assert_time_is_told_once(ticks, began)
    assert sum(tick.ts_ms > full_from for tick in ticks) >= waited
    assert "all is well again" in noted
    assert "Traceback" not in noted + agent.tail()
    show(f"{how}: full for {full_seconds:.0f} s, {waited} ticks waited in memory, 0 of {len(ticks)} lost: {condition}")


def test_ticks_beyond_the_memory_limit_of_a_full_disk_are_dropped_oldest_first_and_counted(tmp_path: Path) -> None:
    with Host(tmp_path / "spool.db", cards=Cards(8, 10)) as host:
        host.run(10 * 30)
        before = len(host.ticks())
        database = host.spool._database  # noqa: SLF001 - a full disk that needs no rights: no page more
        connection = database._connection  # noqa: SLF001 - as above
        assert connection is not None
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
        host.run(150 * 60)
        status = host.status()
        due = 150 * 60 * 1000 // INTERVAL_MS
        waiting, dropped = status["spool"]["in_memory_ticks"], status["spool"]["dropped_ticks"]
        assert waiting == 256
        assert due - 2 <= waiting + dropped + len(host.ticks()) - before <= due + 2
        assert "is full: free some space" in status["conditions"][0]
        connection.execute("PRAGMA max_page_count = 1000000")
        host.run(2 * 30)
        ticks = host.ticks()
        assert (host.status()["spool"]["in_memory_ticks"], host.status()["conditions"]) == (0, [])
        assert host.outbox.dropped == dropped
        assert_spans_never_overlap(ticks)
        unobserved = host.really_ms - observed_ms(ticks)
        # Each run ends with a tick that is shorter than the others.
        assert (dropped - 2) * INTERVAL_MS <= unobserved <= (dropped + 2) * INTERVAL_MS
        show(f"full for {due} ticks: {waiting} waited and are there, the oldest {dropped} were dropped and counted")


def damage(path: Path, chance: random.Random, how: str) -> list[bytes]:
    """Damage some pages in the middle of the file, and return what stood on them."""
    data = bytearray(path.read_bytes())
    numbers = sorted(chance.sample(range(8, len(data) // PAGE - 1), 4))
    pages = [bytes(data[number * PAGE : (number + 1) * PAGE]) for number in numbers]
    with path.open("r+b", buffering=0) as file:
        for number, page in zip(numbers, pages, strict=True):
            at = number * PAGE
            if how == "zeroed":
                file.seek(at)
                file.write(bytes(PAGE))
            else:
                place = chance.randrange(PAGE)
                file.seek(at + place)
                file.write(bytes([page[place] ^ 0x10]))
    return pages


def on_pages(tick: SpooledTick, pages: Sequence[bytes]) -> bool:
    """Return whether any part of the tick stood on one of these pages."""
    blob = tick.blob
    return any(blob[start : start + 16] in page for page in pages for start in range(0, len(blob) - 15, 8))


def spool_of(path: Path, clock: FakeClock, ticks: int) -> list[SpooledTick]:
    """Make a spool with so many ticks, all of them in the file and none in its log; return them."""
    with Host(path, clock=clock, cards=Cards(4, 10)) as host:
        host.run((ticks - 1) * 30)
        connection = host.spool._database._connection  # noqa: SLF001 - as a checkpoint of its own would
        assert connection is not None
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return host.spool.peek(DESTINATION, 1_000_000)


def times(ticks: Sequence[SpooledTick | Tick]) -> list[int]:
    return [tick.ts_ms for tick in ticks]


def assert_loss(before: Sequence[SpooledTick], after: Sequence[int], pages: Sequence[bytes], noted: int) -> None:
    """Check that only ticks on the damaged pages are lost, and that their number is reported."""
    missing = {*times(before)} - {*after}
    assert missing <= {tick.ts_ms for tick in before if on_pages(tick, pages)}
    assert noted == len(missing)
    kept = [ts_ms for ts_ms in times(before) if ts_ms not in missing]
    assert [ts_ms for ts_ms in after if ts_ms in {*kept}] == kept


def is_intact(tick: SpooledTick) -> bool:
    """Return whether what is stored of a tick is one whole frame of its length."""
    try:
        return len(decompress(tick.blob)) == tick.raw_length
    except ValueError:
        return False


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ["zeroed", "flipped"])
def test_a_spool_damaged_while_unused_is_set_aside_and_the_agent_goes_on(tmp_path: Path, how: str, seed: int) -> None:
    path, clock = tmp_path / "spool.db", FakeClock()
    before = spool_of(path, clock, 120)
    pages = damage(path, random.Random(seed), how)  # noqa: S311 - a test that can be repeated
    with Host(path, clock=clock) as host:
        began = clock.wall
        host.run(300)
        spooled = host.spool.peek(DESTINATION, 1_000_000)
        lost = host.spool.stats().lost
    # A tick whose own bytes are flipped is found when it is sent, set aside and counted as refused.
    broken = [tick for tick in spooled if not is_intact(tick)]
    intact = [tick for tick in spooled if tick not in broken]
    if lost is None:
        assert not {*times(before)} & {*times(intact)}
        assert [*tmp_path.glob("spool.db.corrupt-*")]
    else:  # SQLite does not look into the ticks
        assert_loss(before, times(intact), pages, len(broken))
    ticks = [decode(decompress(tick.blob)) for tick in intact]
    assert len([tick for tick in ticks if tick.ts_ms > began]) == 300 // 30 + 1
    assert_spans_never_overlap(ticks)
    assert observed_ms(ticks) <= 120 * INTERVAL_MS + host.really_ms
    show(f"4 pages {how} while down: {'set aside' if lost is None else f'{len(broken)} broken'} of {len(before)} ticks")


@pytest.mark.reliability
@pytest.mark.parametrize(("when", "how"), [("down", "zeroed"), ("running", "zeroed"), ("running", "flipped")])
def test_a_damaged_spool_is_set_aside_and_the_loss_is_shown(agent: Agent, how: str, when: str) -> None:
    agent.home.mkdir(mode=0o700)
    path = agent.home / "spool.db"
    before = spool_of(path, FakeClock(), 120)
    chance = random.Random(how)  # noqa: S311 - a test that can be repeated
    began = wall_ms()
    with HttpReceiver() as receiver:
        if when == "running":
            # While the sender waits it holds no tick: what it had read before would arrive, and be reported as lost.
            receiver.script = [Answer(status=503, retry_after="4")] * 100
            agent.start("--endpoint", receiver.url)
            # Queried without a command, which takes seconds on a busy machine: the sender waits for four.
            own = agent.home / "agent.sock"
            poll(lambda: query_status(own, timeout_seconds=60)["destinations"][0]["failing"], "the sender to fail")
            pages = damage(path, chance, how)
            refused_requests = len(receiver.requests)
            receiver.script.clear()
            receiver.requests.clear()
            assert refused_requests == 1
        else:
            pages = damage(path, chance, how)
            agent.start("--endpoint", receiver.url)
        poll(lambda: agent.status()["destinations"][0]["waiting_ticks"] == 0, "all to arrive")
        # What was lost is shown from the next tick on; one may be under way.
        made = agent.status()["ticks"]["made"]
        poll(lambda: agent.status()["ticks"]["made"] >= made + 2, "the next tick")
        status, doctor = agent.status(), agent.run("doctor", "--json").stdout
        agent.stop()
        received = [tick for request in receiver.requests for tick in ticks_of(request.body)]
    noted = [text for text in status["conditions"] if "begun anew, 1 x so far: an unknown number" in text]
    refused = status["destinations"][0]["refused_ticks"]
    ours = [tick for tick in received if tick.ts_ms >= began]
    if not noted:  # SQLite does not look into the ticks
        assert_loss(before, sorted({*times(received)}), pages, refused)
    assert_spans_never_overlap(ours)
    assert observed_ms(ours) <= wall_ms() - began
    assert_none_was_skipped(status, kept_waiting_ms=agent.kept_waiting_ms)
    assert noted or refused > 0
    assert ("an unknown number lost with a damaged file" in doctor) == bool(noted)
    assert (f"{refused} refused for good" in doctor) == (refused > 0)
    assert len([*agent.home.glob("spool.db.corrupt-*")]) >= len(noted)
    show(f"4 pages {how} while {when}: of {len(before)} ticks {refused} broken; status: {noted}")


def ticks_of(body: bytes) -> list[Tick]:
    return [
        decode(ExportMetricsServiceRequest(resource_metrics=[one]).SerializeToString())
        for one in ExportMetricsServiceRequest.FromString(body).resource_metrics
    ]


@pytest.mark.reliability
@pytest.mark.parametrize("what", ["spool.db", "spool.db-wal", "everything"])
def test_a_spool_that_is_removed_under_the_running_agent_loses_nothing(agent: Agent, what: str) -> None:
    began = wall_ms()
    agent.start()
    before = agent.wait_for_ticks(3)
    gone = [path for path in agent.home.glob("spool.db*") if what in ("everything", path.name)]
    assert gone
    for path in gone:
        path.unlink()
    # No other process opens the spool first: SQLite then forgets the content of a removed log.
    made = agent.status()["ticks"]["made"]
    poll(lambda: agent.status()["ticks"]["made"] >= made + 2, "ticks after it")
    status = agent.status()
    agent.stop()
    ticks = agent.ticks()
    assert ticks[: len(before)] == before
    assert_none_is_missing(ticks, kept_waiting_ms=agent.kept_waiting_ms)
    assert_time_is_told_once(ticks, began)
    assert_none_was_skipped(status, kept_waiting_ms=agent.kept_waiting_ms)
    show(f"{what} removed while running: 0 of {len(ticks)} ticks lost; {status['conditions']}")


@pytest.fixture
def slow(agent: Agent, tmp_path: Path) -> Iterator[Path]:
    """Return the file that says how slow the agent's disk is, in ms."""
    library, setting = tmp_path / "slow_disk.so", tmp_path / "slow"
    source = Path(__file__).with_name("slow_disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    setting.write_text("0")
    agent.environ = {**agent.environ, "LD_PRELOAD": str(library), "SLOW_DISK": str(setting)}
    return setting


@pytest.mark.reliability
@pytest.mark.parametrize("interval", [5, 1])
def test_a_disk_that_takes_two_seconds_for_each_write(agent: Agent, slow: Path, interval: int) -> None:
    with HttpReceiver() as receiver:
        began = wall_ms()
        agent.start("--endpoint", receiver.url, interval=f"{interval}s")
        poll(lambda: agent.status()["ticks"]["made"] >= 2, "ticks")
        slow.write_text("2000")
        slow_from = wall_ms()
        answers = []
        while wall_ms() - slow_from < 11_000:
            begun_at = time.monotonic()
            status = agent.status()
            answers.append(time.monotonic() - begun_at)
            time.sleep(0.5)
        slow.write_text("0")
        time.sleep(interval + 0.5)
        poll(lambda: agent.status()["destinations"][0]["waiting_ticks"] == 0, "all to arrive")
        agent.stop()
        received = {tick.ts_ms: tick for request in receiver.requests for tick in ticks_of(request.body)}
    ticks = [received[ts_ms] for ts_ms in sorted(received)]
    assert_time_is_told_once(ticks, began)
    missed = status["ticks"]["skipped"].get("missed", 0)
    late = max(tick.agent.tick_lateness_seconds or 0 for tick in ticks if tick.agent)
    if interval == 1:
        assert missed > 0
    else:
        assert status["ticks"]["skipped"] == {}
        assert_none_is_missing(ticks, interval * 1000)
    show(
        f"2 s for each write at {interval} s: {len(ticks)} ticks, {missed} missed and counted, {late:.1f} s late "
        f"at most; gua status took {max(answers):.1f} s at most"
    )
