"""HTML that escapes everything by default: a string is text, only what these functions made is markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from gua.core.plaintext import safe

_VOID: Final = frozenset(("meta", "link", "br"))
_SHAPES: Final = frozenset(("rect", "path"))
_LONGEST_TITLE: Final = 200
Value = str | int | float | None


class Markup(str):
    """Text that is HTML already. To join it with a string makes a plain string again, which will be escaped."""

    __slots__ = ()


EMPTY: Final = Markup()


def text(written: str) -> Markup:
    """Return text escaped for an element or a quoted attribute, without control and BiDi characters.

    One space at either end is kept, as sentences are put together from parts.
    """
    if isinstance(written, Markup):
        return written
    if not written or written.isspace():
        return Markup(" " if written else "")
    before, after = (" " if end.isspace() else "" for end in (written[0], written[-1]))
    return Markup(f"{before}{escape(safe(written), quote=True)}{after}")


def join(parts: Iterable[str | None], between: str = "") -> Markup:
    """Return parts side by side, those that are strings escaped, ``None`` left out."""
    return Markup(text(between).join(text(part) for part in parts if part is not None))


def tag(element: str, *children: str | None, **attributes: Value) -> Markup:
    """Return an element with its children and attributes; ``class_`` is ``class``, ``aria_label`` ``aria-label``.

    Attributes of ``None`` are left out.
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
    """Return a name of unknown origin, cut in its middle to ``width`` columns; more of it shows where one points.

    It is isolated, so that right-to-left letters do not move what stands beside it.
    """
    clean = safe(written)
    cut = safe(written, width)
    return tag("bdi", cut or '""', title=safe(written, _LONGEST_TITLE) if cut != clean else None)
