from __future__ import annotations

from gua.report.kit.style import Style
from gua.report.status.text import queue_in_words

STYLE = Style(width=80, unicode=True, colour=False)


def waiting(owner: object, count: object) -> dict[str, object]:
    return {"owner": owner, "count": count}


def test_waiting_requesters_are_named_in_their_order() -> None:
    assert queue_in_words({}, STYLE) is None
    assert queue_in_words({"queue": []}, STYLE) is None
    assert queue_in_words({"queue": [waiting("ana", 1)]}, STYLE) == "1 waits for cards: ana (1 GPU)"
    four = {"queue": [waiting(name, 2) for name in ("ana", "bo", "cy", "di")]}
    assert queue_in_words(four, STYLE) == ("4 wait for cards: ana (2 GPUs), bo (2 GPUs), cy (2 GPUs) and 1 more")


def test_invalid_queue_entries_of_an_agent_are_sanitized() -> None:
    answer = {"queue": [waiting("a\x1b[2J\nb", "many"), "nonsense", waiting(None, -1)]}
    words = queue_in_words(answer, STYLE)
    assert words is not None
    assert "\x1b" not in words
    assert "\n" not in words
