"""Parsers of single values of a policy. Each raises UsageError with what is wrong and what to write, not where."""

import difflib
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import date, timedelta, tzinfo
from pathlib import Path
from string import Formatter
from typing import Final, TypeVar

from gua.core.errors import UsageError
from gua.core.moments import WEEKDAYS, begin_ms, parse_duration_ms, parse_moment_ms, zone_name
from gua.core.plaintext import quoted
from gua.notices.channels import check_template
from gua.notices.held import HeldState

COMMAND_PLACEHOLDERS: Final = ("job", "pid", "pod", "host", "owner")
DAY_MINUTES: Final = 1440
_LONGEST_MS: Final = 365 * 86_400_000
_MOST_CHARACTERS: Final = 4096
_MOST_GPU_HOURS: Final = 1_000_000
_YEARS: Final = range(1900, 2200)
_NAME: Final = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)
_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([MGT]iB)", re.ASCII)
_UNITS: Final = {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])", re.ASCII)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOMENT: Final = re.compile(
    _DAY.pattern + r"T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)
_WEEKDAYS: Final = {name: number for number, day in enumerate(WEEKDAYS) for name in (day[:3], day)}
_SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ksh"))
T = TypeVar("T")


def nearest(name: str, known: Collection[str]) -> str:
    """Return the known name nearest to ``name`` as a question, else all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"write one of {', '.join(known)}" if known else "remove it"


def text(value: object) -> str:
    """Return a text that is not empty and has only characters that can be shown, on one line."""
    if not isinstance(value, str):
        raise UsageError("is no text: write a text in quotes")
    if not value.isprintable():
        raise UsageError("has a line break, or a character that cannot be shown: remove it")
    if not value.strip() or len(value) > _MOST_CHARACTERS:
        raise UsageError(f"is empty, or has more than {_MOST_CHARACTERS} characters: write a text, or remove the key")
    return value


def items(parse: Callable[[object], T], least: int = 0) -> Callable[[object], tuple[T, ...]]:
    """Return a parser of lists with ``least`` items or more, each parsed by ``parse``."""

    def parse_all(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise UsageError('is no list: write one, as in ["one", "two"]')
        if len(value) < least:
            raise UsageError("is an empty list, so nothing matches: add an item, or remove the key")
        parsed: list[T] = []
        for number, item in enumerate(value, 1):
            try:
                parsed.append(parse(item))
            except UsageError as error:
                raise UsageError(f"item {number} {error}") from None
        return tuple(parsed)

    return parse_all


texts: Final = items(text)
patterns: Final = items(text, least=1)


def labels(value: object) -> dict[str, tuple[str, ...]]:
    """Return patterns by host label; the value of a label is a pattern, or a list of them."""
    if not isinstance(value, dict) or not value:
        raise UsageError('is no table of labels: write one, as in { team = ["vision"] }')
    return {text(name): patterns([given] if isinstance(given, str) else given) for name, given in value.items()}


def name(value: object) -> str:
    """Return the name of a rule."""
    if not _NAME.fullmatch(text(value)):
        raise UsageError(f"{quoted(value)} is no name of a rule: write a-z, 0-9 and -, at most 64 characters")
    return text(value)


def duration_ms(value: object) -> int:
    """Return a duration [ms] of a year at most."""
    duration = parse_duration_ms(text(value))
    if duration > _LONGEST_MS:
        raise UsageError(f"{quoted(value)} is longer than a year, so it never comes: write a shorter one, as in 8h")
    return duration


def size_bytes(value: object) -> int:
    """Return a size of memory in bytes."""
    match = _SIZE.fullmatch(text(value))
    if match is None:
        raise UsageError(f'{quoted(value)} is no size: write a number and MiB, GiB or TiB, as in "1GiB"')
    return int(float(match[1]) * _UNITS[match[2]])


def whole(value: object, most: int) -> int:
    """Return a whole number from 1 to ``most``."""
    if type(value) is not int or not 1 <= value <= most:
        raise UsageError(f"must be a whole number from 1 to {most}")
    return value


def time_zone(value: object) -> str:
    """Return the IANA name of a time zone in its exact case."""
    try:
        return zone_name(text(value))
    except UsageError as error:
        raise UsageError(str(error).removesuffix(" or local")) from None


def minute_of_day(value: object) -> int:
    """Return a time of the day in minutes after midnight; 24:00 is the end of the day."""
    match = _CLOCK.fullmatch(text(value))
    minute = DAY_MINUTES + 1 if match is None else int(match[1]) * 60 + int(match[2])
    if minute > DAY_MINUTES:
        raise UsageError(f'{quoted(value)} is no time of the day: write hours and minutes, as in "22:00"')
    return minute


def end_ms(value: object, zone: tzinfo) -> int:
    """Return the Unix time [ms] at which a hold ends: a moment, or the end of a date in ``zone``."""
    written = text(value.isoformat() if isinstance(value, date) else value)
    if _DAY.fullmatch(written):
        return begin_ms(_date(written) + timedelta(days=1), zone)
    with suppress(UsageError):
        if _MOMENT.fullmatch(written):
            return parse_moment_ms(written, now_ms=0, timezone=zone)
    known = "2026-12-31 or 2026-12-31T18:00:00+01:00"
    raise UsageError(f"{quoted(written)} is no date, and no moment with an offset: write it as in {known}")


def placeholders(template: str) -> list[str]:
    """Return what stands in braces, where ``{{`` and ``}}`` are braces themselves."""
    try:
        parts = [*Formatter().parse(template)]
    except ValueError:
        raise UsageError("has a brace without its other one: write {{ or }} for a brace itself") from None
    return [f"{field}…" if spec or conversion else field for _, field, spec, conversion in parts if field is not None]


def template(value: object, known: Collection[str]) -> str:
    """Return a text with placeholders among ``known``."""
    for placeholder in placeholders(text(value)):
        if placeholder not in known:
            raise UsageError(f"has the unknown placeholder {quoted(placeholder)}: {nearest(placeholder, known)}")
    return text(value)


def command(value: object, known: Collection[str]) -> tuple[str, ...]:
    """Return arguments with placeholders among ``known``: untrusted names, so never the program or a shell's text."""
    arguments = items(lambda argument: template(argument, known), least=1)(value)
    is_shell = Path(arguments[0]).name in _SHELLS
    for before, argument in zip(("", *arguments), arguments, strict=False):
        is_code = not before or (is_shell and before.startswith("-") and before.endswith("c"))
        if is_code and placeholders(argument):
            raise UsageError("has a placeholder as program or in a shell's text: give it as an argument of its own")
    return arguments


def channel(value: object) -> str:
    """Return the template of a channel's URL. No message has a part of it: it may be secret."""
    check_template(text(value))
    return text(value)


def digest_channel(known: Collection[str]) -> Callable[[object], str]:
    """Return a parser of channels of digests, with placeholders among ``known``; terminals need an owner."""

    def parse(value: object) -> str:
        given = channel(value)
        if others := sorted(check_template(given) - {*known}):
            known_here = " and ".join(f"{{{name}}}" for name in known) or "none"
            raise UsageError(f"has {{{others[0]}}}: a digest has {known_here} here")
        if given == "write://" and "owner" not in known:
            raise UsageError("is write://, but this digest has no owner: write another channel")
        return given

    return parse


def gpu_hours(value: object) -> float:
    """Return a number of GPU-hours."""
    if type(value) not in {int, float} or not 0 <= float(str(value)) <= _MOST_GPU_HOURS:
        raise UsageError(f"must be a number of GPU-hours from 0 to {_MOST_GPU_HOURS}")
    return float(str(value))


def states(value: object) -> tuple[HeldState, ...]:
    """Return the states of a rule; the value is one of them or a list."""

    def parse(word: object) -> HeldState:
        if text(word) not in {*HeldState}:
            raise UsageError(f"{quoted(word)} is no state: {nearest(text(word), [*HeldState])}")
        return HeldState(text(word))

    return (parse(value),) if isinstance(value, str) else items(parse, least=1)(value)


def weekdays(value: object) -> frozenset[int]:
    """Return the days of the week, Monday is 0, of a name or a range such as ``mon-fri``."""
    first, dash, last = text(value).lower().partition("-")
    if first not in _WEEKDAYS or (dash and last not in _WEEKDAYS):
        raise UsageError(f"{quoted(value)} is no day of the week: write mon, tue, wed, thu, fri, sat, sun or mon-fri")
    length = (_WEEKDAYS[last] - _WEEKDAYS[first]) % 7 if dash else 0
    return frozenset((_WEEKDAYS[first] + ahead) % 7 for ahead in range(length + 1))


def dates(value: object) -> tuple[date, date]:
    """Return the first and the last date of a range such as ``2026-12-27/2027-01-02``, or one date twice."""
    first, slash, last = text(value.isoformat() if type(value) is date else value).partition("/")
    ends = _date(first), _date(last if slash else first)
    if ends[0] > ends[1]:
        raise UsageError(f"{quoted(value)} ends before it begins: write the earlier date first")
    return ends


def _date(written: str) -> date:
    try:
        day = date.fromisoformat(written) if _DAY.fullmatch(written) else date.min
    except ValueError:
        day = date.min
    if day.year not in _YEARS:
        raise UsageError(f"{quoted(written)} is no date from {_YEARS[0]} to {_YEARS[-1]}: write it as in 2026-12-24")
    return day
