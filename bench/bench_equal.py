"""The numbers of this version beside those of another one, from the same ticks: whole reports as JSON, leaf by leaf.

Run: python bench/bench_equal.py BEFORE [--hours 30] [--python FILE] [--on embedded server shards] [--renamed FILE].
BEFORE is a checkout of the other version, as ``git worktree add`` makes it, FILE the Python of an environment that it
runs in (this one's). Each version lands three hosts on which everything happens that is hard to add up, MIG among it
(``tests/fakes/restless.py``), but for every seventh tick, in a store of its own: embedded, on a server, or on a server
that is one of two shards and has the third host on the other. Each then reports ten windows, every section: from the
hourly rollup, from the ticks alone, after the late ticks and a repeated part have come, and once these are rolled up.
Exits with 1 if a number differs; a field that only one version has is named, and no difference. --renamed is a JSON
object of names of fields of the other version, each with its name in this one. Servers need npm.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOSTS = {"node-1": 1, "node-2": 2, "node-3": 5}
# The host that is on the other of two shards.
LAST = "node-3"
STORES = ("embedded", "server", "shards")
EXAMPLES = 3
END_MS = 1_774_600_000_123  # 2026-03-27T08:26:40.123Z
WINDOWS: Mapping[str, Mapping[str, object]] = {
    "all of it": {"since": "30d"},
    "the last day": {"since": "1d"},
    "whole hours": {"since": "2026-03-26T18:00:00", "until": "2026-03-27T05:00:00"},
    "microseconds": {"since": "2026-03-26T19:07:13.501999", "until": "2026-03-27T04:59:59.999999"},
    "less than an hour": {"since": "2026-03-27T02:10:00", "until": "2026-03-27T02:30:00"},
    "a zone three quarters off": {"since": "2d", "timezone": "Asia/Kathmandu"},
    "a zone behind": {"since": "yesterday", "timezone": "America/St_Johns"},
    "one host": {"since": "2d", "hosts": ["node-2"]},
    "two hosts, added up": {"since": "2d", "hosts": ["node-1", "node-3"], "by": ["host", "program"]},
    "by owner and model": {"since": "20h", "by": ["owner", "model"]},
}
# What is compared, in this order, and what is read.
READ = {
    "rolled up": "hours",
    "from ticks": "ticks",
    "after late ticks": "hours",
    "late ticks rolled up": "hours",
}
# In the Python of a version: land ticks (every seventh, or the others), or print the reports of all windows.
_COMMON = """
import inspect, json, sys
store_path, end_ms, *given = sys.argv[1:]
from gua.store.database import open_store
opened = open_store(store_path)
"""
# Serve one or two servers until the input ends; print where each can be written and the last can be read.
_SERVE = """
import sys
from pathlib import Path
from servers.clickhouse import ClickHouseServer
from servers.gua import Gua
from servers.shards import UNREPLICATED, Shards
folder, kind = Path(sys.argv[1]), sys.argv[3]
served = Shards(folder) if kind == "shards" else ClickHouseServer(folder / "server")
servers = served.servers if kind == "shards" else [served]
served.start()
try:
    if kind == "shards":
        served.apply_schema({**UNREPLICATED, "SETTLE_SECONDS": "0"})
    else:
        Gua(folder / "gua", command=(sys.executable, "-m", "gua")).must("schema", "apply", "--store", served.dsn())
    for server in servers:
        server.query("DROP VIEW gua.look_for_due_hours")
        server.query("DROP VIEW IF EXISTS gua.look_for_due_days")
    print(*(server.dsn() for server in servers), servers[-1].dsn("gua_reader"), flush=True)
    sys.stdin.read()
finally:
    served.kill()
"""
_LAND = f"""{_COMMON}
from fakes.fleet import spooled_ticks
from fakes.restless import restless
# Ticks that both versions make alike.
alike = {{"resets": False}} if "resets" in inspect.signature(restless).parameters else {{}}
hosts, hours, late = json.loads(given[0]), int(given[1]), given[2] == "late"
with opened as store:
    for host, seed in hosts.items():
        ticks = enumerate(restless(host, seed=seed, ticks=hours * 120, end_ms=int(end_ms), **alike))
        landed = list(spooled_ticks(tick for number, tick in ticks if (number % 7 == 3) == late))
        store.land(landed)
        store.land(landed[:100])
    if not late:
        store.count_hours()
"""
_COUNT = f"""{_COMMON}
with opened as store:
    store.count_hours()
"""
_REPORT = f"""{_COMMON}
from gua.report.collect import collect
try:
    from gua.report.forms.data import json_pieces
except ImportError:  # the other version may have it in this module
    from gua.report.forms.json import json_pieces
from gua.report.section_list import section_names
from gua.report.window import ReportRequest
names = frozenset(section_names())
with opened as store:
    print(json.dumps({{
        name: json.loads("".join(json_pieces(collect(store, ReportRequest(
            now_ms=int(end_ms),
            sections=names,
            from_ticks=given[1] == "ticks",
            **{{key: tuple(value) if isinstance(value, list) else value for key, value in window.items()}},
        )))))
        for name, window in json.loads(given[0]).items()
    }}))
"""


class Version:
    """A checkout with the Python that runs it, and where it can write and read what it landed."""

    def __init__(self, source: Path, python: Path) -> None:
        self._source, self._python = source, python
        self._writers: list[str] = []
        self._reader = ""

    @contextmanager
    def stored(self, folder: Path, kind: str) -> Iterator[None]:
        """Have a store of a kind: embedded below the folder, or what this version serves there."""
        if kind == "embedded":
            self._writers, self._reader = [f"chdb://{folder}"], f"chdb://{folder}"
            yield
            return
        with subprocess.Popen(
            self._command(_SERVE, folder, kind),
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as serving:
            *self._writers, self._reader = next(iter(serving.stdout or ()), "").split()
            try:
                yield
            finally:
                serving.communicate()

    def land(self, hours: int, part: str) -> None:
        """Land one part of the ticks; the last host's at the last writer."""
        for number, writer in enumerate(self._writers):
            own = {host: seed for host, seed in HOSTS.items() if (host == LAST) == (number > 0)}
            hosts = HOSTS if len(self._writers) == 1 else own
            self._run(_LAND, writer, json.dumps(hosts), hours, part)

    def roll_up(self) -> None:
        """Roll up the hours at every writer, as each shard rolls up those of its own hosts."""
        for writer in self._writers:
            self._run(_COUNT, writer)

    def reports(self, read: str) -> object:
        """Return the reports of all windows."""
        return json.loads(self._run(_REPORT, self._reader, json.dumps(WINDOWS), read))

    def _run(self, script: str, store: str, *arguments: object) -> str:
        return subprocess.run(
            self._command(script, store, *arguments),
            env=self._environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    def _command(self, script: str, store: object, *arguments: object) -> list[str]:
        return [str(self._python), "-c", script, str(store), str(END_MS), *map(str, arguments)]

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(self._source / "src"), str(self._source / "tests")))
        return {**os.environ, "PYTHONPATH": path, "TZ": "UTC"}


def renamed(value: object, names: Mapping[str, str]) -> object:
    """Return a report with its keys under other names."""
    if isinstance(value, dict):
        return {names.get(key, key): renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    return value


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield every number and word of a report by its path, and how long each list is."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}.length", len(value)
        for number, one in enumerate(value):
            yield from leaves(one, f"{path}[{number}]")
    else:
        yield path, value


def compare(before: object, now: object) -> tuple[int, dict[str, list[str]], dict[str, list[int]]]:
    """Return how many numbers and words both can have, where they differ, and what only one of them has.

    The last two by field, which is a path without the indexes of lists; of fields of one version, their number in each.
    """
    ones, others = dict(leaves(before)), dict(leaves(now))
    missing = object()
    fields = [{field_of(path) for path in paths} for paths in (ones, others)]
    shared = fields[0] & fields[1]
    unlike: dict[str, list[str]] = {}
    alone: dict[str, list[int]] = {}
    for path in sorted({*ones, *others}):
        field = field_of(path)
        if field not in shared:
            alone.setdefault(field, [0, 0])[path in others] += 1
        elif ones.get(path, missing) != others.get(path, missing):
            changed_text = f"{ones.get(path, 'nothing')!r} before, {others.get(path, 'nothing')!r} now"
            unlike.setdefault(field, []).append(f"{path.lstrip('.')}: {changed_text}")
    return sum(field_of(path) in shared for path in ones), unlike, alone


def field_of(path: str) -> str:
    """Return a place of a report without the numbers of its lists and the names of windows."""
    return re.sub(r"\[\d+\]", "[]", path).lstrip(".").partition(".")[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="a checkout of the other version")
    parser.add_argument("--hours", type=int, default=30, help="ticks of about so many hours")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="runs the other version")
    parser.add_argument("--on", nargs="+", choices=STORES, default=["embedded"], help="some of %(choices)s")
    parser.add_argument("--renamed", type=Path, metavar="FILE", help="names of fields of both versions, as JSON")
    options = parser.parse_args()
    names = json.loads(options.renamed.read_text(encoding="utf-8")) if options.renamed else {}
    versions = (Version(options.before.resolve(), options.python), Version(ROOT, Path(sys.executable)))
    return 1 if sum(differences(versions, kind, options.hours, names) for kind in options.on) else 0


def differences(versions: Sequence[Version], kind: str, hours: int, names: Mapping[str, str]) -> int:
    """Return how many numbers differ on one kind of store, and print which."""
    different = 0
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder, ExitStack() as stores:
        for number, version in enumerate(versions):
            stores.enter_context(version.stored(Path(folder, str(number)), kind))
            version.land(hours, "first")
            version.roll_up()
        for name, read in READ.items():
            for version in versions:
                if name == "after late ticks":
                    version.land(hours, "late")
                if name == "late ticks rolled up":
                    version.roll_up()
            before, now = (version.reports(read) for version in versions)
            count, unlike, alone = compare(renamed(before, names), now)
            number = sum(map(len, unlike.values()))
            print(f"{kind}, {name}: {number} of {count:,} numbers differ, in {len(WINDOWS)} windows", flush=True)
            for field, lines in sorted(unlike.items(), key=lambda one: -len(one[1])):
                print(f"  {len(lines)} of {field}", *lines[:EXAMPLES], sep="\n    ")
            for field, (ones, others) in alone.items():
                print(f"  in one version only, {ones} times before, {others} times now: {field}")
            different += number
    return different


if __name__ == "__main__":
    sys.exit(main())
