"""``gua report`` and ``render_report``: where it writes, and how it draws there."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fakes.store import UNTIL_MS, FakeStore, lab
from gua.app import delivery
from gua.cli import main
from gua.cli.report import render_report, style_for
from gua.core.errors import UsageError


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
    made = lab()

    @contextmanager
    def open_reader(_: str | None) -> Iterator[FakeStore]:
        yield made

    monkeypatch.setattr(delivery, "open_reader", open_reader)
    return made


def test_a_pipe_gets_eighty_columns_without_colour() -> None:
    style = style_for(Stream(), None, {})
    assert (style.width, style.unicode, style.colour) == (80, True, False)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ANSI_X3.4-1968", ""])
def test_a_stream_without_utf8_gets_plain_letters(encoding: str) -> None:
    assert not style_for(Stream(encoding), None, {}).unicode
    out = Stream(encoding)
    render_report(lab(), since="2d", now_ms=UNTIL_MS, out=out)
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


def test_a_report_that_fails_writes_nothing() -> None:
    out = Stream()
    with pytest.raises(UsageError):
        render_report(lab(), hosts=("nobody",), out=out, now_ms=UNTIL_MS)
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
