"""Text and HTML of notices, of a summary of notices, and of any table, as mail, chat and terminals take them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from html import escape
from pathlib import Path
from typing import Final

from gua.core.errors import DataError, UnavailableError, UsageError
from gua.core.moments import local_time
from gua.core.plaintext import aligned, few, safe
from gua.notices.held import Held, HeldState, HolderKind, Notice

LONGEST_NAME: Final = 80
LONGEST_SUBJECT: Final = 120
MOST_ROWS: Final = 50
_LONGEST_CELL: Final = 240
_MOST_BYTES: Final = 65_536
_BRACES: Final = re.compile(r"\{\{|\}\}|\{([a-z_]*)\}|[{}]")
_JOB: Final = re.compile(r"[0-9][0-9_+]*", re.ASCII)
_POD: Final = re.compile(r"([a-z0-9][a-z0-9.-]*)/([a-z0-9][a-z0-9.-]*)", re.ASCII)

TEMPLATE_NAMES: Final = (
    *("headline", "owner", "program", "where", "job", "pod", "since", "memory"),
    *("basis", "free", "keep", "next", "sender", "idle", "rule", "step"),
)
"""Placeholders of a template: parts of the built-in message by their order, time without use, rule and step.

``headline`` is the number of GPUs and the time, ``basis`` what was read, ``free`` and ``keep`` are what to do. What is
unknown becomes ``unknown``.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message to one recipient: a subject of one line, plain text, and the same as HTML if it has that form."""

    subject: str
    text: str
    html: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageSettings:
    """What messages need besides the notice: time zone, interval of readings [s], threshold of utilization [%].

    ``sender`` is who sends them, ``contact`` where to request a hold; both come from the policy.
    """

    timezone: tzinfo = UTC
    interval_seconds: float | None = None
    active_percent: float = 10
    sender: str = "gua"
    contact: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """What is sent or done next, as in ``a reminder``, and when at the earliest (Unix ms)."""

    what: str
    at_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A message's template: a subject, and a body with placeholders in braces; ``{{`` and ``}}`` are braces."""

    subject: str
    body: str
    is_html: bool

    def fill(self, message: Message, values: Mapping[str, str]) -> Message:
        """Return the message by this template; of one in HTML, values are escaped and the text is the message's."""
        subject = safe(_filled(self.subject, values), LONGEST_SUBJECT)
        if not self.is_html:
            return Message(subject=subject, text=_filled(self.body, values))
        escaped = {name: escape(value) for name, value in values.items()}
        return Message(subject=subject, text=message.text, html=_filled(self.body, escaped))


def moment(unix_ms: int, timezone: tzinfo) -> str:
    """Return a time with its offset: ``2026-11-28 14:05 +01:00``."""
    local = local_time(unix_ms, timezone)
    return f"{local:%Y-%m-%d %H:%M} {local.isoformat()[19:]}"


def span(milliseconds: int) -> str:
    """Return a duration in its two largest units, rounded down: ``3 h 10 min``."""
    minutes = milliseconds // 60_000
    units = ((minutes // 1440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    return " ".join([f"{number} {unit}" for number, unit in units if number][:2]) or "0 min"


def notice_message(
    notice: Notice, setting: MessageSettings, *, next_step: NextStep | None = None, template: Template | None = None
) -> Message:
    """Return the message of one notice: number and time first, at most 20 lines of text."""
    values = _values(notice, setting, next_step)
    again = f"Reminder {notice.reminder - 1}: " if notice.reminder > 1 else ""
    rows = [(f"{name.capitalize()}:", values[name]) for name in TEMPLATE_NAMES[1:8] if values[name]]
    lines = [values[name] for name in TEMPLATE_NAMES[8:13]]
    message = _laid_out(f"{again}{values['headline']}", rows, lines, head="td")
    return template.fill(message, values) if template else message


def summary_message(notices: Sequence[Notice], setting: MessageSettings) -> Message:
    """Return one message of several notices of an owner: GPU, holder, time without use, and its begin."""
    held = sorted((notice.held for notice in notices), key=lambda one: -one.idle_ms)
    cards = {(card.host, card.gpu) for one in held for card in one.cards}
    headline = f"{_count(cards)} held without use, the longest for {span(held[0].idle_ms)}"
    rows = [(_where(one), _holder(one), span(one.idle_ms), moment(one.since_ms, setting.timezone)) for one in held]
    lines = ("Please free what you do not need.", _keep(setting), _sender(setting))
    return table_message(headline, ("GPU", "held by", "unused for", "since"), rows, lines)


def table_message(
    headline: str, titles: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[str] = ()
) -> Message:
    """Return a message of a headline, which is also the subject, a table of at most 50 rows, and lines below it."""
    more = f"and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return _laid_out(headline, [titles, *rows[:MOST_ROWS]], [more, *lines], head="th")


def _laid_out(headline: str, rows: Sequence[Sequence[str]], lines: Sequence[str], *, head: str) -> Message:
    """Return a message; the cells of the table's first row are elements ``head``."""
    first = f"{safe(headline)}."
    cells = [[safe(cell, _LONGEST_CELL) for cell in row] for row in rows]
    last = [safe(line) for line in lines if line]
    html = [f"<p><b>{escape(first)}</b></p>", '<table cellpadding="4">']
    for number, row in enumerate(cells):
        tag = "td" if number else head
        html.append(f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>")
    html += ["</table>", *(f"<p>{escape(line)}</p>" for line in last), ""]
    text = [first, "", *aligned(cells), "", *last, ""]
    return Message(subject=safe(headline, LONGEST_SUBJECT), text="\n".join(text), html="\n".join(html))


def _values(notice: Notice, setting: MessageSettings, next_step: NextStep | None) -> dict[str, str]:
    """Return the values of the placeholders, safe to print; empty if unknown."""
    held = notice.held
    idle, size = span(held.idle_ms), held.memory_bytes
    kinds = {HeldState.EMPTY: "allocated and empty", HeldState.NO_PROCESS: "held without a process"}
    container = held.container_id and f"container {_name(held.container_id[:12])}"
    next_ms = moment(next_step.at_ms, setting.timezone) if next_step else ""
    return {
        "headline": f"{_count(held.cards)} {kinds.get(held.state, 'idle')} for {idle} on {_host(held)}",
        "owner": _name(held.owner) or "unknown",
        "program": _program(held),
        "where": _where(held),
        "job": " ".join(filter(None, (_name(held.job), held.job_name and f"({_name(held.job_name)})"))),
        "pod": ", ".join(filter(None, (_name(held.pod), container))),
        "since": f"{moment(held.since_ms, setting.timezone)}, unused for {idle}",
        "memory": "" if size is None else f"{size / 2**30:.1f} GiB",
        "basis": _basis(held, setting),
        "free": _free(held),
        "keep": _keep(setting),
        "next": f"Next: {_name(next_step.what)}, at {next_ms} at the earliest." if next_step else "",
        "sender": _sender(setting),
        "idle": idle,
        "rule": _name(notice.rule),
        "step": str(notice.step),
    }


def _name(text: str | None) -> str:
    return safe(text or "", LONGEST_NAME)


def _count(cards: Sequence[object] | set[tuple[str, str]]) -> str:
    return f"{len(cards)} GPU{'s' if len(cards) != 1 else ''}"


def _host(held: Held) -> str:
    return _name(held.host) if len(held.hosts) == 1 else f"{len(held.hosts)} hosts"


def _program(held: Held) -> str:
    return ", ".join(filter(None, (_name(held.program), "" if held.pid is None else f"pid {held.pid}")))


def _holder(held: Held) -> str:
    return _program(held) or _name(f"job {held.job}" if held.job else held.pod) or "-"


def _where(held: Held) -> str:
    """Return a few hosts, each with a few indices of cards, or the begin of their UUIDs, and the models."""
    places = []
    for host in held.hosts:
        names = [
            str(card.index) if card.index is not None else card.gpu[:12] for card in held.cards if card.host == host
        ]
        places.append(f"{_name(host)} GPU {few(names, 8)}")
    models = sorted({_name(card.name) for card in held.cards if card.name})
    return few(places) + (f" ({few(models)})" if models else "")


def _basis(held: Held, setting: MessageSettings) -> str:
    """Return what the numbers rest on, in a sentence."""
    often = f" every {setting.interval_seconds:g} s" if setting.interval_seconds else ""
    low = f"stayed below {setting.active_percent:g} %"
    since = {
        HeldState.IDLE_HELD: f"utilization by what holds them {low}",
        HeldState.EMPTY: "they were allocated, without a process of the owner",
        HeldState.NO_PROCESS: f"utilization {low} with memory in use, without a process in the driver's list",
    }
    return f"Basis: gua read the cards{often}; since then {since[held.state]}."


def _free(held: Held) -> str:
    """Return how the owner frees the cards. Commands have only names that a shell leaves as they are."""
    pod = _POD.fullmatch(held.pod or "")
    command = "end the program"
    if pod:
        command = f"kubectl delete pod {pod[2]} -n {pod[1]}"
    elif held.kind is HolderKind.ALLOCATION:
        command = f"on {_host(held)}: gua release"
    elif held.job and _JOB.fullmatch(held.job):
        command = f"scancel {held.job}"
    elif held.pid is not None:
        command = f"on {_host(held)}: kill {held.pid}"
    return f"To release: {command}"


def _keep(setting: MessageSettings) -> str:
    return f"To keep: request a hold from {_name(setting.contact)}." if setting.contact else ""


def _sender(setting: MessageSettings) -> str:
    return f"Sent by {_name(setting.sender)}."


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _BRACES.sub(lambda found: values[found[1]] or "unknown" if found[1] else found[0][0], template)


def read_template(path: Path) -> Template:
    """Return the template in a file: HTML if it ends in ``.html``; its first line is ``Subject: ...``.

    Raises UsageError for an unknown placeholder, DataError for other wrong contents, UnavailableError if unreadable.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1).decode()
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8 text, or too long: save the template in UTF-8") from None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror}: check the path of this template") from None
    first, _, body = content.partition("\n")
    if len(content) > _MOST_BYTES or not first.startswith("Subject:") or not body.strip():
        raise DataError(f"{path}: must be a line 'Subject: ...', then a text, of at most {_MOST_BYTES} bytes")
    for found in _BRACES.finditer(content):
        if found[0] not in {"{{", "}}"} and found[1] not in TEMPLATE_NAMES:
            where = f"{path}:{content.count(chr(10), 0, found.start()) + 1}"
            known = ", ".join(TEMPLATE_NAMES)
            raise UsageError(f"{where}: {safe(found[0], 40)} is no placeholder: write one of {known} in braces")
    return Template(subject=first.removeprefix("Subject:").strip(), body=body, is_html=path.suffix == ".html")
