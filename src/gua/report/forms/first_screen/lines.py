"""What several parts of the screen are laid out with: items in a row, commands, and where a card is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gua.core.words import Mig
from gua.report.kit.style import Style
from gua.report.kit.tables import Table, draw, fits, shown_width
from gua.report.kit.words import NAME_WIDTH, index
from gua.report.model import Card, Report

_ID_WIDTH: Final = 13
_ID_HEAD: Final = len("MIG-0123")


def flow(items: Iterable[str], style: Style, *, indent: int = 2, gap: str = "  ") -> Iterator[str]:
    """Yield items side by side, as many on a line as fit; one that fits on no line is broken at its spaces."""
    line = ""
    for item in items:
        longer = f"{line}{gap}{item}" if line else " " * indent + item
        if shown_width(longer) <= style.width:
            line = longer
            continue
        if line:
            yield line
        *before, line = uncut(item, style, indent=indent)
        yield from before
    if line:
        yield line


def uncut(text: str, style: Style, *, indent: int = 0, hanging: int | None = None) -> list[str]:
    """Return a text wrapped between words, or in one line where a word is too long: what is typed must not be cut."""
    is_cut = any(indent + (hanging or 0) + shown_width(word) > style.width for word in text.split())
    if is_cut or indent + shown_width(text) <= style.width:
        return [" " * indent + text]
    return list(style.wrap(text, indent=indent, hanging=hanging))


def rows(table: Table, style: Style) -> Iterator[str]:
    """Yield a table, or where it does not fit a paragraph a row below what the first column is called."""
    if fits(table, style):
        yield from draw(table, style)
        return
    yield f"{table.columns[0].title}:"
    for head, *row in table.rows:
        figures = (f"{column.title} {text}" for column, text in zip(table.columns[1:], row, strict=True) if text)
        yield from style.wrap(f"{head}: {', '.join(figures)}", hanging=4)


Places = Callable[[str, str], str]


def places(report: Report, style: Style) -> Places:
    """Return what tells where a card is by its host and id: ``GPU 3``, ``node-1 GPU 3``, ``GPU 4 3g.40gb``.

    MIG instances of one size on one GPU are told apart by their ids.
    """
    several = len(report.hosts) > 1
    found = {}
    for card in report.cards:
        host = f"{style.name(card.host, NAME_WIDTH)} " if several else ""
        found[card.host, card.gpu] = f"{host}GPU {index(card.index, card.gpu, style)}{_part(card, style)}"
    twins = {label for label, count in Counter(found.values()).items() if count > 1}
    heads = Counter(gpu[:_ID_HEAD] for _, gpu in found)

    def place(host: str, gpu: str) -> str:
        label = found.get((host, gpu), "")
        if label and label not in twins:
            return label
        short = gpu[:_ID_HEAD] if heads[gpu[:_ID_HEAD]] == 1 else gpu
        return f"{label.rpartition(' ')[0]} {style.name(short, _ID_WIDTH)}".strip()

    return place


def _part(card: Card, style: Style) -> str:
    if card.mig == Mig.PARENT:
        return " left over"
    if card.mig != Mig.INSTANCE:
        return ""
    _, _, slices = (card.name or "").partition(" MIG ")
    return f" {style.name(slices or card.gpu, _ID_WIDTH)}"
