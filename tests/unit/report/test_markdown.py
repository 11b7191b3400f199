"""Markdown for chat and mail: tables that hold together, and names that stay names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pytest

from fakes.reports import HOSTILE, empty_report, week_report
from gua.report.forms.markdown import escape, paragraph, render_markdown
from gua.report.model import Report


@pytest.fixture(scope="module")
def report() -> Report:
    return week_report()


def test_a_week_is_the_golden_one(report: Report, golden: Callable[[str, str], None]) -> None:
    golden("week.markdown", render_markdown(report))


def test_a_report_of_nothing_is_still_markdown() -> None:
    assert render_markdown(empty_report()).startswith("# GPU usage")


def test_every_row_of_a_table_has_as_many_cells_as_its_header(report: Report) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", render_markdown(report), flags=re.MULTILINE)
    assert len(tables) > 12
    for table in tables:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1, table


def test_no_name_is_markup_html_a_link_or_a_mention(report: Report) -> None:
    text = render_markdown(report)
    for forbidden in ("<script", "<b>", "**b**", "[x](", "http://evil", "`c`"):
        assert forbidden not in text
    assert re.search(r"@(?!\u200b)", text) is None


def test_markdown_contains_no_control_or_bidirectional_characters(report: Report) -> None:
    bad = {c for c in render_markdown(report) if unicodedata.category(c) in {"Cc", "Cf"}} - {"\n", "\u200b"}
    assert bad == set()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", r"a\|b"),
        ("`rm`", r"\`rm\`"),
        ("*b* _i_ snake_case ~s~", r"\*b\* \_i\_ snake_case \~s\~"),
        ("[x](y)", r"\[x\](y)"),
        ("back\\slash", r"back\\slash"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
        ("@everyone me@x", "@\u200beveryone me@\u200bx"),
        ("https://e.example www.e.example", "https\u200b://e.example www\u200b.e.example"),
        ("#123 #tag", "#\u200b123 #tag"),
        ("$x$", r"\$x\$"),
    ],
)
def test_marks_are_written_as_letters(text: str, written: str) -> None:
    assert escape(text) == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("# x", r"\# x"),
        ("- x", r"\- x"),
        ("12. x", r"12\. x"),
        ("1) x", r"1\) x"),
        ("---", r"--\-"),
        ("2.5 h", "2.5 h"),
    ],
)
def test_no_sentence_begins_a_list_or_a_heading(text: str, written: str) -> None:
    assert paragraph(text) == written


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_have_no_bare_marks_left(name: str) -> None:
    assert re.search(r"(?<!\\)[`*\[\]|<>]", escape(name)) is None
