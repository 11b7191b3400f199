"""A driver that answers as one was recorded by tests/hardware/record.py."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class RecordedError(Exception):
    """``NVMLError`` with its code."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class RecordedDriver:
    """Gives the recorded answers to each call with the same arguments in order; the last one stays.

    Of the arguments only handles count, not the times since when something is asked for: those are this run's. What
    was not asked while it was recorded is FUNCTION_NOT_FOUND, as on an older driver.
    """

    NVMLError: type[Exception] = RecordedError
    nvmlMemory_v2 = 33_554_472  # noqa: N815 - NVML's name

    def __init__(self, path: Path) -> None:
        self._answers: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        self.began_ms = 0
        """The wall clock (Unix ms) at the first reading, which the time stamps in the answers are of."""
        with path.open(encoding="utf-8") as file:
            self.about: dict[str, Any] = json.loads(file.readline())
            for line in file:
                entry = json.loads(line)
                self._answers[_key(entry["call"], entry["arguments"])].append(entry)
                if entry["call"] == "nvmlDeviceGetProcessUtilization" and not self.began_ms:
                    self.began_ms = self.about["unix_ms"] + entry["ms"]

    @staticmethod
    def c_nvmlGpmMetricsGet_t() -> SimpleNamespace:  # noqa: N802 - NVML's name
        return SimpleNamespace(metrics=[SimpleNamespace()])

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it answers
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: object) -> object:
            answers = self._answers.get(_key(name, arguments))
            if not answers:
                raise RecordedError(13)
            entry = answers.popleft() if len(answers) > 1 else answers[0]
            if "error" in entry:
                raise RecordedError(entry["error"])
            if "type" in entry:
                return entry["type"], [bytes.fromhex(row) for row in entry["result"]]
            if name == "nvmlDeviceGetProcessUtilization":
                return [bytes.fromhex(row) for row in entry["result"]]
            return _object(entry["result"])

        call.__name__ = name
        setattr(self, name, call)
        return call


def _key(call: str, arguments: Any) -> str:  # noqa: ANN401 - a list or a tuple
    times = call in {"nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization", "nvmlGpmMetricsGet"}
    return json.dumps([call, *(list(arguments)[:1] if times else arguments)], default=lambda _: "struct")


def _object(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _object(each) for name, each in value.items()})
    return [_object(each) for each in value] if isinstance(value, list) else value
