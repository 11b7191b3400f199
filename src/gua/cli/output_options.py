"""In which form a report is printed, with which sections, and what makes its exit code 1."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.app.output import print_error
from gua.cli.options import flag, path_value, value
from gua.core.durations import parse_duration_ms
from gua.core.errors import UnavailableError, UsageError
from gua.report.conditions import Condition, judge, parse_condition
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.section_list import check_section, choose_sections, section_names

CONDITION_MET: Final = 1
_FAIL_ON: Final = "GUA_FAIL_ON"
_BETWEEN: Final = re.compile(r"\s+(?=[a-z-]+\s*[<>])")

SectionOption = Annotated[
    list[str] | None,
    value("NAME", "GUA_SECTION", f"Only this section; repeatable. {', '.join(section_names())}, or all.", "--section"),
]
WhatIfOption = Annotated[
    bool,
    flag(
        "--what-if",
        "GUA_WHAT_IF",
        "Also how long idle streaks are, and what taking idle cards back after each LIMIT would have freed.",
    ),
]
LimitsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="LIMIT", help="With --what-if: durations (30m 2h); 5m to 1d in eight steps if not given."),
]
JsonOption = Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.report/1".')]
CsvOption = Annotated[
    str | None, value("SECTION", "GUA_CSV", "One section as CSV (RFC 4180), units in the header row.", "--csv")
]
MarkdownOption = Annotated[bool, flag("--markdown", "GUA_MARKDOWN", "Markdown, for chat and mail.")]
HtmlOption = Annotated[
    Path | None,
    path_value(
        "FILE", "GUA_HTML", "Also write one self-contained web page: every section, if --section names none.", "--html"
    ),
]
SqlOption = Annotated[
    bool, flag("--sql", "GUA_SQL", "Print the queries with their parameters, for clickhouse-client, instead.")
]
FailOnOption = Annotated[
    list[str] | None,
    value(
        "CONDITION",
        _FAIL_ON,
        "Exit code 1 if met, after the report; repeatable: 'idle-held > 2h', 'idle-held > 20%', 'coverage < 90%', "
        "'streak > 8h', 'idle-held-now > 3'.",
        "--fail-on",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputOptions:
    """The options about form, as written."""

    sections: Sequence[str] = ()
    what_if: bool = False
    limits: Sequence[str] = ()
    as_json: bool = False
    csv: str | None = None
    markdown: bool = False
    html: Path | None = None
    sql: bool = False
    fail_on: Sequence[str] = ()

    def beyond_json(self) -> list[str]:
        """Return the options given other than ``--json``, by name."""
        given = {
            "--section": self.sections,
            "--what-if": self.what_if,
            "--csv": self.csv is not None,
            "--markdown": self.markdown,
            "--html": self.html is not None,
            "--sql": self.sql,
            "--fail-on": self.fail_on,
        }
        return [name for name, value in given.items() if value]


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What is printed: ``shown`` are the sections printed, ``on_page`` those of the web page."""

    options: OutputOptions
    shown: frozenset[str]
    on_page: frozenset[str]
    limits_ms: tuple[int, ...]
    conditions: tuple[Condition, ...]

    @property
    def sections(self) -> frozenset[str]:
        """Return every section that must be collected."""
        needed = {condition.section for condition in self.conditions if condition.section is not None}
        return self.shown | needed | (self.on_page if self.options.html is not None else frozenset())

    @property
    def if_cheap(self) -> frozenset[str]:
        """Return the sections that nobody named: those of a page of everything, and what a condition looks at."""
        return self.sections - self.shown

    def render(self, report: Report, style: Style) -> str:
        """Return the report in the form asked for."""
        shown = replace(report, sections=self.shown)
        if self.options.as_json:
            from gua.report.forms.json import render_json  # noqa: PLC0415 - a report has one form of several

            return render_json(shown)
        if self.options.csv is not None:
            from gua.report.forms.csv import render_csv  # noqa: PLC0415 - as above

            return render_csv(shown, self.options.csv)
        if self.options.markdown:
            from gua.report.forms.markdown import render_markdown  # noqa: PLC0415 - as above

            return render_markdown(shown)
        from gua.report.forms.text import render_text  # noqa: PLC0415 - as above

        return render_text(shown, style)

    def write_page(self, report: Report) -> None:
        """Write the web page, if one was asked for. Raises UsageError, UnavailableError."""
        if self.options.html is not None:
            from gua.report.forms.html_file import write_html  # noqa: PLC0415 - as above

            write_html(self.options.html, replace(report, sections=self.on_page))

    def exit_code(self, report: Report) -> int:
        """Return 1 if a condition is met, and say so on standard error. Raises UnavailableError if one is not told."""
        verdicts = [judge(condition, report) for condition in self.conditions]
        for verdict in verdicts:
            if verdict.is_met:
                print_error(f"condition met: {verdict.why}")
        untold = [verdict.why for verdict in verdicts if verdict.is_met is None]
        if not any(verdict.is_met for verdict in verdicts):
            if untold:
                raise UnavailableError("; ".join(untold))
            return 0
        for why in untold:
            print_error(why)
        return CONDITION_MET


def choose_output(options: OutputOptions) -> Output:
    """Return the form that was asked for. Raises UsageError for options that exclude each other or mean nothing."""
    forms = {
        "--json": options.as_json,
        "--csv": options.csv is not None,
        "--markdown": options.markdown,
        "--sql": options.sql,
    }
    given = [name for name, value in forms.items() if value]
    if len(given) > 1:
        msg = f"a report is printed in one form: give only one of {' and '.join(given)}"
        raise UsageError(msg)
    if options.sql and (options.html is not None or options.fail_on):
        msg = f"--sql prints queries, not what they answer: leave {'--html' if options.html else '--fail-on'} out"
        raise UsageError(msg)
    if options.csv is not None and options.sections:
        msg = "--csv prints the one section that it names: leave --section out"
        raise UsageError(msg)
    if options.limits and not options.what_if:
        msg = f"{options.limits[0]!r} belongs to no option: limits go with --what-if, as in --what-if 30m 2h"
        raise UsageError(msg)
    if options.csv is not None:
        check_section("--csv", options.csv)
    more = {"streaks", "what-if"} if options.what_if else set()
    chosen = choose_sections(options.sections) | more
    return Output(
        options=options,
        shown=chosen if options.csv is None else frozenset({options.csv}),
        on_page=chosen if options.sections else frozenset(section_names()),
        limits_ms=tuple(sorted({parse_duration_ms(limit) for limit in options.limits})),
        conditions=tuple(parse_condition(text) for text in _conditions(options.fail_on)),
    )


def _conditions(written: Sequence[str]) -> Sequence[str]:
    """Return the conditions one by one: of the variable come its words, as conditions are written with spaces."""
    told = os.environ.get(_FAIL_ON, "")
    return _BETWEEN.split(told.strip()) if written and [*written] == told.split() else written
