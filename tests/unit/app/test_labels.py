"""What a reservation is declared to be for."""

from __future__ import annotations

import pytest

from gua.app.reserving import parse_labels
from gua.core.errors import UsageError


def test_kind_and_model_are_read() -> None:
    assert parse_labels(()) == {}
    assert parse_labels(("model=meta-llama/Llama-3.1-8B", "kind=serving")) == {
        "model": "meta-llama/Llama-3.1-8B",
        "kind": "serving",
    }
    assert parse_labels(("model=llama3:8b=q4",)) == {"model": "llama3:8b=q4"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("model",), "--label 'model': give kind=… or model=…"),
        (("team=vision",), "--label 'team=vision': give kind=… or model=…"),
        (("model=",), "--label model: the model is empty"),
        (("kind= x",), "--label kind: the kind is empty, or begins or ends with a blank"),
        (("kind=\x1b[31m",), "--label kind: the kind has characters that cannot be shown"),
        (("model=" + "ä" * 49,), "--label model: the model is longer than 96 bytes"),
        (("model=a", "model=b"), "--label model is given twice"),
    ],
)
def test_what_is_no_label_is_refused_in_one_line(given: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_labels(given)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)
