"""Names of unknown origin on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gua.core.plaintext import UNPRINTABLE, ascii_only, cells, pad, safe


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("python3", "python3"),
        ("\x1b]0;title\x07\x1b[2Jps", "]0;title[2Jps"),
        ("\u202eresu\u2066", "resu"),
        ("a\u200bb\ufeff\u00ad", "ab"),
        ("two\nlines\tand\r\x85more", "two lines and more"),
        ("\ud800broken", "broken"),
        ("e\u0301" + "\u0301" * 50, "e\u0301\u0301"),
        ("训练", "训练"),
        ("\x00\x01", UNPRINTABLE),
        ("", ""),
    ],
)
def test_names_lose_what_a_terminal_would_obey(name: str, shown: str) -> None:
    assert safe(name) == shown


def test_a_name_that_is_too_wide_loses_its_middle() -> None:
    assert safe("gpu-node-017.cluster.example", 12) == "gpu-node…ple"
    assert safe("gpu-node-017.cluster.example", 12, ellipsis="..") == "gpu-nod..ple"


def test_wide_letters_count_twice() -> None:
    assert cells("训练ab") == 6
    assert cells(safe("训练任务的名字", 8)) <= 8
    assert pad("训练", 6) == "训练  "


def test_plain_letters_keep_different_names_different() -> None:
    assert ascii_only("训") != ascii_only("练")
    assert ascii_only("é") == "\\xe9"


@given(st.text(), st.integers(1, 40))
def test_no_name_is_wider_than_its_room_or_breaks_the_line(name: str, width: int) -> None:
    shown = safe(name, width)
    assert cells(shown) <= width
    assert len(shown.splitlines()) <= 1
    assert all(character.isprintable() for character in shown)
