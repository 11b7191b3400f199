"""``gua report`` and ``render_report``: where it writes, and how it draws there."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest

from fakes.store import UNTIL_MS, FakeStore, behind_report, lab
from gua.cli import main
from gua.cli.options import style_for
from gua.cli.report import render_report
from gua.core.errors import UsageError
from gua.report.window import ReportRequest


class Stream(io.StringIO):
    """A stream that claims an encoding, and to be a terminal or not."""

    def __init__(self, encoding: str = "utf-8", *, terminal: bool = False) -> None:
        super().__init__()
        self._encoding = encoding
        self._terminal = terminal

    @property
    def encoding(self) -> str:
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    """Put a small lab behind ``gua report``."""
    return behind_report(lab(), monkeypatch)


def test_a_pipe_gets_eighty_columns_without_colour() -> None:
    style = style_for(Stream(), None, {})
    assert (style.width, style.unicode, style.colour) == (80, True, False)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ANSI_X3.4-1968", ""])
def test_a_stream_without_utf8_gets_plain_letters(encoding: str) -> None:
    assert not style_for(Stream(encoding), None, {}).unicode
    out = Stream(encoding)
    render_report(lab(), ReportRequest(since="2d", now_ms=UNTIL_MS), out=out)
    assert out.getvalue().isascii()


def test_a_terminal_gets_colour_unless_it_is_unwanted() -> None:
    terminal = Stream(terminal=True)
    assert style_for(terminal, None, {}).colour
    assert style_for(terminal, None, {"NO_COLOR": ""}).colour
    assert not style_for(terminal, None, {"NO_COLOR": "1"}).colour
    assert not style_for(terminal, None, {"TERM": "dumb"}).colour


@pytest.mark.parametrize(("columns", "width"), [("10", 20), ("40", 40), ("100", 100), ("500", 140)])
def test_a_terminal_is_filled_within_reason(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert style_for(Stream(terminal=True), None, {}).width == width


@pytest.mark.parametrize(
    ("columns", "width"), [("100", 100), ("7", 20), ("500", 140), ("0", 80), ("wide", 80), ("-5", 80), ("9" * 99, 80)]
)
def test_columns_count_in_a_pipe_where_they_are_a_number(columns: str, width: int) -> None:
    assert style_for(Stream(), None, {"COLUMNS": columns}).width == width
    assert style_for(Stream(), 60, {"COLUMNS": columns}).width == 60


@pytest.mark.parametrize("name", ["FORCE_COLOR", "CLICOLOR_FORCE"])
def test_colour_may_be_forced_into_a_pipe(name: str) -> None:
    assert style_for(Stream(), None, {name: "1"}).colour
    assert style_for(Stream(), None, {name: "1", "TERM": "dumb"}).colour
    assert not style_for(Stream(), None, {name: "0"}).colour
    assert not style_for(Stream(), None, {name: ""}).colour
    assert not style_for(Stream(), None, {name: "1", "NO_COLOR": "1"}).colour


def test_a_report_that_fails_writes_nothing() -> None:
    out = Stream()
    with pytest.raises(UsageError):
        render_report(lab(), ReportRequest(hosts=("nobody",), now_ms=UNTIL_MS), out=out)
    assert out.getvalue() == ""


@pytest.mark.usefixtures("store")
def test_options_reach_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["report", "--json", "--since", "2026-03-25", "--until", "2026-03-27", "--timezone", "Asia/Tokyo"]
    assert main.main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["window"] == {
        "since": "2026-03-24T15:00:00Z",
        "until": "2026-03-26T15:00:00Z",
        "timezone": "Asia/Tokyo",
    }


@pytest.mark.usefixtures("store")
def test_text_is_in_the_hosts_zone_and_what_programs_read_in_utc(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    bounds = ["--since", "2026-03-25", "--until", "2026-03-27"]
    for form in ("--full", "--markdown"):
        assert main.main(["report", *bounds, form]) == 0
        assert "from 2026-03-25 00:00 to 2026-03-27 00:00 Asia/Tokyo" in capsys.readouterr().out
    assert main.main(["report", *bounds, "--section", "headline", "--html", "-"]) == 0
    assert "2026-03-27 00:00 Asia/Tokyo" in capsys.readouterr().out
    assert main.main(["report", *bounds]) == 0
    assert "to 2026-03-27 00:00 Asia/Tokyo" in " ".join(capsys.readouterr().out.split())
    assert main.main(["report", *bounds, "--json"]) == 0
    window = json.loads(capsys.readouterr().out)["window"]
    assert window == {"since": "2026-03-24T15:00:00Z", "until": "2026-03-26T15:00:00Z", "timezone": "UTC"}
    for zone in ("local", "asia/tokyo"):
        assert main.main(["report", *bounds, "--json", "--timezone", zone]) == 0
        assert json.loads(capsys.readouterr().out)["window"] == {**window, "timezone": "Asia/Tokyo"}


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("given", [["--month", "2026-03"], ["--since", "2026-03-01"]])
def test_an_option_of_time_wins_over_variables_of_another_kind(
    given: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUA_LAST_WEEK", "1")
    monkeypatch.setenv("GUA_SINCE", "3d")
    if given[0] == "--since":
        monkeypatch.setenv("GUA_MONTH", "2026-02")
    assert main.main(["report", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["window"]["since"] == "2026-03-01T00:00:00Z"


@pytest.mark.usefixtures("store")
def test_a_month_without_a_name_is_this_one(capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime.now(UTC)
    assert main.main(["report", "--month", "--json"]) == 0
    months = {f"{each:%Y-%m}-01T00:00:00Z" for each in (before, datetime.now(UTC))}
    assert json.loads(capsys.readouterr().out)["window"]["since"] in months


def test_hosts_can_be_several(store: FakeStore) -> None:
    assert main.main(["report", "--host", "gpu-1", "--host", "gpu-1", "--width", "60"]) == 0
    assert dict(store.asked)["overview"]["hosts"] == ["gpu-1", "gpu-1"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--host", "nobody"], 2),
        (["--since", "soon"], 2),
        (["--timezone", "Mars"], 2),
        (["--since", "1d", "--until", "2d"], 2),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_bad_input_is_one_line(
    arguments: list[str], code: int, form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["report", *arguments, *form]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
