"""The web page of a report: what it shows, and that nothing in a name gets out of its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fakes.reports import HOSTILE, LONG, RIGHT_TO_LEFT, bare_report, empty_report, fleet_report, having, week_report
from gua.report.forms.html import POLICY, render_html
from gua.report.model import Report
from gua.report.section_list import section_names
from gua.report.sections.money.model import Money
from gua.report.sections.now.model import Now
from gua.report.sections.usage.model import Usage

TAGS = {
    "html",
    "head",
    "meta",
    "link",
    "title",
    "style",
    "body",
    "svg",
    "defs",
    "pattern",
    "rect",
    "path",
    "main",
    "header",
    "h1",
    "h2",
    "h3",
    "p",
    "span",
    "ul",
    "li",
    "nav",
    "a",
    "section",
    "div",
    "table",
    "caption",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "th",
    "td",
    "strong",
    "b",
    "bdi",
    "dl",
    "dt",
    "dd",
    "i",
}
ATTRIBUTES = {
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "rel",
    "href",
    "class",
    "width",
    "height",
    "aria-hidden",
    "id",
    "patternunits",
    "d",
    "x",
    "viewbox",
    "preserveaspectratio",
    "role",
    "aria-label",
    "aria-labelledby",
    "tabindex",
    "scope",
    "colspan",
    "title",
    "style",
}
VOID = {"meta", "link"}
BIDI_AND_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
MOST_BYTES = 3_000_000


class Page(HTMLParser):
    """What a parser makes of a page: its elements, words, and whether every element is closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append((self._open[-1] if self._open else "", data))

    def of(self, element: str) -> Iterator[dict[str, str]]:
        return (attributes for tag, attributes in self.elements if tag == element)

    @property
    def text(self) -> str:
        return " ".join(words for tag, words in self.words if tag != "style")


@pytest.fixture(scope="module")
def report() -> Report:
    return week_report()


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return render_html(report)


def test_names_make_no_element_and_no_attribute(page: str) -> None:
    parsed = Page(page)
    assert {tag for tag, _ in parsed.elements} <= TAGS
    assert {name for _, attributes in parsed.elements for name in attributes} <= ATTRIBUTES


def test_names_are_there_as_text(page: str) -> None:
    text = Page(page).text
    assert "<script>alert(1)</script>" in text
    assert "|**b**|`c`|[x](http:" in text


def test_no_control_or_direction_character_reaches_the_page(page: str) -> None:
    assert BIDI_AND_CONTROLS.findall(page) == []
    assert any(BIDI_AND_CONTROLS.search(name) for name in HOSTILE)


def test_long_names_are_cut(page: str) -> None:
    assert "very-long-name-" in page
    assert LONG[:300] not in page


def test_names_from_right_to_left_are_isolated(page: str) -> None:
    letters = RIGHT_TO_LEFT[-4:-1]
    places = [tag for tag, words in Page(page).words if letters in words and tag not in {"li", "dd"}]
    assert set(places) == {"bdi"}


def test_every_hostile_name_everywhere_stays_text(report: Report) -> None:
    money = report[Money]
    for name in HOSTILE:
        hostile = replace(
            report,
            hosts=(name,),
            cards=tuple(replace(card, host=name, gpu=name, name=name, model=name) for card in report.cards),
        )
        hostile = having(
            hostile,
            replace(
                report[Now],
                holders=tuple(
                    replace(
                        holder,
                        host=name,
                        gpu=name,
                        card_name=name,
                        card_state=name,
                        owner=name,
                        program=name,
                        container_id=name,
                        pod_uid=name,
                        slurm_job_id=name,
                        systemd_unit=name,
                    )
                    for holder in report[Now].holders
                ),
            ),
            replace(money, costs=tuple(replace(cost, model=name, currency=name) for cost in money.costs)),
        )
        parsed = Page(render_html(hostile))
        assert {tag for tag, _ in parsed.elements} <= TAGS
        assert {key for _, attributes in parsed.elements for key in attributes} <= ATTRIBUTES


def test_the_page_needs_nothing_from_anywhere(page: str) -> None:
    parsed = Page(page)
    assert [attributes["href"] for attributes in parsed.of("link")] == ["data:,"]
    assert all(attributes["href"].startswith("#") for attributes in parsed.of("a"))
    assert "<script" not in page
    style = "".join(words for tag, words in parsed.words if tag == "style")
    assert set(re.findall(r"url\((.)", style)) == {"#"}
    assert "@import" not in style


def test_the_policy_forbids_scripts_and_requests(page: str) -> None:
    (policy,) = (one["content"] for one in Page(page).of("meta") if one.get("http-equiv"))
    assert policy == POLICY
    assert policy.startswith("default-src 'none';")
    assert page.index(policy) < page.index("<style>")


def test_the_page_is_the_same_every_time(page: str) -> None:
    assert render_html(week_report()) == page


def test_all_sections_are_there_in_their_order(page: str) -> None:
    assert [one["id"] for one in Page(page).of("section")] == [*section_names(), "basis"]


def test_sections_that_nobody_asked_for_are_left_out(report: Report) -> None:
    page = Page(render_html(replace(report, sections=frozenset(("headline", "money")))))
    assert [one["id"] for one in page.of("section")] == ["headline", "money", "basis"]
    assert [one["href"] for one in page.of("a")] == [f"#{'headline'}", f"#{'money'}", "#basis"]


def test_sections_without_data_are_left_out(report: Report) -> None:
    ids = [one["id"] for one in Page(render_html(bare_report(report, *section_names()))).of("section")]
    assert ids == ["headline", "idle-capacity", "cards", "usage", "time-of-day", "basis"]


def test_streaks_that_were_too_many_to_read_are_said_to_be_missing(report: Report) -> None:
    page = render_html(replace(bare_report(report, "headline", "now"), streaks_skipped=61_440))
    assert page.count("61,440 card-hours") == 2


def test_a_report_of_nothing_is_drawn_without_a_state(report: Report) -> None:
    text = Page(render_html(empty_report())).text
    assert "Nothing was observed in this window." in text
    assert "100.0" in text  # unobserved
    assert render_html(having(replace(report, cards=()), Usage(owners=())))


def test_unobserved_time_has_a_fill_of_its_own(page: str, report: Report) -> None:
    parsed = Page(page)
    assert [one for one in parsed.of("rect") if one.get("class") == "f-n"]
    assert "14.0 are unobserved and belong to no state" in parsed.text
    one = replace(report, sections=frozenset(("timeline",)))
    row = re.search(r'aria-label="Timeline: ([^"]*)"[^>]*>', render_html(one).split("GPU-dddd4444")[1])
    assert row is not None
    assert "unobserved 8.4 %" in row[1]


def test_what_is_left_of_a_partitioned_card_is_called_so_in_every_section(report: Report) -> None:
    parted = replace(report, cards=(replace(report.cards[0], mig="parent"), *report.cards[1:]))
    assert Page(render_html(parted)).text.count("unallocated MIG slices") == 2  # cards and timeline


def test_every_drawing_tells_its_figures(page: str) -> None:
    drawings = [one for one in Page(page).of("svg") if one.get("aria-hidden") != "true"]
    assert len(drawings) > 100
    assert all(one["role"] == "img" for one in drawings)
    assert [one for one in drawings if not re.search(r"\d|nothing observed", one["aria-label"])] == []


def test_numbers_stand_beside_the_bars_and_add_up(page: str) -> None:
    split = page.split('id="headline"')[1].split("</table>", maxsplit=1)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", split)[1:]
    shares = [re.findall(r'<td class="n">([^<]*)', row)[0] for row in rows]
    assert shares == ["21.4", "46.3", "32.0", "0.3"]


def test_every_table_has_a_caption_and_heads_with_a_scope(page: str) -> None:
    parsed = Page(page)
    assert len(list(parsed.of("table"))) == len(list(parsed.of("caption"))) > 20
    assert all(one.get("scope") in {"col", "row"} for one in parsed.of("th"))


def test_ids_are_unique_and_every_link_leads_somewhere(page: str) -> None:
    parsed = Page(page)
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {one["href"][1:] for one in parsed.of("a")} <= set(ids)
    assert {name for one in parsed.of("section") for name in one["aria-labelledby"].split()} <= set(ids)


def test_what_one_reads_once_in_a_long_table_is_cut_with_its_rest_told(report: Report) -> None:
    many = having(report, replace(report[Now], holders=report[Now].holders[:1] * 70))
    assert "And 20 more holders" in render_html(many)


@pytest.mark.parametrize("cell_minutes", [60, 10])
def test_a_month_of_64_cards_stays_below_3_mb(cell_minutes: int) -> None:
    page = render_html(fleet_report(cell_minutes=cell_minutes))
    assert len(page.encode()) < MOST_BYTES
    assert "and 1 more process" in page


def test_many_cards_are_cut_to_those_most_idle_held_and_stay_below_3_mb() -> None:
    page = render_html(fleet_report(hosts=40))
    assert len(page.encode()) < MOST_BYTES
    assert "more cards with less idle-held time" in page
