"""``gua demo``: a simulated lab, processed like a real host.

Its variables begin with GUA_DEMO_: those of a real agent (GUA_STORE, GUA_ENDPOINT, GUA_INTERVAL) must never write
simulated numbers to a real store.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gua.cli.completion import values
from gua.cli.options import flag, path_value, value
from gua.cli.output_options import Output, OutputOptions, choose_output, next_steps_of_demo
from gua.cli.report import render_report
from gua.core.errors import UsageError
from gua.core.moments import format_duration, parse_duration_ms, to_rfc3339
from gua.core.tick import Origin, Tick
from gua.core.words import Source
from gua.otlp.resource import origin_elsewhere
from gua.report.kit.figures import plural
from gua.report.kit.style import NARROWEST, WIDEST
from gua.report.section_list import ALL, section_names
from gua.report.window import ReportRequest
from gua.sim.host import DAY_MS, DEFAULT_CARDS, DEFAULT_DAYS, END_MS, HOST, INSTANCE_ID, Scenario, simulate

if TYPE_CHECKING:
    from gua.store.database import Store


def command(
    context: typer.Context,
    *,
    seed: Annotated[int, value("NUMBER", "GUA_DEMO_SEED", "Another number, other people.")] = 0,
    gpus: Annotated[int, value("NUMBER", "GUA_DEMO_GPUS", "GPUs of the host, 1 to 256.")] = DEFAULT_CARDS,
    ticks: Annotated[int | None, value("NUMBER", "GUA_DEMO_TICKS", "Moments to simulate, instead of --days.")] = None,
    interval: Annotated[str, value("DURATION", "GUA_DEMO_INTERVAL", "Time between ticks, 1s to 10m.")] = "5m",
    days: Annotated[
        int | None, value("NUMBER", "GUA_DEMO_DAYS", f"Days to simulate.  [default: {DEFAULT_DAYS}]")
    ] = None,
    store: Annotated[
        str | None, value("DSN", "GUA_DEMO_STORE", "Keep the ticks in a store; else they are dropped.")
    ] = None,
    endpoint: Annotated[str | None, value("URL", "GUA_DEMO_ENDPOINT", "Send to an OTLP/HTTP endpoint instead.")] = None,
    as_json: Annotated[bool, flag("--json", "GUA_DEMO_JSON", "Print the report as JSON.")] = False,
    section: Annotated[
        list[str] | None,
        value(
            "NAME",
            "GUA_DEMO_SECTION",
            "Only this section of the report, or all; repeatable.",
            autocompletion=values(*section_names(), ALL),
        ),
    ] = None,
    full: Annotated[
        bool,
        flag("--full", "GUA_DEMO_FULL", "Every number of the default sections, and what active hours were worth."),
    ] = False,
    brief: Annotated[bool, flag("--brief", "GUA_DEMO_BRIEF", "The answers alone.")] = False,
    markdown: Annotated[bool, flag("--markdown", "GUA_DEMO_MARKDOWN", "Print the report as Markdown.")] = False,
    html: Annotated[Path | None, path_value("FILE", "GUA_DEMO_HTML", "Write the report as a web page instead.")] = None,
    width: Annotated[
        int | None, value("COLUMNS", "GUA_DEMO_WIDTH", "Columns of the report's text.", min=NARROWEST, max=WIDEST)
    ] = None,
) -> None:
    """Show the report of a simulated host: no GPU needed, nothing kept.

    Simulated time ends on Friday 2026-03-27 at 16:00 UTC, so the same options print the same numbers on any day.

    Example:
        gua demo --days 2 --interval 1m
        gua demo --html demo.html
    """
    steps = next_steps_of_demo(context, store)
    output = choose_output(
        OutputOptions(
            sections=section, full=full, brief=brief, as_json=as_json, markdown=markdown, html=html, steps=steps
        )
    )
    interval_ms = parse_duration_ms(interval)
    if ticks is not None and days is not None:
        raise UsageError("--ticks and --days exclude each other: give one of them")
    if days is not None and days < 1:
        raise UsageError(f"--days {days} is nothing to simulate: give 1 or more")
    if ticks is None:
        ticks = (DEFAULT_DAYS if days is None else days) * DAY_MS // interval_ms
    scenario = Scenario(seed=seed, gpus=gpus, ticks=ticks, interval_ms=interval_ms)
    if store is not None and endpoint is not None:
        raise UsageError("--store and --endpoint exclude each other: give one of them")
    whence = origin_elsewhere(Source.SIMULATOR, HOST, scenario.interval_ms, instance_id=INSTANCE_ID)
    if endpoint:
        delivered = _deliver(scenario, whence, endpoint=endpoint)
        typer.echo(f"sent {delivered:,} simulated ticks of {whence.host} to {endpoint}")
    elif store:
        _deliver(scenario, whence, store=store)
        from gua.app import opening  # noqa: PLC0415 - after the options are validated

        with opening.open_reader(store) as reader:
            _record_notices(reader, scenario)
            _report(reader, scenario, whence, output=output, width=width)
    else:

        def reported(landed: Store) -> None:
            if "notices" in output.sections:
                _record_notices(landed, scenario)
            _report(landed, scenario, whence, output=output, width=width)

        with tempfile.TemporaryDirectory(prefix="gua-demo-") as folder:
            _deliver(
                scenario,
                whence,
                store=f"chdb://{Path(folder) / 'store'}",
                on_landed=reported,
                is_thrown_away=True,
            )


def _deliver(
    scenario: Scenario,
    whence: Origin,
    *,
    on_landed: Callable[[Store], None] = lambda _: None,
    **destination: Any,  # noqa: ANN401 - keywords of the delivery
) -> int:
    from gua.app import delivery  # noqa: PLC0415 - after the options are validated

    progress = _Progress(2 * scenario.ticks)

    def made() -> Iterator[Tick]:
        for tick in simulate(scenario, origin=whence):
            yield tick
            progress.advance(1)

    def landed(opened: Store) -> None:
        progress.close()
        on_landed(opened)

    with closing(progress):
        return delivery.deliver(made(), on_tick=progress.advance, on_landed=landed, **destination)


def _report(reader: Store, scenario: Scenario, whence: Origin, *, output: Output, width: int | None) -> None:
    begin_ms = END_MS - scenario.ticks * scenario.interval_ms
    if not output.options.as_json and output.options.html is None:
        every = format_duration(scenario.interval_ms)
        typer.echo(
            f"Simulated numbers of an invented lab: {plural(scenario.gpus, 'GPU')}, a tick every {every}, "
            f"seed {scenario.seed}.\n"
        )
    request = ReportRequest(since=to_rfc3339(begin_ms), until=to_rfc3339(END_MS), hosts=(whence.host,), now_ms=END_MS)
    render_report(reader, request, output, width=width)


def _record_notices(store: Store, scenario: Scenario) -> None:
    from gua.app.demo_notices import record_notices  # noqa: PLC0415 - takes 0.2 s, and few read that section

    record_notices(store, since_ms=END_MS - scenario.ticks * scenario.interval_ms, until_ms=END_MS)


class _Progress:
    """Progress of the simulation on standard error, if that is a terminal; removed when closed."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._shown = "" if sys.stderr.isatty() else None

    def advance(self, steps: int) -> None:
        """Count finished steps. Two threads do: a step that is lost between them does no harm."""
        self._done += steps
        text = f"simulating {100 * self._done // self._total:3d} %"
        if self._shown not in {None, text}:
            self._shown = text
            sys.stderr.write(f"\r{text}")
            sys.stderr.flush()

    def close(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = ""
