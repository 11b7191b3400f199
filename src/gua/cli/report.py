"""``gua report``: use of the GPU hours, from any store."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Final, TextIO

import typer

from gua.app.local_zone import chosen_zone
from gua.cli.completion import values
from gua.cli.options import (
    HostsOption,
    SocketOption,
    StoreOption,
    TimezoneOption,
    WidthOption,
    check_width,
    flag,
    style_for,
    value,
    with_groups,
)
from gua.cli.output_options import Output, OutputOptions, choose_output, is_typed, next_steps
from gua.core.errors import UsageError
from gua.core.moments import WEEKDAYS
from gua.core.ports import ViewReader
from gua.report.collect import collect
from gua.report.questions import RecordingReader
from gua.report.section_list import split
from gua.report.window import THIS_MONTH, USAGE_BY, ReportRequest, check_request

OPTIONAL_VALUES: Final = {"command": {"--month": THIS_MONTH}}
_DAYS: Final = values("today", "yesterday", *WEEKDAYS)
HELP_GROUPS: Final = {
    "Time": ("since", "until", "month", "last_week", "timezone"),
    "Hosts": ("host", "cluster", "where"),
    "Content": ("sections", "full", "brief", "basis", "by", "what_if", "limits", "fail_on", "rules", "from_ticks"),
    "Format": ("as_json", "csv", "markdown", "html", "sql", "width"),
    "Source": ("store", "socket"),
}


@with_groups
def command(
    context: typer.Context,
    *,
    since: Annotated[
        str | None,
        value(
            "WHEN",
            "GUA_SINCE",
            "Start: a time (2026-03-25T14:05), a day (2026-03-25, today, yesterday, monday), a month (2026-03), or a "
            "duration (7d, '12 hours') before now, or the newest tick where no agent samples the hosts. 7 days before "
            "the end if not given.",
            autocompletion=_DAYS,
        ),
    ] = None,
    until: Annotated[
        str | None,
        value(
            "WHEN",
            "GUA_UNTIL",
            "End, written like --since. Now, or the newest tick where no agent samples the hosts, if not given.",
            autocompletion=_DAYS,
        ),
    ] = None,
    month: Annotated[
        str | None, value("[YYYY-MM]", "GUA_MONTH", "A month as far as it is over; this one if none is given.")
    ] = None,
    last_week: Annotated[
        bool, flag("--last-week", "GUA_LAST_WEEK", "The last week that is over, Monday to Sunday.")
    ] = False,
    host: HostsOption = None,
    cluster: Annotated[
        list[str] | None,
        value(
            "NAME",
            "GUA_K8S_CLUSTER",
            "Only hosts of this cluster (their resource attribute k8s.cluster.name); repeatable.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        value(
            "KEY=VALUE",
            "GUA_WHERE",
            "Only hosts whose agents have this resource attribute (OTEL_RESOURCE_ATTRIBUTES), as in team=vision; "
            "repeatable: any of the values of one key, all keys.",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        value(
            "KEY",
            "GUA_BY",
            "Add cards up by host, cluster, model or a resource attribute (by host where there are several), or "
            "processes by owner (or user), program, container, pod, job, kind, served-model, host or model, "
            "allocated time by kind or served-model; repeatable.",
            autocompletion=values(*USAGE_BY, "user", "host", "model", "cluster"),
        ),
    ] = None,
    width: WidthOption = None,
    store: StoreOption = None,
    socket: SocketOption = None,
    timezone: TimezoneOption = None,
    from_ticks: Annotated[
        bool,
        flag(
            "--from-ticks",
            "GUA_FROM_TICKS",
            "Read ticks instead of hourly rollups: the same numbers, slower.",
        ),
    ] = False,
    rules: Annotated[
        str | None,
        value(
            "NAME",
            "GUA_RULES",
            "gpu-usage-audit: what that tool's versions 1.0 to 1.8 say of these ticks by their own rule, card by "
            "card, and where and why ours differs.",
        ),
    ] = None,
    form: OutputOptions,
) -> int:
    """Show where the GPU hours went, and who held idle cards.

    Says on what the numbers rest: the rule and its thresholds, what was observed, what is unknown and why.

    Reads the store of --store, else this user's own, else the agent of this host.

    Example:
        gua report --since monday
        gua report --month 2026-11 --timezone Europe/Berlin
        gua report --host node-1 --json
        gua report --where team=vision --where team=audio --by team
        gua report --brief
        gua report --section now,usage --by user
        gua report --what-if 30m 2h 8h
        gua report --csv usage --since 30d
        gua report --html report.html --fail-on 'idle-held > 20%'
        gua report --rules gpu-usage-audit --since 30d
    """
    check_width(width)
    output = replace(form, steps=next_steps(context))
    chosen = choose_output(output)
    if rules is not None:
        from gua.report import legacy_v1  # noqa: PLC0415 - most reports use gua's own rules

        if rules not in legacy_v1.RULES:
            raise UsageError(f"no rules {rules!r}: there are {', '.join(legacy_v1.RULES)}")
        for name in output.used():
            if name != "--json":
                raise UsageError(f"--rules compares card by card, as text or --json: leave {name} out")
        if by:
            raise UsageError("--rules compares card by card, and adds nothing up: leave --by out")
    clock = chosen_zone(timezone, os.environ)
    request = ReportRequest(
        since=since,
        until=until,
        month=month,
        last_week=last_week,
        hosts=tuple(host or ()),
        clusters=tuple(cluster or ()),
        where=tuple(where or ()),
        by=tuple("owner" if key == "user" else key for key in split(by or ())),
        # Machine-readable output must not depend on the host's time zone.
        timezone="UTC" if timezone is None and (output.as_json or output.csv is not None) else clock,
        clock=clock,
        from_ticks=from_ticks,
        now_ms=time.time_ns() // 1_000_000,
    )
    request = _without_variables(request, context)
    check_request(request)
    from gua.app.opening import counting, open_report_source  # noqa: PLC0415 - after the options are validated

    with open_report_source(store, socket) as reader:
        if rules is not None:
            compared, style = legacy_v1.collect_older_rules(reader, request), style_for(sys.stdout, width, os.environ)
            render_json, render_text = legacy_v1.render_older_json, legacy_v1.render_older_text
            sys.stdout.write(render_json(compared) if output.as_json else render_text(compared, style))
            return 0
        return render_report(reader, request, chosen, width=width, count=counting(reader))


def _without_variables(request: ReportRequest, context: typer.Context) -> ReportRequest:
    """Return the request without the time from variables, if an option sets it in another way."""
    ways: tuple[tuple[str, ...], ...] = (("since", "until"), ("month",), ("last_week",))
    kept, *more = [way for way in ways if any(is_typed(context, name) for name in way)] or [()]
    if more or not kept:
        return request
    return replace(
        request,
        since=request.since if "since" in kept else None,
        until=request.until if "until" in kept else None,
        month=request.month if "month" in kept else None,
        last_week=request.last_week and "last_week" in kept,
    )


def render_report(
    reader: ViewReader,
    request: ReportRequest,
    output: Output | None = None,
    *,
    width: int | None = None,
    out: TextIO | None = None,
    count: Callable[[], None] | None = None,
) -> int:
    """Write the report of a store to ``out`` (stdout) in the requested format, and return the exit code.

    ``count`` as of :func:`gua.report.collect.collect`.
    Nothing is written if it fails. Raises UsageError for an invalid request, UnavailableError without data, or, after
    the report, for an unknown condition.
    """
    chosen = output or choose_output(OutputOptions())
    recorded = RecordingReader(reader) if chosen.options.sql else None
    report = collect(
        recorded or reader,
        replace(request, sections=chosen.sections, if_cheap=chosen.if_cheap, what_if_limits_ms=chosen.limits_ms),
        count=count,
    )
    stream = sys.stdout if out is None else out
    if recorded is not None:
        from gua.app.sql_text import script  # noqa: PLC0415 - imports the store's modules

        stream.write(script(recorded.questions, embedded=bool(getattr(reader, "is_embedded", True))))
        return 0
    stream.writelines(chosen.render(report, style_for(stream, width, os.environ)))
    stream.flush()
    return chosen.exit_code(report)
