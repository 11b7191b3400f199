"""The report as one self-contained HTML page without scripts."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from gua.report.answers import Answers, EmptyOwner, IdleOwner, TopOwner, answers
from gua.report.costs import added, wasted
from gua.report.forms.first_screen.answers import (
    allocated_to,
    amounts,
    before,
    cost_suffix,
    other_people,
    sentences_of_free,
    unowned,
    when,
)
from gua.report.forms.first_screen.screen import SECTION, idle_seconds_in_words, sentences, window
from gua.report.forms.text import warnings, whereabouts
from gua.report.kit.basis import at, chosen, evidence, meanings, since, size
from gua.report.kit.figures import HourFormat, at_least
from gua.report.kit.html import CLASSES, PATTERNS, Markup, draw_parts, has_figures, join, name, paragraph, swatch, tag
from gua.report.kit.style import WIDEST, Style
from gua.report.kit.tables import Table
from gua.report.kit.words import NOT_KNOWN, Places, places, recoveries
from gua.report.model import Report
from gua.report.section_list import section_named
from gua.report.sections.allocation import allocation_name
from gua.report.sections.headline import state_hours, without_process
from gua.report.sections.now_rows import Now, OtherHolder
from gua.report.states import IDLE_HELD

STYLE: Final = Style(width=WIDEST, times=5)


def heading(report: Report, hours: HourFormat) -> Markup:
    """Return the page's header with window, hosts, filters and warnings."""
    doubts = [tag("li", words) for words in warnings(report, STYLE, hours)]
    sick = [tag("li", tag("bdi", words)) for words in recoveries(report, STYLE)]
    return tag(
        "header",
        tag("h1", "GPU usage report"),
        tag("p", window(report), class_="window"),
        tag("p", whereabouts(report, STYLE)),
        tag("p", f"Only {chosen(report, STYLE)}") if report.filters else None,
        tag("ul", *doubts, class_="warnings", aria_label="What makes this report doubtful") if doubts else None,
        tag("ul", *sick, class_="warnings", aria_label="Cards that need recovery") if sick else None,
    )


def basis(report: Report, hours: HourFormat) -> Markup:
    """Return the definitions of terms and the evidence of the numbers."""
    return tag(
        "div",
        _terms("What the words mean", list(meanings(report))),
        _terms("What the numbers rest on", list(evidence(report, STYLE, hours))),
        class_="two",
    )


def _terms(head: str, terms: list[tuple[str, str]]) -> Markup:
    rows = [
        join([tag("dt", swatch(CLASSES[label]) if label in CLASSES else None, label), tag("dd", words)])
        for label, words in terms
    ]
    return tag("div", tag("h3", head), tag("dl", *rows))


MOST: Final = 3
_NAME_WIDTH: Final = 28


def first(report: Report, hours: HourFormat) -> Markup:
    """Return three columns: waste, top idle holders, and free cards."""
    found, where = answers(report), places(report, STYLE)
    blocks = {
        "Wasted": _wasted(report, found, where, hours),
        "Top idle holders": _top_holders(report, found, where, hours),
        f"Free {when(report)}": _free(report, where),
    }
    return tag("div", *(tag("div", tag("h2", title), body) for title, body in blocks.items()), class_="answers")


def _wasted(report: Report, answers: Answers, where: Places, hours: HourFormat) -> Markup:
    held = tag("strong", state_hours(report, hours)[IDLE_HELD])
    cost = tag("bdi", cost_suffix(wasted(report.headline.costs), STYLE))
    amount = tag("p", held, " GPU-hours", cost) if report.headline.states[IDLE_HELD].gpu_ms else None
    verdict = tag("p", " ".join(sentences(report, STYLE, hours)))
    without = without_process(report, hours, where)
    active = None if without is None else tag("p", tag("bdi", without))
    return join([amount, verdict, active, _idle_seconds(report, answers, where, hours)])


def _idle_seconds(report: Report, answers: Answers, where: Places, hours: HourFormat) -> Markup | None:
    """Return the sentence on idle seconds with a link to its section, or the command for it."""
    if answers.idle_seconds is None:
        return None
    words = tag("bdi", idle_seconds_in_words(report, answers.idle_seconds, where, hours))
    if SECTION not in report.sections:
        return tag("p", words, f": gua report --section {SECTION}")
    return tag("p", words, ": ", tag("a", SECTION, href=f"#{SECTION}"))


def _top_holders(report: Report, answers: Answers, where: Places, hours: HourFormat) -> Markup:
    shown, rest = answers.owners[:MOST], answers.owners[MOST:]
    written, of_rest, of_unowned = amounts(report, answers, shown, rest, hours)
    owners = [tag("li", *_owner(report, one, gpu_hours, where)) for one, gpu_hours in zip(shown, written, strict=True)]
    of_others = cost_suffix(added(one.cost for one in rest), STYLE)
    left = None if answers.unowned is None else tag("bdi", unowned(report, answers.unowned, of_unowned, where, STYLE))
    return join(
        [
            tag("ol", *owners) if owners else tag("p", "Nobody is known to have wasted any."),
            paragraph(f"And {other_people(shown, rest)}: {of_rest}{of_others}." if rest else None),
            paragraph(left),
        ]
    )


def _owner(report: Report, one: TopOwner, gpu_hours: str, where: Places) -> Iterator[str]:
    yield tag("b", NOT_KNOWN if one.owner is None else name(one.owner, _NAME_WIDTH))
    yield f" {gpu_hours} GPU-hours"
    if cost := cost_suffix(one.cost, STYLE):
        yield tag("bdi", cost)
    held = _allocated(report, one, where) if isinstance(one, EmptyOwner) else _holds(report, one, where)
    yield tag("span", *held, class_="sub")


def _allocated(report: Report, one: EmptyOwner, where: Places) -> Iterator[str]:
    """Yield the owner's longest empty allocation and since when it is empty."""
    if not one.holds:
        yield "allocated without a process"
        return
    worst, rest = one.holds[0], len(one.holds) - 1
    before_it = "before " if worst.is_lower_bound else ""
    yield f"allocated, no process since {before_it}{since(worst.use_since_ms, report.window)}: "
    yield tag("bdi", where(worst.host, worst.gpu))
    yield " ("
    yield tag("bdi", allocation_name(worst, STYLE))
    yield f"){f'; and {rest:,} more' if rest else ''}"


def _holds(report: Report, one: IdleOwner, where: Places) -> Iterator[str]:
    """Yield the holder's longest idle card, or when it was last seen if it holds none."""
    if not one.holds:
        if one.is_gone is not None:
            yield "gone" if one.is_gone else f"holds nothing {when(report)}"
            yield "" if one.last_ms is None else f"; last seen {at(one.last_ms, report.window)}"
        return
    worst, rest = one.holds[0], len(one.holds) - 1
    yield f"{when(report)} on "
    yield tag("bdi", where(worst.host, worst.gpu))
    if worst.program is not None:
        yield ": "
        yield name(worst.program, _NAME_WIDTH)
    if worst.memory_bytes is not None:
        yield f", {size(worst.memory_bytes)}"
    if isinstance(worst, OtherHolder):
        yield f", since {at(worst.since_ms, report.window)}"
    else:
        yield f", idle for {at_least(worst.idle_ms, is_lower_bound=worst.is_lower_bound)}"
    yield f"; and {rest:,} more" if rest else ""


def _free(report: Report, where: Places) -> Markup:
    now = report.get(Now)
    if now is None:
        return tag("p", "Not looked at.")
    rest = len(now.free) - MOST
    _, *others = sentences_of_free(report, now, where, STYLE)
    cards = [
        tag(
            "li",
            tag("bdi", where(card.host, card.gpu)),
            f" for {at_least(card.free_ms, is_lower_bound=card.is_lower_bound)}",
            tag("bdi", words) if (words := before(card, STYLE)) else None,
        )
        for card in now.free[:MOST]
    ]
    return join(
        [
            tag("p", tag("strong", f"{len(now.free):,}"), " card" if len(now.free) == 1 else " cards"),
            tag("ul", *cards) if cards else None,
            paragraph(f"And {rest:,} more." if rest > 0 else None),
            paragraph(allocated_to(now.free) if now.free else None),
            *(paragraph(tag("bdi", text)) for text in others),
        ]
    )


POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_BASIS: Final = "basis"


def render_html(report: Report) -> str:
    """Return the report as one HTML page: its sections in their order, empty ones left out."""
    hours = HourFormat.fitting(report.coverage.expected_gpu_ms)
    blocks = list(_blocks(report, hours))
    # The link of a section is its title without the bracketed part.
    links = [tag("a", title.partition(" (")[0], href=f"#{key}") for key, title, _ in blocks]
    css = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    page = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="referrer", content="no-referrer"),
            # Without an icon a browser would request one from the page's server.
            tag("link", rel="icon", href="data:,"),
            tag("title", window(report)),
            tag("style", Markup(css)),
        ),
        tag(
            "body",
            PATTERNS,
            tag(
                "main",
                heading(report, hours),
                first(report, hours),
                tag("nav", *links, aria_label="Sections"),
                join((block for _, _, block in blocks), Markup("\n")),
            ),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def _blocks(report: Report, hours: HourFormat) -> Iterator[tuple[str, str, Markup]]:
    """Yield the key, the title and the markup of each section of the page; one without figures is folded."""
    for section in map(section_named, report.sections):
        if not section.is_shown(report):
            continue
        title = section.titled(report)
        parts = list(section.text(report, STYLE, hours))
        body = draw_parts(parts, title) if section.html is None else section.html(report, hours)
        has_content = any(isinstance(part, Table) and has_figures(part) for part in parts)
        nothing = None if has_content else next((part for part in parts if isinstance(part, str)), "nothing to show")
        if body is not None:
            yield section.name, title, _block(section.name, title, body, nothing)
    title = _BASIS.capitalize()
    yield _BASIS, title, _block(_BASIS, title, basis(report, hours))


def _block(key: str, title: str, body: Markup, nothing: str | None = None) -> Markup:
    """Return a section of the page, folded behind the summary ``nothing`` if that is given."""
    parts = [tag("h2", title, id=f"{key}-title"), body]
    if nothing is not None:
        parts = [tag("details", tag("summary", parts[0], tag("span", nothing, class_="quiet")), body)]
    return tag("section", *parts, id=key, aria_labelledby=f"{key}-title")
