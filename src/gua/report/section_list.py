"""The sections of a report by name: which there are, which are shown unless others are chosen.

A section's folder is imported when the section is wanted: of 20 a report has seven unless others are chosen.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cache
from importlib import import_module
from typing import Final

from gua.core.errors import UsageError
from gua.report import old_names
from gua.report import sections as listed
from gua.report.section import AnySection, Section

ALL: Final = "all"


def sections() -> tuple[AnySection, ...]:
    """Return all sections in their order."""
    return sections_of(listed.LISTED)


def sections_of(names: Container[str]) -> tuple[AnySection, ...]:
    """Return the sections of these names in their order."""
    return tuple(section_named(name) for name in listed.LISTED if name in names)


@cache
def section_named(name: str) -> AnySection:
    """Return the section of this name."""
    folder, declaration = listed.LISTED[name].split(".")
    declared = getattr(import_module(f"{listed.__name__}.{folder}.section"), declaration)
    if not isinstance(declared, Section) or declared.name != name:
        msg = f"{folder}.{declaration} is no Section of the name {name}"
        raise TypeError(msg)
    return declared


def section_names() -> tuple[str, ...]:
    """Return the names of all sections in their order."""
    return tuple(listed.LISTED)


def section_numbers() -> dict[str, int]:
    """Return each section's number, which is the same in every report; a part of a section has that one's."""
    numbers: dict[str, int] = {}
    for section in sections():
        numbers[section.name] = numbers[section.part_of] if section.part_of else len({*numbers.values()}) + 1
    return numbers


def default_sections() -> tuple[str, ...]:
    """Return what a report has if nobody chooses."""
    return tuple(section.name for section in sections() if section.is_default)


def choose_sections(names: Sequence[str]) -> tuple[str, ...]:
    """Return the sections of these names, with or without commas, in their order, each once; the default ones of none.

    ``all`` is every one. Raises UsageError.
    """
    chosen: list[str] = []
    for name in old_names.split(names):
        chosen += section_names() if name == ALL else [check_section("--section", name)]
    return tuple(dict.fromkeys(chosen)) or default_sections()


def check_section(option: str, name: str) -> str:
    """Return the section of a name or another word for it. Raises UsageError, which says what there is."""
    known = section_names()
    found = old_names.SECTIONS.get(name, name.replace("_", "-"))
    if found in known:
        return found
    every = f", and {ALL}" if option == "--section" else ""
    msg = f"there is no section {name!r} for {option}: there are {', '.join(known)}{every}"
    raise UsageError(msg)
