"""Terminal output: width, character set, colour, and the bars and sparklines of all reports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gua.core.plaintext import ascii_only, cells, safe
from gua.report.kit.figures import apportion
from gua.report.states import ACTIVE, IDLE_HELD, STATES, TRULY_IDLE, UNKNOWN, UNOBSERVED

NARROWEST: Final = 20
WIDEST: Final = 140  # longer lines are harder to read

_TERMS_BESIDE_FROM: Final = 44

_SGR: Final = {
    ACTIVE: "32",
    IDLE_HELD: "33",
    TRULY_IDLE: "36",
    UNKNOWN: "35",
    UNOBSERVED: "2",
    "idle": "33",
    "bold": "1",
    "dim": "2",
    "warning": "1;31",
}
_FILL: Final[Mapping[str, str]] = {ACTIVE: "█", IDLE_HELD: "▒", TRULY_IDLE: "·", UNKNOWN: "?", UNOBSERVED: "░"}
_FILL_ASCII: Final[Mapping[str, str]] = {ACTIVE: "#", IDLE_HELD: "=", TRULY_IDLE: ".", UNKNOWN: "?", UNOBSERVED: "_"}
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_HEIGHTS_ASCII: Final = " .:-=+*%#"
_SHADES: Final = "░▒▓█"
_SHADES_ASCII: Final = ".:+#"


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """Columns to fill, whether block characters can be printed, whether colour is requested.

    ``times`` multiplies the number of rows of long tables, 1 in a terminal.
    """

    width: int = 80
    unicode: bool = True
    colour: bool = False
    times: int = 1

    def state(self, line: str, state: str) -> str:
        """Return a line with the first occurrence of a state in its colour."""
        return line.replace(state, self.paint(state, state), 1)

    @property
    def fill(self) -> Mapping[str, str]:
        """Return the fill character of each state in a split bar."""
        return _FILL if self.unicode else _FILL_ASCII

    @property
    def shades(self) -> str:
        """Return four characters from light to dark, one per quarter."""
        return _SHADES if self.unicode else _SHADES_ASCII

    def paint(self, kind: str, text: str) -> str:
        """Return ``text`` in the colour of a state or role; unchanged without colour."""
        return f"\x1b[{_SGR[kind]}m{text}\x1b[0m" if self.colour and text else text

    def name(self, text: str, width: int | None = None) -> str:
        """Return a sanitized name of unknown origin, at most ``width`` columns wide."""
        if self.unicode:
            return safe(text, width)
        return safe(ascii_only(safe(text)), width, ellipsis="..")

    def bar(self, part: float, width: int) -> str:
        """Return a bar that fills ``part`` (0 to 1) of ``width`` columns; a nonzero part shows at least one step."""
        steps = 8 if self.unicode else 1
        units = min(round(part * width * steps), width * steps)
        if part > 0:
            units = max(units, 1)
        full, rest = divmod(units, steps)
        return (_FILL[ACTIVE] * full + _EIGHTHS[rest].strip()) if self.unicode else "#" * full

    def split(self, sizes: Mapping[str, float], width: int) -> str:
        """Return a bar of exactly ``width`` columns split among the states; blank if nothing was observed."""
        parts = apportion([*sizes.values()], width)
        for place, size in enumerate(sizes.values()):
            if size > 0 and parts[place] == 0:  # a state that occurred takes a column from the widest
                parts[place] += 1
                parts[parts.index(max(parts))] -= 1
        return "".join(
            self.paint(state, self.fill[state] * part) for state, part in zip(sizes, parts, strict=True)
        ) + " " * (width - sum(parts))

    def shade(self, part: float | None, width: int) -> str:
        """Return ``width`` columns shaded by ``part`` (0 to 1), blank for 0 and for ``None``."""
        if not part:
            return " " * width
        return self.shades[min(int(part * 4), 3)] * width

    def height(self, part: float) -> str:
        """Return a vertical bar character of height ``part`` (0 to 1), blank for 0; a nonzero part is visible."""
        heights = _HEIGHTS if self.unicode else _HEIGHTS_ASCII
        highest = len(heights) - 1
        return heights[min(max(round(part * highest), part > 0), highest)]

    def title(self, text: str) -> str:
        """Return the heading of a section."""
        return self.paint("bold", text)

    def heading(self, text: str, *, indent: int = 0) -> Iterator[str]:
        """Yield the lines of a heading."""
        return map(self.title, self.wrap(text, indent=indent))

    def warning(self, text: str) -> Iterator[str]:
        """Yield the lines of a warning."""
        return (self.paint("warning", line) for line in self.wrap(f"! {text}", indent=0, hanging=2))

    def wrap(self, text: str, *, indent: int = 2, hanging: int | None = None) -> Iterator[str]:
        """Yield lines of at most the style's width, broken at spaces; a longer word is cut."""
        prefix, line = " " * indent, ""
        later = " " * (indent if hanging is None else hanging)
        for word in text.split(" "):
            room = self.width - len(prefix)
            if line and cells(line) + 1 + cells(word) > room:
                yield prefix + line
                prefix, line, room = later, "", self.width - len(later)
            line = f"{line} {word}" if line else safe(word, room, ellipsis="…" if self.unicode else "..")
        yield prefix + line

    def term(self, label: str, text: str, *, label_width: int = 11) -> Iterator[str]:
        """Yield ``label text`` with the text in a column of its own; below the label on narrow terminals."""
        column = 2 + label_width + 2
        if self.width < _TERMS_BESIDE_FROM:
            for line in self.wrap(label):
                yield self.state(line, label) if label in STATES else line
            yield from self.wrap(text, indent=4)
            return
        painted = self.paint(label, label) if label in STATES else label
        for place, line in enumerate(self.wrap(text, indent=column)):
            yield line if place else f"  {painted}{' ' * (column - 2 - len(label))}{line.lstrip()}"
