"""One ``gua report`` of an embedded store, a stage after the other, in a process of its own; prints them as JSON.

Run: python -m measures.stages STORE SINCE. Of a stage the CPU time of the process and the seconds on the clock. The
command itself sends two queries at a time.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

STAGES: list[tuple[str, float, float]] = []


@contextmanager
def stage(name: str, begun: tuple[float, float] | None = None) -> Iterator[None]:
    cpu, clock = begun or (time.process_time(), time.perf_counter())
    yield
    STAGES.append((name, time.process_time() - cpu, time.perf_counter() - clock))


def main() -> None:
    store, since = sys.argv[1:]
    with stage("Python starts", (0.0, time.perf_counter() - time.process_time())):
        pass
    with stage("modules of the command"):
        for name in ("gua.cli.main", "gua.cli.report", "gua.app.opening"):
            importlib.import_module(name)
    from gua.store.engine import engine_version  # noqa: PLC0415 - likewise

    with stage("the engine is loaded"):
        engine_version()
    from gua.cli.options import style_for  # noqa: PLC0415 - as above
    from gua.cli.output_options import OutputOptions, choose_output  # noqa: PLC0415 - as above
    from gua.report.collect import collect  # noqa: PLC0415 - as above
    from gua.report.hours import tick_hours  # noqa: PLC0415 - as above
    from gua.report.questions import RecordingReader  # noqa: PLC0415 - as above
    from gua.report.window import ReportRequest  # noqa: PLC0415 - as above
    from gua.store.database import open_store  # noqa: PLC0415 - as above
    from gua.store.report_views import report_views, without_ticks  # noqa: PLC0415 - as above

    chosen = choose_output(OutputOptions())
    with stage("the store is opened"):
        opened = open_store(store)
    newest = opened.select("SELECT toUnixTimestamp64Milli(max(ts)) AS ms FROM gua.card_ticks")[0]["ms"]
    recorded = RecordingReader(opened)
    request = ReportRequest(
        now_ms=newest,
        since=since,
        sections=chosen.sections,
        if_cheap=chosen.if_cheap,
        what_if_limits_ms=chosen.limits_ms,
    )
    with stage("questions"):
        report = collect(recorded, request)
    with stage("the report is drawn"):
        chosen.render(report, style_for(sys.stdout, 80, {}))
    # Of another window, of which nothing is kept yet.
    shifted = {"until_ms": max(given.get("until_ms", 0) for _, given in recorded.questions) - 1}
    for view, given in recorded.questions:
        with stage(f"{view}, asked alone"):
            list(opened.rows(view, {**given, **(shifted if "until_ms" in given else {})}))
    with stage("questions, planned again"):
        for view, given in recorded.questions:
            # The store reads tables in place of views of ticks; hourly ones are planned alike.
            query = without_ticks(report_views().query(view), {"tick_hours": tick_hours([])})
            opened.select(f"EXPLAIN PIPELINE {query}", given)
    with stage("the store is closed"):
        opened.close()
    print(json.dumps([len(recorded.questions), STAGES]))


if __name__ == "__main__":
    main()
