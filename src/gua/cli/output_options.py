"""Output options of a report: format, sections, the condition for exit code 1, and suggested next commands."""

import os
import re
import shlex
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from gua.app.output import print_error
from gua.cli.completion import values
from gua.cli.options import flag, path_value, value
from gua.core.errors import UnavailableError, UsageError
from gua.core.moments import parse_duration_ms
from gua.report.conditions import Condition, judge, parse_condition
from gua.report.forms.first_screen import BRIEF, SECTIONS, Steps
from gua.report.kit.style import Style
from gua.report.model import Report
from gua.report.section_list import ALL, check_section, choose_sections, section_names
from gua.store.dsn import without_password

CONDITION_MET: Final = 1
_FAIL_ON: Final = "GUA_FAIL_ON"
ALSO_FULL: Final = ("usefulness",)  # takes more queries than a default report, and JSON omits it
_ANSWERS: Final = frozenset({"now", "usage", "allocation"})  # sections behind the answers at the top of a page
_FORMS: Final = ("--json", "--csv", "--markdown", "--html", "--sql", "--full", "--brief")
_BETWEEN: Final = re.compile(r"\s+(?=[a-z-]+\s*[<>])")


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputOptions:
    """The options about form, as written; ``steps`` are the commands that go on from the report."""

    sections: Annotated[
        list[str] | None,
        value(
            "NAME",
            "GUA_SECTION",
            f"Only these sections, as in now,usage, in that order. {', '.join(section_names())}, or all.",
            "--section",
            autocompletion=values(*section_names(), ALL),
        ),
    ] = None
    full: Annotated[
        bool,
        flag(
            "--full", "GUA_FULL", "Every number of the default sections, what active hours were worth, and the basis."
        ),
    ] = False
    brief: Annotated[
        bool, flag("--brief", "GUA_BRIEF", "The answers alone, in 24 lines at most; requested tables come below.")
    ] = False
    basis: Annotated[
        bool, flag("--basis", "GUA_BASIS", "Also what every word means, and what the numbers rest on.")
    ] = False
    what_if: Annotated[
        bool,
        flag(
            "--what-if",
            "GUA_WHAT_IF",
            "Also how long idle streaks are, and what taking idle cards back after each LIMIT would have freed.",
        ),
    ] = False
    limits: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LIMIT", help="With --what-if: durations (30m 2h); 5m to 1d in eight steps if not given."
        ),
    ] = None
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.report/1".')] = False
    csv: Annotated[
        str | None,
        value(
            "SECTION",
            "GUA_CSV",
            "One section as CSV (RFC 4180), units in the header row.",
            "--csv",
            autocompletion=values(*section_names()),
        ),
    ] = None
    markdown: Annotated[bool, flag("--markdown", "GUA_MARKDOWN", "Markdown, for chat and mail.")] = False
    html: Annotated[
        Path | None,
        path_value(
            "FILE",
            "GUA_HTML",
            "Write one self-contained web page instead: every section, if --section names none; - is standard output.",
            "--html",
        ),
    ] = None
    sql: Annotated[
        bool, flag("--sql", "GUA_SQL", "Print the queries with their parameters, for clickhouse-client, instead.")
    ] = False
    fail_on: Annotated[
        list[str] | None,
        value(
            "CONDITION",
            _FAIL_ON,
            "Exit code 1 if met, after the report; repeatable: 'idle-held > 2h', 'idle-held > 20%', 'coverage < 90%', "
            "'streak > 8h', 'idle-held-now > 3'.",
            "--fail-on",
        ),
    ] = None
    steps: Steps = field(default_factory=Steps)

    def used(self) -> list[str]:
        """Return the names of the options in use."""
        names = {"as_json": "json", "sections": "section"}
        used = [each.name for each in fields(self) if getattr(self, each.name) not in (None, False, [])]
        return [f"--{names.get(name, name).replace('_', '-')}" for name in used if name not in {"limits", "steps"}]

    def forms(self) -> list[str]:
        """Return the names of the options in use that choose a format."""
        return [name for name in _FORMS if name in self.used()]

    def is_first_screen(self) -> bool:
        """Return whether the answers are printed, not sections."""
        return not self.sections and self.forms() in ([], ["--brief"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """What is printed: ``shown`` are the printed sections, ``named`` those of them that an option names."""

    options: OutputOptions
    shown: tuple[str, ...]
    named: frozenset[str]
    limits_ms: tuple[int, ...]
    conditions: tuple[Condition, ...]

    @property
    def sections(self) -> frozenset[str]:
        """Return every section that must be collected."""
        needed = {condition.section for condition in self.conditions if condition.section is not None}
        answers = _ANSWERS if self.options.html is not None else ()
        return frozenset({*needed, *self.shown, *answers})

    @property
    def if_cheap(self) -> frozenset[str]:
        """Return the sections that no option names: those of a page, and those of conditions."""
        return self.sections - self.named

    def render(self, report: Report, style: Style) -> list[str]:
        """Return the report's output in pieces, or the path of its page.

        The rows of 10,000 cards never form one text. Raises UsageError or UnavailableError if a page cannot be written.
        """
        shown = replace(report, sections=self.shown)
        if self.options.as_json:
            from gua.report.forms.data import json_pieces  # noqa: PLC0415 - a report uses one of several formats

            return [*json_pieces(shown)]
        if self.options.csv is not None:
            from gua.report.forms.data import render_csv  # noqa: PLC0415 - as above

            return [render_csv(shown, *self.shown)]
        if self.options.markdown:
            from gua.report.forms.markdown import render_markdown  # noqa: PLC0415 - as above

            return [render_markdown(shown)]
        if self.options.is_first_screen():
            from gua.report.forms.first_screen.screen import render_first_screen  # noqa: PLC0415 - as above

            with_basis, brief = self.options.basis, self.options.brief
            return [render_first_screen(shown, style, self.options.steps, brief=brief, with_basis=with_basis)]
        if self.options.html is not None:
            from gua.report.forms.html_file import write_html  # noqa: PLC0415 - as above

            return [write_html(self.options.html, shown)]
        from gua.report.forms.text import render_text  # noqa: PLC0415 - as above

        return [render_text(shown, style, with_basis=self.options.full or self.options.basis)]

    def exit_code(self, report: Report) -> int:
        """Return 1 and print why if a condition is met. Raises UnavailableError if none is, and one is unknown."""
        verdicts = [judge(condition, report) for condition in self.conditions]
        for verdict in verdicts:
            if verdict.is_met:
                print_error(f"condition met: {verdict.why}")
        unknown = [verdict.why for verdict in verdicts if verdict.is_met is None]
        if not any(verdict.is_met for verdict in verdicts):
            if unknown:
                raise UnavailableError("; ".join(unknown))
            return 0
        for why in unknown:
            print_error(why)
        return CONDITION_MET


def choose_output(options: OutputOptions) -> Output:
    """Return the requested output. Raises UsageError for options that exclude each other or have no effect."""
    for problem in _problems(options):
        raise UsageError(problem)
    more = ("streaks", "what-if") if options.what_if else ()
    named = _named(options, more)
    if options.html is not None:
        from gua.report.forms.html_file import check_target  # noqa: PLC0415 - most reports are not pages

        check_target(options.html)
    if options.is_first_screen():
        shown: tuple[str, ...] = (*(BRIEF if options.brief else SECTIONS), *more)
    else:
        shown = section_names() if options.html is not None and not options.sections else named
    written, variable = options.fail_on or [], os.environ.get(_FAIL_ON, "")
    if written and written == variable.split():  # the variable is split at spaces, which conditions contain
        written = _BETWEEN.split(variable.strip())
    return Output(
        options=options,
        shown=shown,
        named=frozenset(named),
        limits_ms=tuple(sorted({parse_duration_ms(limit) for limit in options.limits or ()})),
        conditions=tuple(map(parse_condition, written)),
    )


def _problems(options: OutputOptions) -> Iterator[str]:
    forms = options.forms()
    if len(forms) > 1:
        yield f"a report is printed in one form: give only one of {' and '.join(forms)}"
    if options.sections and (options.full or options.brief):
        yield f"{forms[0]} has its own sections: leave --section out"
    if options.basis and forms not in ([], ["--full"], ["--brief"]):
        yield f"--basis is a part of the text: leave it out with {forms[0]}"
    if options.sql and options.fail_on:
        yield "--sql prints queries, not what they answer: leave --fail-on out"
    if options.csv is not None and options.sections:
        yield "--csv prints the one section that it names: leave --section out"
    if options.limits and not options.what_if:
        yield f"{options.limits[0]!r} belongs to no option: limits go with --what-if, as in --what-if 30m 2h"


def _named(options: OutputOptions, more: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sections that the options choose; the first screen has its own, and ``more``."""
    if options.csv is not None:
        return (check_section("--csv", options.csv),)
    if options.is_first_screen():
        return more
    also = ALSO_FULL if options.full else ()
    return tuple(dict.fromkeys((*choose_sections(options.sections or ()), *also, *more)))


_FORM: Final = frozenset({*(each.name for each in fields(OutputOptions)), "width", "rules", "by"})
_ELSEWHERE: Final = frozenset({"store", "socket", "timezone"})


def next_steps(context: typer.Context) -> Steps:
    """Return the commands that go on from ``gua report``, typed as in ``context``."""
    explain = " ".join(["gua explain", *_typed(context, _ELSEWHERE)])
    store = None if context.params["socket"] else " ".join(_typed(context, {"store"}))
    return Steps(report=_again(context), explain=explain, store=store)


def next_steps_of_demo(context: typer.Context, store: str | None) -> Steps:
    """Return the commands that go on from ``gua demo``, whose ticks are deleted unless a store is named."""
    if store is None:
        return Steps(report=_again(context), explain=None, store=None, then="gua doctor")
    kept = f"--store {shlex.quote(without_password(store))}"
    return Steps(report=f"gua report {kept}", explain=f"gua explain {kept}", store=kept)


def is_typed(context: typer.Context, name: str) -> bool:
    """Return whether an option is on the command line, not in a variable."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _again(context: typer.Context) -> str:
    every = {str(parameter.name) for parameter in context.command.params}
    return " ".join([str(context.info_name), *_typed(context, every - _FORM)])


def _typed(context: typer.Context, names: Container[str]) -> Iterator[str]:
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in names or not is_typed(context, name):
            continue
        value = context.params[name]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            shown = without_password(one) if name == "store" else str(one)
            yield parameter.opts[0] if isinstance(one, bool) else f"{parameter.opts[0]} {shlex.quote(shown)}"
