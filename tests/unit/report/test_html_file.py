"""The page as a file: whole or not there, and a clear word where it cannot be."""

from __future__ import annotations

import errno
import os
import stat
from html import unescape
from pathlib import Path

import pytest

from fakes.reports import week_report
from gua.core.errors import UnavailableError, UsageError
from gua.report.forms.html import render_html
from gua.report.forms.html_file import write_html
from gua.report.kit.basis import size
from gua.report.model import Report


@pytest.fixture(scope="module")
def report() -> Report:
    return week_report()


def test_the_file_holds_the_page_and_others_may_read_it(report: Report, tmp_path: Path) -> None:
    os.umask(0o022)
    target = tmp_path / "report.html"
    write_html(target, report)
    assert target.read_text(encoding="utf-8") == render_html(report)
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [target]


def test_the_html_file_respects_the_umask(report: Report, tmp_path: Path) -> None:
    os.umask(0o077)
    write_html(tmp_path / "report.html", report)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600


def test_an_older_file_is_replaced_and_a_link_stays_a_link(report: Report, tmp_path: Path) -> None:
    target, link = tmp_path / "real.html", tmp_path / "link.html"
    target.write_text("old")
    link.symlink_to(target)
    write_html(link, report)
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", "is a folder: name a file in it"),
        ("missing/report.html", "there is no folder"),
        ("fifo", "is no regular file"),
        ("zero\0byte", "is no path of a file"),
        ("loop", "cannot write"),
        ("n" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_a_file_is_refused_in_one_line(report: Report, tmp_path: Path, path: str, said: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = sorted(tmp_path.iterdir())
    with pytest.raises((UsageError, UnavailableError)) as refused:
        write_html(tmp_path / path, report)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "\0" not in str(refused.value)
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_leaves_the_older_file_and_nothing_else(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / "report.html"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(UnavailableError, match=r"No space left on device; nothing was written"):
        write_html(target, report)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_without_write_permission_is_refused(report: Report) -> None:
    with pytest.raises(UnavailableError, match=r"cannot write /proc/report\.html: "):
        write_html(Path("/proc/report.html"), report)


def test_a_dash_is_the_page_itself(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = write_html(Path("-"), report)
    assert written.isascii()
    assert unescape(written) == unescape(render_html(report))
    assert list(tmp_path.iterdir()) == []


def test_the_path_of_the_written_page_is_printed_in_one_line(report: Report, tmp_path: Path) -> None:
    target = tmp_path / "a\nb.html"
    said = write_html(target, report)
    assert said == f"wrote {tmp_path}/a b.html ({size(target.stat().st_size)})\n"
