"""What a reservation is declared to be for: the labels of ``gua run`` and ``gua reserve``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gua.core.errors import UsageError
from gua.core.workloads import label_problem

KEYS: Final = ("kind", "model")


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """Return labels by key, of texts like ``model=qwen-32b``. Raises UsageError for one that is none."""
    labels: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or key not in KEYS:
            msg = f"--label {text!r}: give kind=… or model=…, as in --label model=qwen-32b"
            raise UsageError(msg)
        if key in labels:
            msg = f"--label {key} is given twice: give it once"
            raise UsageError(msg)
        problem = label_problem(value)
        if problem is not None:
            msg = f"--label {key}: the {key} {problem}"
            raise UsageError(msg)
        labels[key] = value
    return labels
