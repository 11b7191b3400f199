"""The numbers of this version beside those of another one, from the same ticks: whole reports as JSON, leaf by leaf.

Run: python bench/bench_equal.py BEFORE [--hours 30] [--python FILE]. BEFORE is a checkout of the other version, as
``git worktree add`` makes it, FILE the Python of an environment that it runs in (this one's). Each version lands three
hosts on which everything happens that is hard to add up (``tests/fakes/restless.py``), but for every seventh tick, in a
store of its own. Each then reports ten windows, every section: from the hourly rollup, from the ticks alone, after the
late ticks and a repeated part have come, and once these are rolled up. Exits with 1 if a number differs; a field that
the other version does not know is named, and no difference.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOSTS = {"node-1": 1, "node-2": 2, "node-3": 5}
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
import json, sys
store_path, end_ms, *given = sys.argv[1:]
from gua.store.database import open_store
opened = open_store("chdb://" + store_path)
"""
_LAND = f"""{_COMMON}
from fakes.fleet import spooled_ticks
from fakes.restless import restless
hosts, hours, late = json.loads(given[0]), int(given[1]), given[2] == "late"
with opened as store:
    for host, seed in hosts.items():
        ticks = enumerate(restless(host, seed=seed, ticks=hours * 120, end_ms=int(end_ms)))
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
except ImportError:  # the other version may have it under this name, in one piece
    from gua.report.forms.data import render_json as json_pieces
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


def run(script: str, source: Path, python: Path, store: Path, *arguments: object) -> str:
    """Run a script with a version's own modules and return what it printed."""
    done = subprocess.run(
        [str(python), "-c", script, str(store), str(END_MS), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(source / "src"), str(source / "tests"))), "TZ": "UTC"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


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


def compare(before: object, now: object) -> tuple[int, dict[str, list[str]], dict[str, int]]:
    """Return how many numbers and words the first has, where the second differs, and what only the second has.

    Both by field, which is a path without the indexes of lists; of fields only in the second, their number.
    """
    ones, others = dict(leaves(before)), dict(leaves(now))
    missing = object()
    known = {field_of(path) for path in ones}
    unlike: dict[str, list[str]] = {}
    alone: dict[str, int] = {}
    for path in sorted({*ones, *others}):
        if ones.get(path, missing) == others.get(path, missing):
            continue
        field = field_of(path)
        if field not in known:
            alone[field] = alone.get(field, 0) + 1
            continue
        changed_text = f"{ones.get(path, 'nothing')!r} before, {others.get(path, 'nothing')!r} now"
        unlike.setdefault(field, []).append(f"{path.lstrip('.')}: {changed_text}")
    return len(ones), unlike, alone


def field_of(path: str) -> str:
    """Return a place of a report without the numbers of its lists."""
    return re.sub(r"\[\d+\]", "[]", path).lstrip(".")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="a checkout of the other version")
    parser.add_argument("--hours", type=int, default=30, help="ticks of about so many hours")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="runs the other version, too")
    options = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory(prefix="gua-bench-") as folder:
        stores = {options.before.resolve(): Path(folder, "before"), ROOT: Path(folder, "now")}
        for source, store in stores.items():
            run(_LAND, source, options.python, store, json.dumps(HOSTS), options.hours, "first")
            run(_COUNT, source, options.python, store)
        for name, read in READ.items():
            if name == "after late ticks":
                for source, store in stores.items():
                    run(_LAND, source, options.python, store, json.dumps(HOSTS), options.hours, "late")
            if name == "late ticks rolled up":
                for source, store in stores.items():
                    run(_COUNT, source, options.python, store)
            before, now = (
                json.loads(run(_REPORT, source, options.python, store, json.dumps(WINDOWS), read))
                for source, store in stores.items()
            )
            count, unlike, alone = compare(before, now)
            number = sum(map(len, unlike.values()))
            print(f"{name}: {number} of {count:,} numbers differ, in {len(WINDOWS)} windows", flush=True)
            for field, lines in sorted(unlike.items(), key=lambda one: -len(one[1])):
                print(f"  {len(lines)} of {field}", *lines[:EXAMPLES], sep="\n    ")
            for field, times in alone.items():
                print(f"  not told before, {times} times: {field}")
            different += number
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
