"""Bars of states as SVG: a colour and a pattern each, their figures as text for those who do not see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gua.report.kit.figures import percents
from gua.report.kit.markup import EMPTY, Markup, join, tag
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, States

UNOBSERVED: Final = "unobserved"
CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {ACTIVE: "a", IDLE_HELD: "h", TRULY_IDLE: "t", UNKNOWN: "u", UNOBSERVED: "n"}
)
Part = tuple[str, str, float]  # the class of its fill, what it tells, its size


def patterns() -> Markup:
    """Return the patterns that all bars of a page are filled with: states differ without colour too."""
    return tag(
        "svg",
        tag(
            "defs",
            _pattern("h", 6, "M-1 1l2-2M0 6l6-6M5 7l2-2"),
            _pattern("t", 6, "M1 1.5h1M4 4.5h1"),
            _pattern("u", 6, "M0 0l6 6M6 0l-6 6"),
            _pattern("n", 8, "M-1 7l2 2M0 0l8 8M7-1l2 2"),
        ),
        class_="defs",
        width=0,
        height=0,
        aria_hidden="true",
    )


def _pattern(kind: str, size: int, path: str) -> Markup:
    return tag(
        "pattern",
        tag("rect", width=size, height=size, class_=f"b-{kind}"),
        tag("path", d=path, class_=f"s-{kind}"),
        id=f"p-{kind}",
        width=size,
        height=size,
        patternUnits="userSpaceOnUse",
    )


def swatch(kind: str) -> Markup:
    """Return a small square of a fill, for legends and heads of columns."""
    return tag(
        "svg",
        tag("rect", width="100%", height="100%", class_=f"f-{kind}"),
        class_="swatch",
        aria_hidden="true",
    )


def of_state(state: str) -> Markup:
    """Return a state's name behind its swatch, on one line."""
    return tag("span", swatch(CLASSES[state]), state, class_="state")


def stacked(parts: Sequence[Part], label: str, *, of: float | None = None, class_: str = "bar") -> Markup:
    """Return one bar of parts side by side, as wide as their share of ``of`` (their sum); each tells its figure."""
    total = sum(size for _, _, size in parts) if of is None else of
    return tag("svg", join(_rects(parts, total)), class_=class_, role="img", aria_label=label)


def _rects(parts: Sequence[Part], total: float) -> Iterator[Markup]:
    start = 0.0
    for kind, called, size in parts:
        if size <= 0 or total <= 0:
            continue
        wide = 100 * size / total
        told = (tag("title", called),) if called else ()
        yield tag("rect", *told, x=f"{start:.2f}%", width=f"{wide:.2f}%", height="100%", class_=f"f-{kind}")
        start += wide


def states_bar(states: States, *, of: float) -> Markup:
    """Return the bar of a split; its label has every state's percent."""
    return stacked([(CLASSES[state], "", states[state].gpu_ms) for state in STATES], split_in_words(states), of=of)


def split_in_words(states: States) -> str:
    """Return ``active 21.4 %, idle-held …``, of what was observed."""
    values = [states[state].gpu_ms for state in STATES]
    total = sum(values)
    told = ", ".join(f"{state} {part} %" for state, part in zip(STATES, percents(values), strict=True))
    return told if total else "nothing observed"


def single(kind: str, part: float | None, label: str, *, class_: str = "bar") -> Markup:
    """Return a bar that fills ``part`` (0 to 1) of its width; ``None`` draws nothing."""
    return EMPTY if part is None else stacked([(kind, "", part)], label, of=1.0, class_=class_)
