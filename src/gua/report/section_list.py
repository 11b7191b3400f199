"""The sections of a report by name: which there are, which are shown unless others are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Final

from gua.core.errors import UsageError
from gua.report import old_names
from gua.report import sections as listed
from gua.report.old_names import check_name
from gua.report.section import AnySection, Section

ALL: Final = "all"


@cache
def sections() -> tuple[AnySection, ...]:
    """Return all sections in their order."""
    return tuple(_declared(*place.split(".")) for place in listed.LISTED)


def section_named(name: str) -> AnySection:
    """Return the section of this name."""
    return next(section for section in sections() if section.name == name)


def section_names() -> tuple[str, ...]:
    """Return the names of all sections in their order."""
    return tuple(section.name for section in sections())


def default_sections() -> frozenset[str]:
    """Return what a report has if nobody chooses; the basis always comes with it."""
    return frozenset(section.name for section in sections() if section.is_default)


def choose_sections(names: Sequence[str]) -> frozenset[str]:
    """Return the sections of these names (``all``: every one), the default ones of none. Raises UsageError."""
    if not names:
        return default_sections()
    for name in names:
        if name != ALL:
            check_section("--section", name)
    return frozenset(section_names() if ALL in names else names)


def check_section(option: str, name: str) -> None:
    """Raise UsageError for a name that no section has; it says what there is."""
    known = section_names()
    if name in known:
        return
    check_name(option, name, old_names.SECTIONS)
    every = f", and {ALL}" if option == "--section" else ""
    msg = f"there is no section {name!r} for {option}: there are {', '.join(known)}{every}"
    raise UsageError(msg)


def _declared(folder: str, name: str) -> AnySection:
    declared = getattr(import_module(f"{listed.__name__}.{folder}.section"), name)
    if not isinstance(declared, Section):
        msg = f"{folder}.{name} is no Section"
        raise TypeError(msg)
    return declared
