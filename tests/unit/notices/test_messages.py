"""Notices, summaries and tables as text and HTML, and templates of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fakes.idle_notice import HOSTILE, SETTING, SINCE_MS, card, hostile, idle, notice
from gua.core.errors import DataError, GuaError, UnavailableError, UsageError
from gua.core.moments import zone
from gua.notices.held import HeldState, HolderKind
from gua.notices.messages import (
    MOST_ROWS,
    TEMPLATE_NAMES,
    Message,
    MessageSettings,
    NextStep,
    moment,
    notice_message,
    read_template,
    span,
    summary_message,
    table_message,
)

REMINDER = NextStep(what="a reminder", at_ms=SINCE_MS + 11_400_000 + 8 * 3_600_000)


class Tags(HTMLParser):
    """The elements of an HTML text; attributes count as such."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}


def text_and_html(message: Message) -> str:
    assert message.html is not None
    return f"{message.subject}\n---\n{message.text}---\n{message.html}"


def test_a_notice_is_the_one_kept(golden: Callable[[str, str], None]) -> None:
    held = idle(job="4711", job_name="train-big", pod="team-a/train-0", container_id="0123456789abcdef")
    golden("notices/notice.txt", text_and_html(notice_message(notice(held), SETTING, next_step=REMINDER)))


def test_a_summary_is_the_one_kept(golden: Callable[[str, str], None]) -> None:
    several = [
        notice(idle(program="python")),
        notice(idle(cards=(card(3, "node2"),), program="jupyter-lab", pid=815, idle_ms=93_600_000)),
        notice(idle(cards=(card(0, "node3"),), state=HeldState.EMPTY, program=None, pid=None, job="99")),
    ]
    golden("notices/summary.txt", text_and_html(summary_message(several, SETTING)))


def test_a_hostile_notice_is_the_one_kept(golden: Callable[[str, str], None]) -> None:
    golden("notices/hostile.txt", text_and_html(notice_message(hostile(), SETTING, next_step=REMINDER)))


def test_hostile_names_add_no_element_line_or_control_character() -> None:
    setting = replace(SETTING, sender=HOSTILE, contact=HOSTILE)
    tame = notice_message(notice(idle(job="1", job_name="x", pod="x")), SETTING, next_step=REMINDER)
    for message in (
        notice_message(hostile(), setting, next_step=replace(REMINDER, what=HOSTILE)),
        summary_message([hostile()], setting),
        table_message(HOSTILE, (HOSTILE,), [(HOSTILE,)], (HOSTILE,)),
    ):
        assert message.subject.isprintable()
        assert all(line.isprintable() for line in message.text.splitlines())
        assert len(message.text.splitlines()) <= len(tame.text.splitlines())
        assert message.html is not None
        assert Tags(message.html).found <= {"p", "b", "table", "cellpadding", "tr", "th", "td"}


def test_the_subject_begins_with_the_number_and_is_short() -> None:
    assert notice_message(notice(), SETTING).subject == "2 GPUs idle for 3 h 10 min on node1"
    long = notice_message(notice(idle(cards=(card(0, "n" * 1000),)), reminder=3), SETTING)
    assert long.subject.startswith("Reminder 2: 1 GPU idle for 3 h 10 min on nnn")
    assert len(long.subject) <= 120
    assert len(table_message("x" * 500, ("a",), []).subject) == 120


def test_names_are_shortened_to_80_characters() -> None:
    text = notice_message(notice(idle(program="p" * 500, owner="o" * 500, pid=None)), SETTING).text
    assert max(map(len, text.splitlines())) < 120
    assert "p" * 40 in text


def test_a_notice_has_at_most_20_lines_however_many_cards() -> None:
    cards = tuple(card(index, f"node{index % 40}", name=f"model {index}") for index in range(320))
    held = idle(cards=cards, job="4711", job_name="x", pod="a/b", container_id="c")
    text = notice_message(notice(held), SETTING, next_step=REMINDER).text
    assert len(text.splitlines()) <= 20
    assert "320 GPUs idle for 3 h 10 min on 40 hosts" in text
    assert "and 37 more" in text


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({}, "on node1: kill 4711"),
        ({"job": "4711_3"}, "scancel 4711_3"),
        ({"job": "4711", "pod": "team-a/train-0"}, "kubectl delete pod train-0 -n team-a"),
        ({"pod": "a$(reboot)/b"}, "on node1: kill 4711"),
        ({"pod": "a/b;reboot"}, "on node1: kill 4711"),
        ({"pod": "9f86d081-884c"}, "on node1: kill 4711"),
        ({"job": "1; reboot", "pid": None}, "end the program"),
        ({"kind": HolderKind.ALLOCATION, "state": HeldState.EMPTY, "job": "7", "pid": None}, "on node1: gua release"),
        ({"kind": HolderKind.CARD, "state": HeldState.NO_PROCESS, "pid": None}, "end the program"),
    ],
)
def test_the_command_fits_the_holder_and_has_no_hostile_name(changes: dict[str, object], command: str) -> None:
    assert f"\nTo release: {command}\n" in notice_message(notice(idle(**changes)), SETTING).text


@pytest.mark.parametrize(
    ("state", "headline", "basis"),
    [
        (HeldState.IDLE_HELD, "idle", "utilization by what holds them stayed below 12.5 %"),
        (HeldState.EMPTY, "allocated and empty", "they were allocated, without a process of the owner"),
        (
            HeldState.NO_PROCESS,
            "held without a process",
            "utilization stayed below 12.5 % with memory in use, without a process",
        ),
    ],
)
def test_each_state_has_its_headline_and_basis(state: HeldState, headline: str, basis: str) -> None:
    message = notice_message(notice(idle(state=state)), replace(SETTING, active_percent=12.5))
    assert message.subject == f"2 GPUs {headline} for 3 h 10 min on node1"
    assert f"Basis: gua read the cards every 30 s; since then {basis}" in message.text


def test_what_is_unknown_is_left_out() -> None:
    held = idle(cards=(replace(card(0), index=None, name=None, memory_bytes=None),), owner=None, program=None, pid=None)
    text = notice_message(notice(held), MessageSettings()).text
    assert "Owner:  unknown\n" in text
    assert "Where:  node1 GPU GPU-0c3f2a7e\n" in text
    for word in ("Program", "Memory", "Job", "Pod", "Next", "To keep", "every", "None"):
        assert word not in text


def test_times_have_the_offset_of_their_zone_also_across_dst() -> None:
    berlin = zone("Europe/Berlin")
    assert moment(1_792_888_200_000, berlin) == "2026-10-25 02:30 +02:00"
    assert moment(1_792_891_800_000, berlin) == "2026-10-25 02:30 +01:00"
    assert moment(SINCE_MS, zone("America/New_York")) == "2026-11-28 10:05 -05:00"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 min"),
        (59_999, "0 min"),
        (60_000, "1 min"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (86_460_000, "1 d 1 min"),
    ],
)
def test_a_span_has_its_two_largest_units(milliseconds: int, text: str) -> None:
    assert span(milliseconds) == text


def test_a_summary_counts_a_card_once_and_begins_with_the_longest() -> None:
    message = summary_message([notice(), notice(idle(pid=5, idle_ms=86_400_000))], SETTING)
    assert message.subject == "2 GPUs held without use, the longest for 1 d"
    assert "pid 5 " in message.text.splitlines()[3]


def test_a_long_table_is_cut_and_reports_its_rest() -> None:
    rows = [(f"row {number}", "x") for number in range(MOST_ROWS + 7)]
    message = table_message("57 rows", ("name", "value"), rows, ("the end",))
    assert "row 49 " in message.text
    assert "row 50 " not in message.text
    assert message.text.endswith("\n\nand 7 more\nthe end\n")
    assert message.html is not None
    assert message.html.count("<tr>") == MOST_ROWS + 1


def test_a_template_of_text_replaces_the_message(tmp_path: Path) -> None:
    path = tmp_path / "notice.txt"
    path.write_text("Subject: {owner}: {headline}\nHi {owner}, {{job}} {job}\n{keep}\n")
    message = notice_message(notice(), replace(SETTING, contact=None), template=read_template(path))
    assert message == Message(
        subject="alice: 2 GPUs idle for 3 h 10 min on node1", text="Hi alice, {job} unknown\nunknown\n", html=None
    )


def test_a_template_of_html_escapes_values_and_leaves_the_text(tmp_path: Path) -> None:
    path = tmp_path / "notice.html"
    path.write_text('Subject: {program}\n<h1 title="{program}">{owner}</h1>')
    built_in = notice_message(hostile(), SETTING)
    message = notice_message(hostile(), SETTING, template=read_template(path))
    assert message.text == built_in.text
    assert message.subject.isprintable()
    assert message.html is not None
    assert Tags(message.html).found == {"h1", "title"}


def test_a_hostile_name_with_a_placeholder_is_not_filled_again(tmp_path: Path) -> None:
    path = tmp_path / "notice.txt"
    path.write_text("Subject: x\n{program}")
    message = notice_message(notice(idle(program="{sender}", pid=None)), SETTING, template=read_template(path))
    assert message.text == "{sender}"


def test_every_placeholder_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "notice.txt"
    path.write_text("Subject: x\n" + "\n".join(f"{{{name}}}" for name in TEMPLATE_NAMES))
    held = idle(job="1", pod="a/b")
    text = notice_message(notice(held), SETTING, next_step=REMINDER, template=read_template(path)).text
    assert "unknown" not in text
    assert "{" not in text


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"Subject: x\n\n{nonsense}", UsageError, ":3: {nonsense} is no placeholder: write one of headline, owner"),
        (b"Subject: x\n{owner", UsageError, ":2: { is no placeholder"),
        (b"Subject: x\nowner}", UsageError, ":2: } is no placeholder"),
        (b"Subject: {owner.__class__}\nx", UsageError, ":1: { is no placeholder"),
        (b"Hello\nx", DataError, "must be a line 'Subject: ...', then a text"),
        (b"Subject: x\n \n", DataError, "must be a line 'Subject: ...', then a text"),
        (b"Subject: x\n" + b"x" * 65_536, DataError, "of at most 65536 bytes"),
        (b"Subject: x\n\xff", DataError, "is not UTF-8 text"),
    ],
)
def test_a_wrong_template_is_refused_when_it_is_read(
    tmp_path: Path, content: bytes, error: type[GuaError], message: str
) -> None:
    path = tmp_path / "notice.txt"
    path.write_bytes(content)
    with pytest.raises(error) as caught:
        read_template(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_template_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"notice\.txt cannot be read: No such file"):
        read_template(tmp_path / "notice.txt")
