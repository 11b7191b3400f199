"""The sections of a report by name, and the default ones.

A section's module is imported only if the section is requested: eight of 20 by default.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Final

from gua.core.errors import UsageError
from gua.report import sections as listed
from gua.report.section import AnySection, Section

ALL: Final = "all"


def sections_of(names: Container[str]) -> tuple[AnySection, ...]:
    """Return the sections of these names, in report order."""
    return tuple(section_named(name) for name in listed.LISTED if name in names)


@cache
def section_named(name: str) -> AnySection:
    """Return the section of this name. Raises KeyError for an unknown name, TypeError for a wrong declaration."""
    module, declaration = listed.LISTED[name].module, f"{name.upper().replace('-', '_')}_SECTION"
    declared = getattr(import_module(f"{listed.__name__}.{module}"), declaration)
    if not isinstance(declared, Section) or declared.name != name:
        raise TypeError(f"{module}.{declaration} is no Section of the name {name}")
    return declared


def section_names() -> tuple[str, ...]:
    """Return the names of all sections, in report order."""
    return tuple(listed.LISTED)


def section_numbers() -> dict[str, int]:
    """Return each section's number, the same in every report; a part of a section has that section's number."""
    numbers: dict[str, int] = {}
    for name, one in listed.LISTED.items():
        numbers[name] = numbers[one.part_of] if one.part_of else len({*numbers.values()}) + 1
    return numbers


def is_part_of(name: str, others: Container[str]) -> bool:
    """Return whether a section is a part of one of the others and shares its number."""
    return listed.LISTED[name].part_of in others


def default_sections() -> tuple[str, ...]:
    """Return the names of the default sections."""
    return tuple(name for name, one in listed.LISTED.items() if one.is_default)


def choose_sections(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the requested sections, comma-separated or not, each once; the default ones if empty.

    ``all`` selects every section. Raises UsageError for an unknown name.
    """
    chosen: list[str] = []
    for name in split(names):
        chosen += section_names() if name == ALL else [check_section("--section", name)]
    return tuple(dict.fromkeys(chosen)) or default_sections()


def check_section(option: str, name: str) -> str:
    """Return the name of a section, with ``_`` read as ``-``. Raises UsageError, listing all names, if unknown."""
    known = section_names()
    found = name.replace("_", "-")
    if found in known:
        return found
    every = f", and {ALL}" if option == "--section" else ""
    near = get_close_matches(found, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"there is no section {name!r} for {option}: there are {', '.join(known)}{every}{hint}")


def split(words: Iterable[str]) -> Iterator[str]:
    """Yield the words of an option that may be repeated or comma-separated, as in ``now,usage``."""
    for several in words:
        yield from filter(None, map(str.strip, several.split(",")))
