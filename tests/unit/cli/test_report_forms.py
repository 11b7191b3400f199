"""The options about form of ``gua report``: what they print, what they exclude, and their exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from fakes.store import HOUR_MS, SINCE_MS, FakeStore, behind_report, lab
from gua.cli import main
from gua.cli.output_options import OutputOptions, choose_output
from gua.core.errors import UsageError
from gua.report.forms.first_screen import SECTIONS
from gua.report.section_list import default_sections, section_named, section_names

EMPTY = (
    "card_streaks",
    "usage",
    "streaks",
    "contention",
    "timeline",
    "timeline_processes",
    "costs",
    "energy",
    "calendar",
)
WINDOW = ["report", "--since", "2026-03-25", "--until", "2026-03-27"]


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> FakeStore:
    """Put a small lab behind ``gua report``."""
    made = lab()
    made.views |= {view: [] for view in EMPTY}
    return behind_report(made, monkeypatch)


def test_only_the_requested_sections_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--section", "cards", "--section", "headline"]) == 0
    text = capsys.readouterr().out
    assert "1. Where the GPU-hours went" in text
    assert "Per card" in text
    assert "Top owners" not in text
    assert "\nBasis\n" not in text


def test_by_default_the_first_screen_is_printed_and_everything_with_full(capsys: pytest.CaptureFixture[str]) -> None:
    told = {}
    for option in ("--host=gpu-1", "--brief", "--full", "--basis", "--section=headline", "--section=headline --basis"):
        assert main.main([*WINDOW, *option.split()]) == 0
        told[option] = capsys.readouterr().out
    answers, brief, full, with_basis, section, section_with_basis = told.values()
    assert [text.startswith("! ") for text in told.values()] == [True, True, False, True, False, False]
    assert "Top owners" in full
    assert "What the active hours were worth" in full
    assert "Basis: idle-held is" in answers
    assert "By hour" in answers
    assert "Basis" not in brief + section
    assert "By hour" not in brief
    assert all("more: gua report --since 2026-03-25 --until 2026-03-27" in one for one in (answers, brief, with_basis))
    assert "--host gpu-1 --full" in answers
    for one in (full, with_basis, section_with_basis):
        assert "\nBasis\n  active" in one


def test_what_was_typed_is_in_the_commands_that_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUA_HOST", "gpu-1")
    typed = ["--store", "chdb:///a b", "--timezone", "Asia/Tokyo", "--from-ticks", "--width", "140"]
    assert main.main([*WINDOW, *typed, "--by", "model", "--brief"]) == 0
    more = " ".join(capsys.readouterr().out.rpartition("more: ")[2].split())
    window, store = "--since 2026-03-25 --until 2026-03-27", "--store 'chdb:///a b'"
    report, explain, _ = more.split("; ")
    assert report.startswith(f"gua report {window} ")
    assert report.endswith(" --full")
    assert all(words in report for words in (store, "--timezone Asia/Tokyo", "--from-ticks"))
    assert not {"--width", "--by", "--brief", "--host"} & set(report.split())
    assert explain.startswith("gua explain ")
    assert store in explain
    assert "--timezone Asia/Tokyo gpu-1 1 2026-03-26T15:00:00Z" in explain


def test_a_password_that_was_typed_is_in_no_command_that_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--store", "clickhouse://gua_reader:pa55@db"]) == 0
    shown = capsys.readouterr().out
    assert "--store clickhouse://gua_reader@db:8123" in shown
    assert "pa55" not in shown


def test_the_store_is_queried_only_for_what_the_first_screen_shows(store: FakeStore) -> None:
    store.views["hours"] = [{"hour": SINCE_MS // HOUR_MS, "is_counted": True, "card_ticks": 12}]
    always = {"extent", "hours", "fleet", "host_name_conflicts", "rules", "prices", "overview", "card_streaks", "usage"}
    always |= {"allocation_sources", "holders", "labels"}
    for option, asked in (("--brief", always), ("--basis", {*always, "time_of_day"})):
        store.asked.clear()
        assert main.main([*WINDOW, option]) == 0
        assert {view for view, _ in store.asked} == asked
        assert len(store.asked) == len(asked)


def test_additionally_requested_sections_come_below_the_first_screen(
    store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    store.views["hours"] = [{"hour": SINCE_MS // HOUR_MS, "is_counted": True, "card_ticks": 12}]
    assert main.main([*WINDOW, "--what-if", "2h", "--by", "user,model"]) == 0
    out = capsys.readouterr().out
    heads = ["Top idle holders", "Per model", "Per owner", "8. Idle streaks", "9. What if", "\nmore: "]
    assert [out.index(head) for head in heads] == sorted(map(out.index, heads))
    assert "Per host" not in out


def test_json_has_only_the_requested_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--json", "--section", "cards"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert "cards" in report
    assert "headline" not in report
    assert "coverage" in report


def test_csv_is_one_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--csv", "headline"]) == 0
    lines = capsys.readouterr().out.split("\r\n")
    assert lines[0].startswith("state,gpu_hours,share")
    assert [line.split(",")[0] for line in lines[1:]] == ["active", "idle-held", "truly-idle", "unknown", ""]


def test_markdown_is_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--markdown", "--section", "headline"]) == 0
    assert "\n| active | 30.2 | 20.4 | 363 |\n" in capsys.readouterr().out


def test_a_page_is_written_and_nothing_else_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert main.main([*WINDOW, "--html", str(page)]) == 0
    assert re.fullmatch(rf"wrote {page} \([0-9.]+ KiB\)\n", capsys.readouterr().out)
    written = page.read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>")
    assert main.main([*WINDOW, "--html", "-"]) == 0
    assert unescape(capsys.readouterr().out) == unescape(written)


def test_a_report_imports_the_sections_that_it_shows_alone(capsys: pytest.CaptureFixture[str]) -> None:
    section_named.cache_clear()
    assert main.main(WINDOW) == 0
    assert capsys.readouterr().out
    assert section_named.cache_info().misses == len(SECTIONS)


def test_reading_a_store_imports_no_module_that_fills_one() -> None:
    code = "import sys; from gua.app import opening; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "gua.store.database" in loaded
    fill = (
        "gua.agent",
        "gua.app.delivery",
        "gua.local_socket",
        "gua.otlp",
        "gua.spool.database",
        "gua.store.tick_rows",
    )
    assert [name for name in loaded if name.startswith(fill)] == []


def test_a_page_of_one_section_has_the_answers_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--section", "cards", "--html", "-"]) == 0
    page = capsys.readouterr().out
    assert re.findall('<section id="([^"]*)"', page) == ["cards", "basis"]
    assert "Top idle holders" in page


def test_a_page_that_cannot_be_written_is_one_line_and_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WINDOW, "--html", str(tmp_path / "nowhere" / "report.html")]) in {2, 3}
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv", "cards"], ["--markdown"], ["--html", "-"]])
def test_a_met_condition_is_reported_after_the_report(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, *form, "--fail-on", "idle-held > 20%", "--fail-on", "active > 1000h"]) == 1
    captured = capsys.readouterr()
    assert captured.out
    assert captured.err == "gua: condition met: idle-held > 20%: 39.2 % of what was observed is idle-held\n"


def test_conditions_that_are_not_met_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--fail-on", "idle-held > 90%"]) == 0
    assert capsys.readouterr().err == ""


def test_an_unknown_condition_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--section", "cards", "--fail-on", "empty > 8h"]) == 3
    captured = capsys.readouterr()
    assert "Per card" in captured.out
    assert "empty > 8h: unknown" in captured.err


def test_a_met_condition_wins_over_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--fail-on", "empty > 8h", "--fail-on", "idle-held > 1h"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--json", "--markdown"], "give only one of --json and --markdown"),
        (["--csv", "cards", "--sql"], "give only one of --csv and --sql"),
        (["--full", "--brief"], "give only one of --full and --brief"),
        (["--json", "--brief"], "give only one of --json and --brief"),
        (["--full", "--section", "now"], "--full has its own sections: leave --section out"),
        (["--markdown", "--basis"], "--basis is a part of the text: leave it out with --markdown"),
        (["--csv", "cars"], "slow-cards, notices; did you mean cards?"),
        (["--csv", "all"], "there is no section 'all' for --csv"),
        (["--csv", "cards", "--section", "cards"], "leave --section out"),
        (["--section", "cars"], "notices, and all; did you mean cards?"),
        (["--sql", "--fail-on", "active > 1h"], "leave --fail-on out"),
        (["--sql", "--html", "x.html"], "give only one of --html and --sql"),
        (["--json", "--html", "x.html"], "give only one of --json and --html"),
        (["30m"], "'30m' belongs to no option: limits go with --what-if"),
        (["--what-if", "soon"], "'soon' is not a duration"),
        (["--fail-on", "idle-held"], "is no condition"),
        (["--fail-on", "idle-hold > 2h"], "did you mean idle-held?"),
        (["--rules", "gpu-usage-audit", "--csv", "cards"], "leave --csv out"),
        (["--rules", "nvidia-smi"], "there are gpu-usage-audit"),
        (["--width", "19"], "is too narrow: give 20 or more"),
    ],
)
def test_invalid_arguments_are_one_line_before_any_store_is_queried(
    arguments: list[str], told: str, store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([*WINDOW, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert told in captured.err
    assert len(captured.err.splitlines()) == 1
    assert store.asked == []


@pytest.mark.parametrize("arguments", [["--what-if", "2h", "30m", "2h"], ["--what-if", "2h", "--json", "30m"]])
def test_limits_follow_the_option_in_any_order(arguments: list[str], store: FakeStore) -> None:
    store.views["hours"] = [{"hour": SINCE_MS // HOUR_MS, "is_counted": True, "card_ticks": 12}]
    assert main.main([*WINDOW, *arguments]) == 0
    assert {1_800_000, 7_200_000} <= set(dict(store.asked)["streaks"]["limits_ms"])


def test_what_if_adds_its_sections_and_sorts_its_limits() -> None:
    form = choose_output(OutputOptions(what_if=True, limits=("2h", "30m", "120m")))
    assert form.sections == {*SECTIONS, "streaks", "what-if"}
    assert form.if_cheap == {*SECTIONS}
    assert form.limits_ms == (1_800_000, 7_200_000)


def test_what_a_condition_or_a_page_needs_is_collected_and_not_printed(tmp_path: Path) -> None:
    form = choose_output(OutputOptions(sections=("cards",), fail_on=("streak > 1h",)))
    assert form.shown == ("cards",)
    assert form.sections == {"cards", "now"}
    page = choose_output(OutputOptions(html=tmp_path / "x.html"))
    assert page.sections == {*page.shown} == {*section_names()}
    assert page.if_cheap == page.sections.difference(default_sections())
    chosen = choose_output(OutputOptions(html=tmp_path / "x.html", sections=("cards",)))
    assert chosen.shown == ("cards",)
    assert chosen.if_cheap == {"now", "usage", "allocation"}


def test_every_section_can_be_named() -> None:
    assert choose_output(OutputOptions(sections=("all",))).shown == section_names()
    assert choose_output(OutputOptions(sections=("money", "all"))).shown[0] == "money"
    with pytest.raises(UsageError, match="there is no section"):
        choose_output(OutputOptions(sections=("all", "nothing")))


def test_sections_come_in_the_requested_order_with_fixed_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--section", "time-of-day,headline", "--section", "idle_capacity,headline"]) == 0
    titles = re.findall(r"^\d+\. [A-Z].*$", capsys.readouterr().out, flags=re.MULTILINE)
    assert titles == ["7. Time of day (UTC)", "1. Where the GPU-hours went", "3. Idle capacity"]


def test_a_user_is_an_owner(store: FakeStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.views["hours"] = [{"hour": SINCE_MS // HOUR_MS, "is_counted": True, "card_ticks": 12}]
    assert main.main([*WINDOW, "--section", "usage", "--by", "user,program"]) == 0
    out = capsys.readouterr().out
    assert [line.strip() for line in out.splitlines() if "Per " in line] == ["Per owner", "Per program"]


@pytest.mark.parametrize("since", ["2100-01-01", "2026-03-27"])
def test_a_window_in_the_future_or_without_length_is_one_line(since: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ([], ["--csv", "cards"], ["--markdown"], ["--sql"]):
        assert main.main(["report", "--since", since, "--until", "2026-03-27", *form]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "is empty: --since must be before --until" in captured.err


@pytest.mark.parametrize(
    ("told", "conditions"),
    [
        ("idle-held > 2h", ["idle-held > 2h"]),
        (" idle-held >= 20%  coverage<90% streak > 8 h ", ["idle-held >= 20%", "coverage<90%", "streak > 8 h"]),
    ],
)
def test_conditions_of_the_variable_keep_their_spaces(
    told: str, conditions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUA_FAIL_ON", told)
    form = choose_output(OutputOptions(fail_on=told.split()))
    assert [condition.text for condition in form.conditions] == conditions


def test_an_invalid_fail_on_variable_is_refused_with_its_first_invalid_condition(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GUA_FAIL_ON", "idle-held is > 2h")
    assert main.main(WINDOW) == 2
    assert "gua: --fail-on 'idle-held' is no condition" in capsys.readouterr().err


def test_rules_of_the_older_tool_add_nothing_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([*WINDOW, "--rules", "gpu-usage-audit", "--by", "owner"]) == 2
    assert "leave --by out" in capsys.readouterr().err


def test_json_holds_nothing_that_a_terminal_obeys_or_a_charset_lacks(
    store: FakeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b[2J\x9b5m\u202egnp\u2028漢"
    store.views["overview"][0]["name"] = hostile
    assert main.main([*WINDOW, "--json", "--section", "cards"]) == 0
    text = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in text)
    assert text.isascii()
    assert hostile in {card["name"] for card in json.loads(text)["cards"]}
