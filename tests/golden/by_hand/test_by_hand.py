"""A report worked out on paper (README.md beside this file) against the command's."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from golden.by_hand.ticks import TICKS
from gua.app import delivery
from servers.gua import Gua

HERE = Path(__file__).resolve().parent
EXPECTED = json.loads((HERE / "expect.json").read_text("utf-8"))

pytestmark = pytest.mark.engine


def differences(found: Any, expected: Any, at: str = "") -> list[str]:  # noqa: ANN401 - any JSON value
    """Return where a report is not what is expected; keys that are not expected are not looked at."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            line for key in expected for line in differences(found.get(key, "missing"), expected[key], f"{at}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        return [
            line
            for number, (one, want) in enumerate(zip(found, expected, strict=True))
            for line in differences(one, want, f"{at}[{number}]")
        ]
    return [] if found == expected else [f"{at} is {found!r}, worked out: {expected!r}"]


def report(address: str, home: Path) -> dict[str, Any]:
    return Gua(home).report(
        address,
        "--since",
        EXPECTED["window"]["since"],
        "--until",
        EXPECTED["window"]["until"],
        "--timezone",
        "Asia/Kolkata",
    )


def test_the_report_is_the_one_worked_out_by_hand(tmp_path: Path) -> None:
    address = f"chdb://{tmp_path / 'store'}"
    delivery.deliver(TICKS, store=address)
    assert differences(report(address, tmp_path), EXPECTED) == []


def test_it_is_so_however_the_ticks_come(tmp_path: Path) -> None:
    address = f"chdb://{tmp_path / 'store'}"
    ticks = TICKS * 3
    random.Random(1).shuffle(ticks)  # noqa: S311 - a fixed order, not a secret
    for first in range(0, len(ticks), 7):
        delivery.deliver(ticks[first : first + 7], store=address)
    assert differences(report(address, tmp_path), EXPECTED) == []
