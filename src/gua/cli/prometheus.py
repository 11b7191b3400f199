"""``gua audit`` and ``gua import prometheus``: the past of GPUs from a Prometheus that is already there."""

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.app.local_zone import chosen_zone
from gua.app.opening import home_directory, open_reader
from gua.app.output import print_error, print_line, safe
from gua.app.prometheus import UNFINISHED_MS, Imported, PrometheusImport, check_step
from gua.cli.options import (
    EndpointOption,
    StoreOption,
    TimezoneOption,
    WidthOption,
    check_width,
    flag,
    path_value,
    value,
    with_groups,
)
from gua.cli.output_options import OutputOptions, choose_output
from gua.cli.report import render_report
from gua.core.errors import UsageError
from gua.core.moments import HOUR_MS, format_duration, parse_duration_ms, parse_moment_ms, to_rfc3339, zone
from gua.core.plaintext import few
from gua.imports.prometheus.client import Access, Client, Traffic
from gua.imports.prometheus.survey import Inventory, missing, sources
from gua.report.forms.first_screen import Steps
from gua.report.kit.figures import plural
from gua.report.window import ReportRequest

HELP_GROUPS: Final = {
    "Time": ("since", "until", "timezone"),
    "Access": ("token_file", "user", "password_file", "header", "ca_file", "client_cert", "client_key"),
    "Reading": ("resolution", "interval", "owner_label", "exporter", "again", "dry_run"),
}
_RAW: Final = "raw"
_MOST_SECRET: Final = 65_536
_MOST_WARNINGS: Final = 3

UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="Of Prometheus, Thanos, Mimir or VictoriaMetrics.")]
SinceOption = Annotated[
    str, value("WHEN", "GUA_SINCE", "Start, as in gua report: a duration before the end (30d), a day or a time.")
]
UntilOption = Annotated[str | None, value("WHEN", "GUA_UNTIL", "End, written like --since; now if not given.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessOptions:
    """Options of a Prometheus: credentials, certificates, and how its samples are read."""

    token_file: Annotated[Path | None, path_value("FILE", "GUA_PROMETHEUS_TOKEN_FILE", "File with a bearer token.")] = (
        None
    )
    user: Annotated[str | None, value("NAME", "GUA_PROMETHEUS_USER", "User of basic authentication.")] = None
    password_file: Annotated[
        Path | None, path_value("FILE", "GUA_PROMETHEUS_PASSWORD_FILE", "File with the password of --user.")
    ] = None
    header: Annotated[
        list[str] | None,
        value(
            "NAME:VALUE",
            "GUA_PROMETHEUS_HEADER",
            "Header of all requests, as in X-Scope-OrgID:team; NAME:@FILE reads the value from a file; repeatable.",
        ),
    ] = field(default=None, repr=False)
    ca_file: Annotated[Path | None, path_value("FILE", "GUA_PROMETHEUS_CA_FILE", "Certificates to trust.")] = None
    client_cert: Annotated[Path | None, path_value("FILE", "GUA_PROMETHEUS_CLIENT_CERT", "Client certificate.")] = None
    client_key: Annotated[Path | None, path_value("FILE", "GUA_PROMETHEUS_CLIENT_KEY", "Its key.")] = None

    def client(self, url: str) -> Client:
        """Return a client of the Prometheus at ``url``. Raises UsageError, UnavailableError."""
        if (self.client_key is None) != (self.client_cert is None):
            raise UsageError("--client-cert and --client-key go together: give both")
        if self.password_file is not None and self.user is None:
            raise UsageError("--password-file is of a user: give --user, too")
        if self.token_file is not None and self.user is not None:
            raise UsageError("--token-file and --user are two ways to prove who asks: give one of them")
        return Client(
            Access.of(
                url,
                token=None if self.token_file is None else secret(self.token_file),
                user=self.user,
                password=None if self.password_file is None else secret(self.password_file),
                headers=[_with_file(one) for one in self.header or ()],
                ca_file=self.ca_file,
                client_certificate=self.client_cert,
                client_key=self.client_key,
            )
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingOptions:
    """Options of how samples are read."""

    resolution: Annotated[
        str | None,
        value(
            "STEP",
            "GUA_RESOLUTION",
            "raw: every sample. Or a step, as in 5m: means, maxima and counts of steps, by Prometheus. raw up to 10 "
            "days, else 5m, if not given.",
        ),
    ] = None
    interval: Annotated[
        str | None, value("DURATION", "GUA_SCRAPE_INTERVAL", "The scrape interval, if not that of the samples.")
    ] = None
    owner_label: Annotated[
        str | None,
        value(
            "NAME",
            "GUA_OWNER_LABEL",
            "Label of pods that names their owner, as kube_pod_labels has it (label_NAME); the namespace if not given.",
        ),
    ] = None
    exporter: Annotated[
        str | None,
        value("NAME", "GUA_EXPORTER", "Only this exporter, as in dcgm-exporter, where several have the cards."),
    ] = None
    again: Annotated[bool, flag("--again", "GUA_AGAIN", "Also read days that were imported before.")] = False
    dry_run: Annotated[bool, flag("--dry-run", "GUA_DRY_RUN", "Only say what would be imported.")] = False

    def step_ms(self, length_ms: int) -> int:
        """Return the resolution [ms] for an import of this length [ms], 0 for raw samples. Raises UsageError."""
        if self.resolution == _RAW:
            return 0
        return check_step(None if self.resolution is None else parse_duration_ms(self.resolution), length_ms)


@with_groups
def prometheus(
    url: UrlArgument,
    *,
    since: SinceOption = "30d",
    until: UntilOption = None,
    store: StoreOption = None,
    endpoint: EndpointOption = None,
    timezone: TimezoneOption = None,
    access: AccessOptions,
    reading: ReadingOptions,
) -> int:
    """Import what GPU exporters left in a Prometheus: dcgm-exporter, nvidia_gpu_exporter, nvitop-exporter and others.

    An interrupted import goes on where it stopped. Importing again changes nothing. Where the store has ticks of gua's
    own agent for a card, its samples of that time are left out.

    Example:
        gua import prometheus http://prometheus.example:9090 --since 90d
        gua import prometheus https://mimir.example/prometheus --header X-Scope-OrgID:ml --token-file token
    """
    clock = chosen_zone(timezone, os.environ)
    with _import(url, (since, until), clock, access, reading, store=store, endpoint=endpoint) as (job, found):
        if reading.dry_run:
            _print_dry_run(job, found)
            return 0
        imported = run(job, found)
        for line in summary(job, found, imported):
            typer.echo(line)
    if imported.card_ticks and not endpoint:
        job.roll_up()
    return 0


@with_groups
def audit(
    url: UrlArgument,
    *,
    since: SinceOption = "30d",
    until: UntilOption = None,
    store: Annotated[
        str | None,
        value(
            "DSN", "GUA_AUDIT_STORE", "Where to import to; below ~/.gua/audits, by URL and resolution, if not given."
        ),
    ] = None,
    width: WidthOption = None,
    timezone: TimezoneOption = None,
    access: AccessOptions,
    reading: ReadingOptions,
    form: OutputOptions,
) -> int:
    """Report on the past of GPUs from a Prometheus that already scrapes a GPU exporter.

    Imports into a store of its own, and prints the report. Later audits read only what is new. Nothing is installed on
    any node, and nothing is written to the Prometheus: at most 2 queries run at a time.

    Example:
        gua audit http://prometheus.example:9090 --since 30d
        gua audit https://thanos.example --since 2026-10-01 --until 2026-11-01
        gua audit http://prometheus.example:9090 --dry-run
    """
    check_width(width)
    choose_output(form)
    clock = chosen_zone(timezone, os.environ)
    with _import(url, (since, until), clock, access, reading, store=store, endpoint=None) as (job, found):
        # A store of its own for each resolution: ticks of two would count the same time twice, or hide each other.
        job.store = store or str(home_directory() / "audits" / job.name.rpartition(" ")[2])
        if reading.dry_run:
            _print_dry_run(job, found)
            return 0
        imported = run(job, found)
        for line in summary(job, found, imported):
            print_line(line, to_stderr=True)
    kept = f"--store {shlex.quote(job.store)}"
    window = f"--since {to_rfc3339(job.since_ms)} --until {to_rfc3339(job.until_ms)}"
    steps = Steps(report=f"gua report {kept} {window}", explain=f"gua explain {kept}", store=kept)
    request = ReportRequest(
        since=to_rfc3339(job.since_ms),
        until=to_rfc3339(job.until_ms),
        timezone="UTC" if timezone is None and (form.as_json or form.csv is not None) else clock,
        clock=clock,
        now_ms=time.time_ns() // 1_000_000,
    )
    with open_reader(job.store, needs_newest=False) as reader:
        # One report from ticks takes less time than rolling up their hours, which later reports of this store do.
        return render_report(reader, request, choose_output(replace(form, steps=steps)), width=width)


@contextmanager
def _import(
    url: str,
    times: tuple[str, str | None],
    clock: str,
    access: AccessOptions,
    reading: ReadingOptions,
    *,
    store: str | None,
    endpoint: str | None,
) -> Iterator[tuple[PrometheusImport, Inventory]]:
    """Yield the import of the options and what its Prometheus has; print the server's warnings at the end."""
    now_ms = time.time_ns() // 1_000_000
    since, until = times
    latest_ms = (now_ms - UNFINISHED_MS) // 1000 * 1000
    until_ms = latest_ms
    if until is not None:
        until_ms = min(parse_moment_ms(until, now_ms=now_ms, timezone=zone(clock)), latest_ms)
    since_ms = parse_moment_ms(since, now_ms=now_ms, timezone=zone(clock), newest_ms=until_ms)
    step_ms = reading.step_ms(until_ms - since_ms)
    if step_ms:
        since_ms, until_ms = since_ms // step_ms * step_ms, until_ms // step_ms * step_ms
    if since_ms >= until_ms:
        raise UsageError(
            f"the time from {to_rfc3339(since_ms)} to {to_rfc3339(until_ms)} is empty: --since must be earlier"
        )
    client = access.client(url)
    try:
        job = PrometheusImport(
            client=client,
            since_ms=since_ms,
            until_ms=until_ms,
            step_ms=step_ms,
            interval_ms=None if reading.interval is None else parse_duration_ms(reading.interval),
            owner_label=reading.owner_label,
            exporter=reading.exporter,
            store=store,
            endpoint=endpoint,
            again=reading.again,
        )
        yield job, job.survey()
        for warning in sorted(client.warnings)[:_MOST_WARNINGS]:
            print_error(f"{client.url} warned: {warning}")
    finally:
        client.close()


def secret(path: Path) -> str:
    """Return the first line of a file with a secret. Raises UsageError if it cannot be read or is empty."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MOST_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read ({getattr(error, 'strerror', None) or 'no text'}): name a file with the secret"
        ) from None
    if not text or not text.isprintable():
        raise UsageError(f"{path} has no secret on a line of its own: write it there alone")
    return text


def _with_file(header: str) -> str:
    name, _, rest = header.partition(":")
    return f"{name}:{secret(Path(rest.strip()[1:]))}" if rest.strip().startswith("@") else header


def run(job: PrometheusImport, found: Inventory) -> Imported:
    """Run the import with a progress bar on stderr, if that is a terminal."""
    from rich.console import Console  # noqa: PLC0415 - only for imports
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, highlight=False, markup=False)
    begin = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("import", total=job.until_ms - job.since_ms, rate="")

        def progress(until_ms: int, card_ticks: int) -> None:
            rate = card_ticks / max(time.monotonic() - begin, 0.001)
            bar.update(task, completed=until_ms - job.since_ms, rate=f"{card_ticks:,} card ticks, {rate:,.0f}/s")

        return job.run(found, progress)


def summary(job: PrometheusImport, found: Inventory, imported: Imported) -> Iterator[str]:
    """Yield one line for each thing that was imported, left out or assumed."""
    hosts = few(sorted(safe(host) for host in imported.hosts), 3)
    yield (
        f"imported  {imported.card_ticks:,} card ticks of {plural(len(imported.cards), 'card')} on "
        f"{plural(len(imported.hosts), 'host')}{f' ({hosts})' if hosts else ''}"
    )
    if imported.days_before:
        yield f"skipped   {plural(imported.days_before, 'day')} of an earlier import (--again reads them again)"
    if imported.card_ticks:
        yield f"time      {to_rfc3339(imported.first_ms)} to {to_rfc3339(imported.last_ms)}"
        if imported.first_ms > job.since_ms + HOUR_MS and not imported.days_before:
            yield f"missing   nothing before {to_rfc3339(imported.first_ms)}: no GPU samples, or beyond the retention"
    step = f"steps of {format_duration(job.step_ms)}, by Prometheus" if job.step_ms else "raw samples"
    yield f"sources   {few(sorted(imported.exporters), 6) or 'none new'}; {step}"
    if imported.stored_before:
        yield f"left out  {imported.stored_before:,} card ticks at times with other ticks in the store (agent, imports)"
    for reason, count in sorted(imported.left_out.items()):
        yield f"left out  {count:,} {reason}"
    if imported.without_slices:
        instances = plural(len(imported.without_slices), "MIG instance")
        yield f"unknown   size and GPU time of {instances}: no label has the profile"
    for what, setting in missing(found):
        yield f"unknown   {what} ({setting})"
    yield f"traffic   {traffic(job.client.traffic)}"


def traffic(of: Traffic) -> str:
    """Return the queries sent and the time spent waiting for answers."""
    return (
        f"{of.queries:,} queries, {of.bytes / 2**20:,.1f} MiB, the largest {of.largest / 2**20:,.1f} MiB; "
        f"{of.seconds:,.1f} s of waiting for answers"
    )


def _print_dry_run(job: PrometheusImport, found: Inventory) -> None:
    """Print what an import would read, by the samples of the newest hour of a day that has any."""
    typer.echo(f"window    {to_rfc3339(job.since_ms)} to {to_rfc3339(job.until_ms)}")
    for line in sources(found):
        typer.echo(f"source    {line}")
    typer.echo(f"hosts     {len(found.hosts):,}: {few(sorted(safe(host) for host in found.hosts), 5)}")
    probe = replace(job, step_ms=0).newest_hour(found)
    if probe is None:
        typer.echo("samples   none in the newest hour of any day")
    else:
        hours = (job.until_ms - job.since_ms) / HOUR_MS
        per_step = max(job.step_ms / probe.interval_ms, 1)
        step = f"steps of {format_duration(job.step_ms)}" if job.step_ms else "raw samples"
        card_ticks, samples = probe.card_ticks * hours / per_step, probe.samples * hours
        takes_ms = round(max(probe.seconds * hours / per_step, 1)) * 1000
        typer.echo(f"interval  {format_duration(probe.interval_ms)}; holes {probe.holes:.1%} of the newest hour")
        typer.echo(f"import    about {card_ticks:,.0f} card ticks ({step}) of {samples:,.0f} samples")
        typer.echo(f"takes     about {format_duration(takes_ms)}")
    for what, setting in missing(found):
        typer.echo(f"unknown   {what} ({setting})")
    typer.echo(f"traffic   {traffic(job.client.traffic)}")
