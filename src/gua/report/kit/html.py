"""HTML elements of a page: markup that escapes every string, SVG bars of states, tables with captions and heads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import zip_longest
from typing import Final

from gua.core.plaintext import safe
from gua.report.kit.figures import NONE, percents
from gua.report.kit.tables import Drawn, Heading, Part, Table
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, UNOBSERVED, States, observed_ms, times

_VOID: Final = frozenset(("meta", "link", "br"))
_SHAPES: Final = frozenset(("rect", "path"))
_LONGEST_TITLE: Final = 200
Value = str | int | float | None


class Markup(str):
    """Text that already is HTML. Joining it with a plain string returns a plain string, which is escaped again."""

    __slots__ = ()


def text(written: str) -> Markup:
    """Return text escaped for an element or a quoted attribute, without control and BiDi characters.

    One space at either end is retained, because sentences are joined from parts.
    """
    if isinstance(written, Markup):
        return written
    if not written or written.isspace():
        return Markup(" " if written else "")
    before, after = (" " if end.isspace() else "" for end in (written[0], written[-1]))
    return Markup(f"{before}{escape(safe(written), quote=True)}{after}")


def join(parts: Iterable[str | None], between: str = "") -> Markup:
    """Return the parts joined by ``between``, plain strings escaped, ``None`` left out."""
    return Markup(text(between).join(text(part) for part in parts if part is not None))


def tag(element: str, *children: str | None, **attributes: Value) -> Markup:
    """Return an element with its children and attributes; ``class_`` is ``class``, ``aria_label`` ``aria-label``.

    Attributes of value ``None`` are left out.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if element in _VOID:
        return Markup(f"<{element}{written}>")
    if element in _SHAPES and not children:
        return Markup(f"<{element}{written}/>")
    return Markup(f"<{element}{written}>{join(children)}</{element}>")


def name(written: str, width: int = 40) -> Markup:
    """Return a name of unknown origin, cut in its middle to ``width`` columns; a longer form is its tooltip.

    A ``bdi`` element isolates it, so that right-to-left letters do not reorder the text beside it.
    """
    clean = safe(written)
    cut = safe(written, width)
    return tag("bdi", cut or '""', title=safe(written, _LONGEST_TITLE) if cut != clean else None)


CLASSES: Final[Mapping[str, str]] = {ACTIVE: "a", IDLE_HELD: "h", TRULY_IDLE: "t", UNKNOWN: "u", UNOBSERVED: "n"}
BarPart = tuple[str, str, float]  # the class of its fill, its tooltip, its size


PATTERNS: Final = Markup(
    '<svg class="defs" width="0" height="0" aria-hidden="true"><defs>'
    '<pattern id="p-h" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" class="b-h"/><path d="M-1 1l2-2M0 6l6-6M5 7l2-2" class="s-h"/></pattern>'
    '<pattern id="p-t" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" class="b-t"/><path d="M1 1.5h1M4 4.5h1" class="s-t"/></pattern>'
    '<pattern id="p-u" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" class="b-u"/><path d="M0 0l6 6M6 0l-6 6" class="s-u"/></pattern>'
    '<pattern id="p-n" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<rect width="8" height="8" class="b-n"/><path d="M-1 7l2 2M0 0l8 8M7-1l2 2" class="s-n"/></pattern>'
    "</defs></svg>"
)
"""The fill patterns of all bars of a page: states remain distinguishable without colour."""


def swatch(kind: str) -> Markup:
    """Return a small filled square, for legends and column heads."""
    return tag(
        "svg",
        tag("rect", width="100%", height="100%", class_=f"f-{kind}"),
        class_="swatch",
        aria_hidden="true",
    )


def of_state(state: str) -> Markup:
    """Return a state's name after its swatch, on one line."""
    return tag("span", swatch(CLASSES[state]), state, class_="state")


def stacked(parts: Sequence[BarPart], label: str, *, of: float | None = None, class_: str = "bar") -> Markup:
    """Return one bar of parts side by side, sized by their share of ``of`` (default: their sum), with tooltips."""
    total = sum(size for _, _, size in parts) if of is None else of
    rects, start = [], 0.0
    for kind, called, size in parts:
        if size > 0 and total > 0:
            wide, titles = 100 * size / total, (tag("title", called),) if called else ()
            place = {"x": f"{start:.2f}%", "width": f"{wide:.2f}%"}
            rects.append(tag("rect", *titles, **place, height="100%", class_=f"f-{kind}"))
            start += wide
    return tag("svg", *rects, class_=class_, role="img", aria_label=label)


def split_in_words(states: States) -> str:
    """Return ``active 21.4 %, idle-held …`` in percent of the observed time, or ``nothing observed``."""
    shares = zip(STATES, percents(times(states)), strict=True)
    return ", ".join(f"{state} {part} %" for state, part in shares) if observed_ms(states) else "nothing observed"


def caption_of(words: str) -> Markup:
    """Return the caption of a table; it stays visible while the table scrolls."""
    return tag("caption", tag("span", words))


def paragraph(words: str | None) -> Markup | None:
    """Return a small paragraph, ``None`` without text."""
    return tag("p", words, class_="note") if words else None


def draw_parts(parts: Iterable[Part], title: str) -> Markup:
    """Return the HTML of a section's parts; a sentence just above a table is its caption, else the heading is."""
    return join(_drawn(parts, title))


def has_figures(drawn: Table) -> bool:
    """Return whether a table has a figure in any column that is neither a head nor hidden on narrow pages."""
    stay = [place for place, column in enumerate(drawn.columns) if place >= drawn.heads and not column.leaves]
    return any(row[place] not in {"", NONE} for row in drawn.rows for place in stay)


def _drawn(parts: Iterable[Part], title: str) -> Iterator[Markup]:
    sentence: str | None = None
    for part in parts:
        if isinstance(part, Table):
            if part.rows:
                yield _table_of(part, sentence or title, is_named_above=sentence is None)
                sentence = None
            continue
        if sentence is not None:
            yield tag("p", sentence)
        sentence = None
        match part:
            case str():
                sentence = part
            case Heading():
                title = part.text
                yield tag("h3", title)
            case Drawn():
                sentence = part.line
    if sentence is not None:
        yield tag("p", sentence)


def _table_of(drawn: Table, caption: str, *, is_named_above: bool) -> Markup:
    """Return a table whose first column has the row heads, and a paragraph of notes below it.

    ``is_named_above``: the heading above repeats the caption, which is then visible to screen readers only.
    """
    # ``n`` for numbers, ``l`` for columns that are hidden on narrow pages.
    classes = [
        " ".join(filter(None, ("" if column.left else "n", "l" if column.leaves else ""))) or None
        for column in drawn.columns
    ]
    heads = [
        tag("th", swatch(CLASSES[title]) if title in CLASSES else None, title, scope="col", class_=class_)
        for title, class_ in zip((column.title for column in drawn.columns), classes, strict=True)
    ]
    rows = [
        [_cell(text) if column.left else text for column, text in zip(drawn.columns, row, strict=True)]
        for row in drawn.rows
    ]
    if drawn.bars:
        classes.insert(drawn.heads, "b")
        heads.insert(drawn.heads, tag("th", "", scope="col", class_="b"))
        longest = max(map(observed_ms, drawn.bars))
        for row, states in zip_longest(rows, drawn.bars):
            parts = [(CLASSES[state], "", states[state].gpu_ms) for state in STATES] if states else []
            row.insert(drawn.heads, stacked(parts, split_in_words(states), of=longest) if states else "")
    body = tag(
        "table",
        tag("caption", caption, class_="unseen") if is_named_above else caption_of(caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *(_row(classes, row) for row in rows)),
    )
    notes = paragraph("; ".join(f"{title}: {note}" for title, note in drawn.notes))
    # A scrollable region must be reachable by keyboard.
    return join([tag("div", body, class_="scroll", role="region", aria_label=caption, tabindex=0), notes])


def _row(classes: Sequence[str | None], row: Sequence[str]) -> Markup:
    head, *cells = zip(row, classes, strict=True)
    return tag(
        "tr",
        tag("th", head[0], class_=head[1], scope="row"),
        *(tag("td", text, class_=class_) for text, class_ in cells),
    )


def _cell(text: str) -> Markup:
    """Return a state with its swatch, or a name isolated from the direction of the text beside it."""
    return of_state(text) if text in STATES else tag("bdi", text)
