"""The web page of a report in a real browser: no requests, no errors in the console, nothing too wide."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.reports import empty_report, fleet_report, week_report
from gua.report.forms.html_file import write_html
from gua.report.section_list import section_names
from servers.browser import Browser, browser
from servers.gua import COMMAND
from servers.tools import ROOT, MissingToolError

SHOTS = ROOT / "docs" / "html"
WIDTHS = (1400, 400)
SCHEMES = ("light", "dark")
SHOT_HEIGHT = 1600
MOST_SHOT_BYTES = 300_000
OVERFLOW = "document.scrollingElement.scrollWidth - innerWidth"
GROUND = "getComputedStyle(document.body).backgroundColor"
# What sticks out of its parent without a box to scroll in.
STICKING_OUT = """
[...document.querySelectorAll("main *")].filter(one => !one.closest(".scroll") && !one.closest("svg")
  && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 200))
"""
# A fill that leads nowhere would draw nothing.
FILLS = """
[...new Set([...document.querySelectorAll("rect, path")].map(one => getComputedStyle(one).fill))]
  .filter(fill => fill.startsWith("url")).map(fill => document.querySelector(fill.match(/#[\\w-]+/)[0])?.tagName)
"""
# The first column of what was wasted, of each table that has one: how far to the right it reaches.
WASTED = """
["now", "groups", "cards", "usage"].map(section => [section, Math.max(
  ...[...document.querySelectorAll(`#${section} table`)]
  .map(table => [...table.querySelectorAll("th")].find(head => /idle-held|GPU-h$/.test(head.textContent)))
  .filter(Boolean).map(head => head.getBoundingClientRect().right))])
"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    try:
        with browser(tmp_path_factory.mktemp("chromium")) as started:
            yield started
    except MissingToolError as missing:
        if os.environ.get("GUA_REQUIRE_ALL") or os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(f"left out: {missing}")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    reports = {"week": week_report(), "fleet": fleet_report(hosts=4, days=30), "nothing": empty_report()}
    for name, report in reports.items():
        write_html(folder / f"{name}.html", report)
    return {name: folder / f"{name}.html" for name in reports}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("demo") / "demo.html"
    done = subprocess.run([str(COMMAND), "demo", "--html", str(page)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return page


def assert_whole(chromium: Browser, page: Path, width: int, scheme: str) -> None:
    chromium.look_as(width, dark=scheme == "dark")
    chromium.open(page)
    assert chromium.value(OVERFLOW) <= 0
    assert chromium.value(STICKING_OUT) == []
    assert set(chromium.value(FILLS)) == {"pattern"}
    assert chromium.value("document.scripts.length") == 0
    assert chromium.said() == []
    assert chromium.fetched() == [page.as_uri()]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["week", "fleet", "nothing"])
def test_the_page_loads_nothing_external_and_fits_its_width(
    chromium: Browser, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    assert_whole(chromium, pages[name], width, scheme)


def test_a_telephone_shows_what_was_wasted_without_scrolling(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.look_as(400)
    chromium.open(pages["week"])
    reached = chromium.value(WASTED)
    assert [section for section, right in reached if not 0 < right <= 400] == [], reached


def test_the_page_is_as_light_or_dark_as_one_has_it_and_prints_light(chromium: Browser, pages: dict[str, Path]) -> None:
    grounds = {}
    for media, scheme in (("screen", "light"), ("screen", "dark"), ("print", "dark")):
        chromium.look_as(800, dark=scheme == "dark", media=media)
        chromium.open(pages["week"])
        grounds[media, scheme] = chromium.value(GROUND)
    assert grounds["screen", "light"] == grounds["print", "dark"] == "rgb(255, 255, 255)"
    assert grounds["screen", "dark"] != "rgb(255, 255, 255)"


def test_the_printed_page_is_no_wider_than_the_paper(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.look_as(703, media="print")  # A4 without its margins, at 96 dots an inch
    chromium.open(pages["week"])
    assert chromium.value(OVERFLOW) <= 0
    assert chromium.pdf().startswith(b"%PDF")


def test_links_lead_to_their_sections(chromium: Browser, pages: dict[str, Path]) -> None:
    chromium.look_as(1400)
    chromium.open(pages["week"])
    tops = chromium.value(
        '[...document.querySelectorAll("nav a")].map(one => document.querySelector(one.hash).offsetTop)'
    )
    assert tops == sorted(tops)
    assert len(set(tops)) == len(section_names()) + 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_demo_looks_like_the_screenshots(
    chromium: Browser, demo: Path, width: int, scheme: str, request: pytest.FixtureRequest
) -> None:
    assert_whole(chromium, demo, width, scheme)
    kept = SHOTS / f"{width}-{scheme}.png"
    timeline = SHOTS / "timeline.png"
    if request.config.getoption("--update-golden"):
        SHOTS.mkdir(exist_ok=True)
        kept.write_bytes(chromium.screenshot(height=SHOT_HEIGHT))
        if (width, scheme) == (1400, "light"):
            timeline.write_bytes(chromium.screenshot(of="#timeline"))
    # Letters are drawn otherwise on every machine: people compare the pictures, this only that there are some.
    for picture in (kept, timeline):
        assert picture.read_bytes().startswith(b"\x89PNG"), f"{picture}: run pytest --update-golden, and look at it"
        assert picture.stat().st_size < MOST_SHOT_BYTES
