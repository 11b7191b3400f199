"""Make untrusted text (process and user names, hosts, file contents) safe to print on a terminal."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

MOST_CHARACTERS: Final = 256
_QUOTED: Final = 60
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# Control, format (all BiDi controls, zero-width characters), surrogate, private, unassigned, line and paragraph ends.
_REMOVED = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_NO_WIDTH = frozenset(("Mn", "Me"))
_MARKS_PER_LETTER = 2
UNPRINTABLE = "(unprintable)"


def cells(text: str) -> int:
    """Return the width of ``text`` in terminal columns; it must be cleaned by :func:`safe`."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def safe(text: str, width: int | None = None, *, ellipsis: str = "…") -> str:
    """Return ``text`` on one line without control and BiDi characters, at most ``width`` columns wide.

    White space becomes single spaces. Text that is too wide is cut in the middle, because names often differ only at
    their end. Text without a printable character becomes ``(unprintable)``, to be distinct from empty text.
    """
    clean = _clean(text)
    if text and not clean:
        clean = UNPRINTABLE
    if width is None or cells(clean) <= width:
        return clean
    room = width - len(ellipsis)
    if room < 1:
        return _head(clean, width)
    tail_room = room // 3
    tail = _head(clean[::-1], tail_room)[::-1] if tail_room else ""
    while tail and unicodedata.category(tail[0]) in _NO_WIDTH:
        tail = tail[1:]
    return _head(clean, room - cells(tail)) + ellipsis + tail


def quoted(text: object) -> str:
    """Return text in quotes, on one line and short, for a message."""
    return f"'{safe(str(text), _QUOTED)}'"


def storable(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return text that every backend can store: no NUL, no lone surrogates, at most ``most`` characters.

    Process names are untrusted and may hold any byte. Python decodes bytes that are not UTF-8 as lone surrogates.
    Each of these characters becomes U+FFFD.
    """
    return _UNSTORABLE.sub("\ufffd", text[:most])


def few(names: Sequence[str], most: int = 3) -> str:
    """Return the first ``most`` names, comma-separated, and the number of the others."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def pad(text: str, width: int) -> str:
    """Return ``text`` padded with spaces on the right to ``width`` columns."""
    return text + " " * (width - cells(text))


def pad_left(text: str, width: int) -> str:
    """Return ``text`` padded with spaces on the left to ``width`` columns."""
    return " " * (width - cells(text)) + text


def aligned(rows: Sequence[Sequence[str]], pads: Sequence[Callable[[str, int], str]] | None = None) -> list[str]:
    """Return rows of cells as lines, each column padded to its widest cell by its function, two spaces apart."""
    columns = [
        [padded(cell, max(map(cells, column))) for cell in column]
        for column, padded in zip(zip(*rows, strict=True), pads or repeat(pad), strict=False)
    ]
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def ascii_only(text: str) -> str:
    r"""Return ``text`` with non-ASCII characters as ``\xe9`` or ``\u4e2d``, so that names stay distinct."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _clean(text: str) -> str:
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    cleaned: list[str] = []
    marks = 0
    for character in " ".join(text.split()):
        category = unicodedata.category(character)
        if category in _REMOVED:
            continue
        marks = marks + 1 if category in _NO_WIDTH else 0
        if marks <= _MARKS_PER_LETTER:  # stacked marks overwrite the lines above and below
            cleaned.append(character)
    return " ".join("".join(cleaned).split())


def _character_width(character: str) -> int:
    if unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _head(text: str, width: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:position]
    return text
