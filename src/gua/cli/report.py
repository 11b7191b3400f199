"""``gua report``: where the GPU hours went, from any store."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Annotated, TextIO

from gua.app.report_source import open_reader
from gua.cli.options import HostsOption, SocketOption, StoreOption, WidthOption, flag, value
from gua.cli.output_options import (
    CsvOption,
    FailOnOption,
    HtmlOption,
    JsonOption,
    LimitsArgument,
    MarkdownOption,
    OutputOptions,
    SectionOption,
    SqlOption,
    WhatIfOption,
    choose_output,
)
from gua.cli.terminal import check_width, style_for
from gua.core.errors import UsageError
from gua.core.ports import ViewReader
from gua.report.collect import collect
from gua.report.old_names import usage_key
from gua.report.recording import RecordingReader
from gua.report.window import ReportRequest

__all__ = ["command", "render_report", "style_for"]


def command(
    *,
    since: Annotated[
        str | None,
        value(
            "WHEN",
            "GUA_SINCE",
            "Start: an ISO 8601 time, or a duration (7d, 12h) before now, or the newest tick where no agent "
            "samples the hosts. 7 days before the end if not given.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        value(
            "WHEN",
            "GUA_UNTIL",
            "End, written like --since. Now, or the newest tick where no agent samples the hosts, if not given.",
        ),
    ] = None,
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
            "processes by owner (or user), program, container, pod, job, host or model; repeatable.",
        ),
    ] = None,
    width: WidthOption = None,
    store: StoreOption = None,
    socket: SocketOption = None,
    timezone: Annotated[
        str, value("ZONE", "GUA_TIMEZONE", "Zone of the hours of the day, and of times without an offset.")
    ] = "UTC",
    from_ticks: Annotated[
        bool,
        flag(
            "--from-ticks",
            "GUA_FROM_TICKS",
            "Count everything anew from the ticks, nothing from counted hours: the same numbers, later.",
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
    section: SectionOption = None,
    what_if: WhatIfOption = False,
    limits: LimitsArgument = None,
    as_json: JsonOption = False,
    csv: CsvOption = None,
    markdown: MarkdownOption = False,
    html: HtmlOption = None,
    sql: SqlOption = False,
    fail_on: FailOnOption = None,
) -> int:
    """Show where the GPU hours went, and who held idle cards.

    Says on what the numbers rest: the rule and its thresholds, what was observed, what is unknown and why.

    Reads the store of --store, else this user's own, else what the agent of this host tells everybody.

    Example:
        gua report --since 30d --timezone Europe/Berlin
        gua report --host node-1 --json
        gua report --where team=vision --where team=audio --by team
        gua report --section now --section usage --by owner
        gua report --what-if 30m 2h 8h
        gua report --csv usage --since 30d
        gua report --html report.html --fail-on 'idle-held > 20%'
        gua report --rules gpu-usage-audit --since 30d
    """
    check_width(width)
    output = OutputOptions(
        sections=tuple(section or ()),
        what_if=what_if,
        limits=tuple(limits or ()),
        as_json=as_json,
        csv=csv,
        markdown=markdown,
        html=html,
        sql=sql,
        fail_on=tuple(fail_on or ()),
    )
    choose_output(output)
    if rules is not None:
        from gua.report.legacy_v1.rules import check_rules  # noqa: PLC0415 - most reports go by the own rules

        check_rules(rules)
        if output.beyond_json():
            msg = f"--rules compares card by card, as text or --json: leave {output.beyond_json()[0]} out"
            raise UsageError(msg)
        if by:
            msg = "--rules compares card by card, and adds nothing up: leave --by out"
            raise UsageError(msg)
    with open_reader(store, socket) as reader:
        if rules is not None:
            asked = ReportRequest(
                since=since,
                until=until,
                hosts=tuple(host or ()),
                clusters=tuple(cluster or ()),
                where=tuple(where or ()),
                timezone=timezone,
                from_ticks=from_ticks,
                now_ms=time.time_ns() // 1_000_000,
            )
            from gua.report.legacy_v1.text import render_other_rules  # noqa: PLC0415 - as above

            style = style_for(sys.stdout, width, os.environ)
            sys.stdout.write(render_other_rules(reader, asked, style, as_json=as_json))
            return 0
        return render_report(
            reader,
            since=since,
            until=until,
            hosts=tuple(host or ()),
            clusters=tuple(cluster or ()),
            where=tuple(where or ()),
            by=tuple(by or ()),
            timezone=timezone,
            from_ticks=from_ticks,
            width=width,
            output=output,
        )


def render_report(
    reader: ViewReader,
    *,
    since: str | None = None,
    until: str | None = None,
    hosts: Sequence[str] = (),
    clusters: Sequence[str] = (),
    where: Sequence[str] = (),
    by: Sequence[str] = (),
    timezone: str = "UTC",
    from_ticks: bool = False,
    width: int | None = None,
    output: OutputOptions | None = None,
    as_json: bool = False,
    now_ms: int | None = None,
    out: TextIO | None = None,
) -> int:
    """Write the report of a store to ``out`` (stdout) in the form asked for, and return the exit code.

    ``as_json`` is short for a form of it. Nothing is written where it fails. Raises UsageError for what cannot be
    understood, UnavailableError where there is no data, or, after the report, where a condition cannot be told.
    """
    check_width(width)
    chosen = choose_output(OutputOptions(as_json=as_json) if output is None else output)
    recorded = RecordingReader(reader) if chosen.options.sql else None
    report = collect(
        recorded or reader,
        ReportRequest(
            since=since,
            until=until,
            hosts=tuple(hosts),
            clusters=tuple(clusters),
            where=tuple(where),
            by=tuple(map(usage_key, by)),
            timezone=timezone,
            from_ticks=from_ticks,
            sections=chosen.sections,
            if_cheap=chosen.if_cheap,
            what_if_limits_ms=chosen.limits_ms,
            now_ms=time.time_ns() // 1_000_000 if now_ms is None else now_ms,
        ),
    )
    stream = sys.stdout if out is None else out
    if recorded is not None:
        from gua.app.sql_script import script  # noqa: PLC0415 - needs the store's own modules

        stream.write(script(recorded.questions, embedded=bool(getattr(reader, "is_embedded", True))))
        return 0
    chosen.write_page(report)
    stream.write(chosen.render(report, style_for(stream, width, os.environ)))
    stream.flush()
    return chosen.exit_code(report)
