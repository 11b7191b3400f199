"""The web page of a report: what it shows, and that nothing in a name gets out of its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from fakes.reports import (
    HOSTILE,
    HOUR_MS,
    LONG,
    RIGHT_TO_LEFT,
    bare_report,
    empty_report,
    fleet_report,
    having,
    week_report,
)
from gua.report.forms.html import POLICY, render_html
from gua.report.model import Report
from gua.report.section_list import section_names
from gua.report.sections.calendar import TimeOfDay
from gua.report.sections.energy import Energy
from gua.report.sections.money import Money
from gua.report.sections.now_rows import Now
from gua.report.sections.usage import Usage
from gua.report.states import IDLE_HELD, STATES, StateTime

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
    "tr",
    "th",
    "td",
    "strong",
    "b",
    "bdi",
    "code",
    "dl",
    "dt",
    "dd",
    "i",
    "ol",
    "details",
    "summary",
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


def test_sections_that_were_not_requested_are_left_out(report: Report) -> None:
    page = Page(render_html(replace(report, sections=("headline", "money"))))
    assert [one["id"] for one in page.of("section")] == ["headline", "money", "basis"]
    assert [one["href"] for one in page.of("a")] == ["#headline", "#money", "#basis"]


def test_the_navigation_has_the_sections_titles(page: str) -> None:
    links = [words for tag, words in Page(page).words if tag == "a"]
    first = links.index("Where the GPU-hours went")
    assert links[first : first + 3] == ["Where the GPU-hours went", "What to do now", "Idle capacity"]
    assert links[-1] == "Basis"


def test_idle_seconds_lead_to_the_section_or_to_the_command_that_has_it(report: Report) -> None:
    here, elsewhere = (Page(render_html(one)) for one in (report, replace(report, sections=("headline",))))
    assert [one["href"] for one in here.of("a")].count("#usefulness") == 2  # beside the navigation's
    assert "#usefulness" not in [one["href"] for one in elsewhere.of("a")]
    for page, link_text in ((here, "usefulness"), (elsewhere, "gua report --section usefulness")):
        assert "active GPU-hours" in (text := " ".join(words for _, words in page.words))
        assert re.search(rf"\([\d.]+ % of [\d.]+ sampled\), most on .*? : +{link_text}", text)


def folded(page: str) -> list[str]:
    """Return the names of the sections that are."""
    return re.findall(r'<section id="([^"]*)"[^>]*><details><summary><h2', page)


def test_sections_without_a_row_are_folded_under_their_heading(report: Report) -> None:
    nothing = having(report, Usage(owners=()), Energy(cards=()))
    page = render_html(nothing)
    assert folded(page) == ["usage", "energy"]
    assert folded(render_html(report)) == []
    assert "<details open" not in page


def test_money_without_a_price_is_folded_and_says_how_to_set_one(report: Report) -> None:
    money = report[Money]
    unpriced = tuple(replace(cost, currency=None) for cost in money.costs)
    cards = tuple(replace(card, costs=None) for card in report.cards)
    page = render_html(replace(having(report, replace(money, costs=unpriced, prices=())), cards=cards))
    assert folded(page) == ["money"]
    assert re.search(
        r"<summary><h2[^>]*>Money</h2><span class=\"quiet\">These cards have no price[^<]*gua prices", page
    )


def test_sections_of_dashes_alone_are_folded(report: Report) -> None:
    nobody = tuple(replace(hour, states=dict.fromkeys(STATES, StateTime())) for hour in report[TimeOfDay])
    assert folded(render_html(having(report, TimeOfDay(nobody)))) == ["time-of-day"]


def test_sections_without_data_are_left_out(report: Report) -> None:
    ids = [one["id"] for one in Page(render_html(bare_report(report, *section_names()))).of("section")]
    assert ids == ["headline", "idle-capacity", "cards", "usage", "time-of-day", "basis"]


def test_a_report_of_nothing_is_drawn_without_a_state(report: Report) -> None:
    text = Page(render_html(empty_report())).text
    assert "Nothing was observed: nobody knows" in text
    assert "Nobody is known" in text
    assert "Not looked at." in text
    assert "100.0" in text  # unobserved
    assert render_html(having(replace(report, cards=()), Usage(owners=())))


def answered(page: str) -> list[str]:
    """Return the words of the three answers."""
    head = page.partition('<div class="answers">')[2].partition("<nav")[0]
    blocks = head.split("<h2>")[1:]
    block_texts = [" ".join(unescape(re.sub("<[^>]*>", " ", block)).split()) for block in blocks]
    return [re.sub(r" ([,:;.])", r"\1", one) for one in block_texts]


def cost_of(report: Report, *owners: str) -> str:
    """Return ``, 253 EUR + 1 USD``: what idle-held time of some owners cost, of all if none is named."""
    costs = [
        one.costs[IDLE_HELD].amounts
        for one in report[Usage].owners
        if one.costs and (one.owner in owners or not owners)
    ]
    sums = {currency: sum(cost[currency] for cost in costs) for currency in costs[0]}
    return ", " + " + ".join(f"{amount:,.0f} {currency}" for currency, amount in sums.items())


def test_the_page_begins_with_waste_top_idle_holders_and_free_cards() -> None:
    report = week_report(has_source=False)
    wasted, top, free = answered(render_html(report))
    held = report.headline.states[IDLE_HELD].gpu_ms / HOUR_MS
    cost, alice, bob = cost_of(report), cost_of(report, "alice"), cost_of(report, "bob")
    assert wasted.startswith(
        f"Wasted {held:.1f} GPU-hours{cost} {held:.1f} of 821.0 GPU-hours observed (46.3 %) were held"
    )
    assert "as much as 2.3 of 5 GPUs" in wasted
    assert top.startswith(
        f"Top idle holders alice {held * 0.24:.1f} GPU-hours{alice} now on gpu-1 GPU 0: python3, 42 GiB, idle for 2d 2h"
    )
    assert f"bob {held * 0.2:.1f} GPU-hours{bob} now on gpu-1 GPU 2: jupyter-lab, 61.2 GiB, idle for > 4d 22h" in top
    assert f"carol {held * 0.16:.1f} GPU-hours" in top
    assert "dave" not in top
    figures = re.findall(r"([0-9.]+) GPU-hours|others: ([0-9.]+)|([0-9.]+), [^.]*in memory", top)
    assert sum(float(one or two or three) for one, two, three in figures) == pytest.approx(round(held, 1))
    assert "memory that no listed process owns, now on lab-2.example" in top
    assert free.startswith("Free now 2 cards")
    assert "No allocation source is read" in free


def test_holders_who_are_gone_are_marked(report: Report) -> None:
    (zoe, *_) = (replace(one, owner="zoe", last_ms=report.window.since_ms) for one in report[Usage].owners[:1])
    _, top, _ = answered(render_html(having(report, Usage(owners=(zoe,)))))
    assert "gone; last seen 2026-03-23 00:00" in top


def test_unobserved_time_has_a_fill_of_its_own(page: str, report: Report) -> None:
    parsed = Page(page)
    assert [one for one in parsed.of("rect") if one.get("class") == "f-n"]
    assert "unobserved 14.0, 1 gap" in parsed.text
    one = replace(report, sections=("timeline",))
    row = re.search(r'aria-label="Timeline: ([^"]*)"[^>]*>', render_html(one).split("GPU-dddd4444")[1])
    assert row is not None
    assert "unobserved 8.4 %" in row[1]


def test_what_is_left_of_a_partitioned_card_is_called_so_in_every_section(report: Report) -> None:
    parted = replace(report, cards=(replace(report.cards[0], mig="parent"), *report.cards[1:]))
    assert render_html(parted).count(">unallocated MIG slices<") == 2  # cards and timeline


def test_every_drawing_has_its_values_as_text(page: str) -> None:
    drawings = [one for one in Page(page).of("svg") if one.get("aria-hidden") != "true"]
    assert len(drawings) > 60
    assert all(one["role"] == "img" for one in drawings)
    assert [one for one in drawings if not re.search(r"\d|nothing observed", one["aria-label"])] == []


def test_numbers_stand_beside_the_bars_and_add_up(page: str) -> None:
    split = page.split('id="headline"')[1].split("</table>", maxsplit=1)[0]
    rows = [row for row in re.findall(r"<tr>(.*?)</tr>", split)[1:] if "swatch" in row]
    shares = [re.findall(r'<td class="n">([^<]*)', row)[1] for row in rows]
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


def test_a_long_table_is_cut_with_the_number_of_the_remaining_rows(report: Report) -> None:
    many = having(report, replace(report[Now], holders=report[Now].holders[:1] * 70))
    assert "and 20 more holders" in render_html(many)


def test_a_page_has_five_times_the_rows_of_a_terminal(report: Report) -> None:
    page = render_html(having(report, Usage(owners=report[Usage].owners[:1] * 60)))
    rows = page.split('<section id="usage"')[1].split("</table>", maxsplit=1)[0]
    assert rows.count("<tr>") == 1 + 50 + 1
    assert "10 others" in rows


@pytest.mark.parametrize("cell_minutes", [60, 10])
def test_a_month_of_64_cards_stays_below_3_mb(cell_minutes: int) -> None:
    page = render_html(fleet_report(cell_minutes=cell_minutes))
    assert len(page.encode()) < MOST_BYTES
    assert "and 1 more process" in page


def test_many_cards_are_cut_to_those_most_idle_held_and_stay_below_3_mb() -> None:
    page = render_html(fleet_report(hosts=40))
    assert len(page.encode()) < MOST_BYTES
    assert " more with less idle-held time" in page
