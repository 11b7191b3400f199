"""One Collector and one ClickHouse server on this machine: how many points a second they take for as long as one likes.

Run: python bench/bench_ingest.py [--seconds 60] [--rate TICKS_A_SECOND]. Looks for the highest rate at which what waits
in the Collector does not grow, then holds it for --seconds, counts what arrived, and shows the parts that ClickHouse
wrote and has. Ticks are of 8 cards x 10 processes; who sends them runs on the same machine, and all its CPU is shown.
Needs Go and npm, as .ci/run does. Fails if a tick is lost.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from measures.figures import machine, title  # noqa: E402 - found through the line above
from measures.senders import CARDS, INTERVAL_S, PROCESSES, Load, Sent, senders  # noqa: E402 - likewise

from fakes.full_host import full_host  # noqa: E402 - likewise
from gua.otlp.encode import encode  # noqa: E402 - likewise
from servers.clickhouse import ClickHouseServer  # noqa: E402 - likewise
from servers.collector import CONFIG, Collector  # noqa: E402 - likewise
from servers.gua import Gua  # noqa: E402 - likewise
from soak.accounts import points_in  # noqa: E402 - likewise
from soak.outage import changed_config  # noqa: E402 - likewise

# What waits goes up and down by a batch, and the last one waits to be filled: 5 s, by the shipped config.
GROWTH_SECONDS = 1.0
DRAINED_SECONDS = 8.0
LATE_SECONDS = 1.0
GIVE_UP_SECONDS = 300
FINEST = 1.08
WATCHER = """
<clickhouse><users><watcher>
    <password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota>
    <grants><query>GRANT SELECT ON *.*</query></grants>
</watcher></users></clickhouse>
"""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """One look at the pipeline; points waiting, parts of landing and ticks, CPU seconds by process."""

    at: float
    waiting: float
    parts: int
    written: int
    cpu: dict[str, float]


@dataclass(frozen=True)
class Trial:
    """One load and what was seen of it."""

    load: Load
    points_a_tick: int
    sent: list[Sent]
    samples: list[Sample]
    drain_seconds: float

    @property
    def points_a_second(self) -> float:
        return self.load.rate * self.points_a_tick

    @property
    def growth(self) -> float:
        """By how many seconds' worth of points more waits in the last third of the time than in the one before."""
        third = len(self.samples) // 3
        before, last = (
            fmean(sample.waiting for sample in samples)
            for samples in (self.samples[third : 2 * third], self.samples[2 * third :])
        )
        return (last - before) / self.points_a_second

    @property
    def late_seconds(self) -> float:
        return max(sent.late_seconds for sent in self.sent)

    @property
    def refused(self) -> int:
        return sum(sent.refused for sent in self.sent)

    @property
    def holds(self) -> bool:
        return (
            not self.refused
            and self.late_seconds < LATE_SECONDS
            and self.growth < GROWTH_SECONDS
            and self.drain_seconds < DRAINED_SECONDS
        )

    def line(self) -> str:
        waiting = max(sample.waiting for sample in self.samples)
        return (
            f"{self.load.rate:8.1f} {self.points_a_second:11,.0f} {self.load.hosts:7,} {self.load.seconds:6.0f} s "
            f"{waiting:11,.0f} {self.growth:8.2f} s {self.late_seconds:8.2f} s {self.refused:8} "
            f"{self.drain_seconds:6.1f} s  {'holds' if self.holds else 'too much'}"
        )


HEAD = (
    f"{'ticks/s':>8} {'points/s':>11} {'hosts':>7} {'for':>8} {'waiting max':>11} {'growth':>10} {'late':>10} "
    f"{'refused':>8} {'drained':>8}"
)


class Pipeline:
    """The two servers as they are shipped, and what can be seen of them."""

    def __init__(self, folder: Path, batch: int | None) -> None:
        self.server = ClickHouseServer(folder / "clickhouse")
        (folder / "clickhouse" / "users.d" / "watcher.xml").write_text(WATCHER, encoding="utf-8")
        # The flush time of the shipped config; tests have a shorter one.
        shipped = {"COLLECTOR_FLUSH": "5s"}
        config = changed_config(folder, {"min_size: 5000": f"min_size: {batch}"}) if batch else CONFIG
        self.collector = Collector(folder / "collector", self.server, shipped, config=config)
        self.gua = Gua(folder / "gua")
        self.points_a_tick = points_in(encode(next(full_host(cards=CARDS, processes=PROCESSES))))

    def start(self) -> None:
        self.server.start()
        self.gua.must("schema", "apply", "--store", self.server.dsn("gua_owner"))
        self.collector.start()

    def waiting(self) -> float:
        return self.collector.accepted_points() - self.collector.sent_points()

    def sample(self, pids: dict[str, int]) -> Sample:
        parts, written = self._watched(
            "SELECT (SELECT count() FROM system.parts WHERE active AND database = 'gua'), "
            "(SELECT value FROM system.events WHERE event = 'MergeTreeDataWriterBlocks')"
        ).split("\t")
        return Sample(
            at=time.monotonic(),
            waiting=self.waiting(),
            parts=int(parts),
            written=int(written),
            cpu={name: cpu_seconds(pid) for name, pid in pids.items()},
        )

    def _watched(self, sql: str) -> str:
        """Return the answer to a statement of the one user who may look at the server itself."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.http_port}/", sql.encode(), {"X-ClickHouse-User": "watcher"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the bench's own server
            return str(answer.read().decode()).strip()

    def trial(self, rate: float, seconds: float, count: int) -> Trial:
        """Send at a rate, and return what was seen once all of it has arrived."""
        load = Load(rate, seconds, time.time_ns() // 1_000_000)
        with senders(self.collector.endpoint, load, count) as sending:
            pids = {
                "collector": self.collector.pid,
                "server": self.server.pid,
                **{f"sender {number}": sender.pid for number, sender in enumerate(sending, 1)},
                "this bench": os.getpid(),
            }
            begin = time.monotonic() + 0.2
            for sender in sending:
                sender.go(begin)
            samples = [self.sample(pids)]
            while (at := time.monotonic()) < begin + seconds:
                time.sleep(max(0.0, min(1.0, begin + seconds - at)))
                samples.append(self.sample(pids))
            sent = [sender.result() for sender in sending]
            ended = time.monotonic()
            while self.waiting() > 0 and time.monotonic() < ended + GIVE_UP_SECONDS:
                time.sleep(0.2)
            drain_seconds = time.monotonic() - ended
        trial = Trial(load, self.points_a_tick, sent, samples, drain_seconds)
        print(trial.line(), flush=True)
        return trial

    def landed(self, since_ms: int) -> tuple[int, int]:
        """Return how many card ticks and process ticks there are from then on, each once."""
        counted = [
            self.server.query(f"SELECT count() FROM gua.{view} WHERE toUnixTimestamp64Milli(ts) >= {since_ms}")  # noqa: S608 - our own
            for view in ("card_states", "process_states")
        ]
        return int(counted[0]), int(counted[1])


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, threads that ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def search(pipeline: Pipeline, options: argparse.Namespace) -> float:
    """Return the highest rate that holds in short trials: doubled until one does not, then halved between."""
    good = bad = 0.0
    rate = options.first
    while not good or not bad or bad > FINEST * good:
        if pipeline.trial(rate, options.probe, options.senders).holds:
            good = rate
        else:
            bad = rate
        rate = (good * bad) ** 0.5 if good and bad else 2 * good or bad / 2
        if rate < 1:
            sys.exit("not even a tick a second goes through")
    return good


def show(trial: Trial) -> None:
    first, last = trial.samples[0], trial.samples[-1]
    elapsed = last.at - first.at
    title("Parts in ClickHouse (database gua), every tenth of the time")
    print(f"{'second':>8} {'written/min':>12} {'active':>8}")
    every = max(1, len(trial.samples) // 10)
    looks = trial.samples[::every]
    for before, after in pairwise(looks):
        written = (after.written - before.written) / (after.at - before.at) * 60
        print(f"{after.at - first.at:8.0f} {written:12.0f} {after.parts:8}")
    title(f"CPU over {elapsed:.0f} s, of {os.cpu_count()} cores")
    for name, spent in last.cpu.items():
        print(f"  {name:<12} {(spent - first.cpu[name]) / elapsed:6.2f} cores")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long the rate that was found must hold")
    parser.add_argument("--probe", type=float, default=15, help="how long each rate is tried in the search")
    parser.add_argument("--first", type=float, default=16, help="the first rate that is tried [ticks/s]")
    parser.add_argument("--rate", type=float, help="a rate to hold, without a search [ticks/s]")
    parser.add_argument("--senders", type=int, default=1, help="processes that send")
    parser.add_argument("--batch", type=int, help="points that the Collector waits for, instead of those in its config")
    options = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="gua-ingest-") as folder:
        pipeline = Pipeline(Path(folder), options.batch)
        try:
            pipeline.start()
            measure(pipeline, options)
        finally:
            pipeline.collector.kill()
            pipeline.server.kill()


def measure(pipeline: Pipeline, options: argparse.Namespace) -> None:
    title(f"Ticks of {CARDS} cards x {PROCESSES} processes, {pipeline.points_a_tick} points each")
    print(HEAD)
    rate = options.rate or search(pipeline, options)
    while not (trial := pipeline.trial(rate, options.seconds, options.senders)).holds:
        if options.rate:
            break
        rate *= 0.9
    show(trial)
    card_ticks, process_ticks = pipeline.landed(trial.load.base_ms)
    due = trial.load.ticks * CARDS
    title("In short")
    print(f"  {trial.points_a_second:,.0f} points/s for {trial.load.seconds:.0f} s: ", end="")
    print("what waits does not grow" if trial.holds else "MORE THAN IT TAKES")
    print(f"  as many as {trial.load.hosts:,} hosts with {CARDS} cards send at {INTERVAL_S} s")
    print(f"  card ticks    {card_ticks:>10,} of {due:,}")
    print(f"  process ticks {process_ticks:>10,} of {due * PROCESSES:,}")
    if (card_ticks, process_ticks) != (due, due * PROCESSES):
        sys.exit("something was lost")


if __name__ == "__main__":
    main()
