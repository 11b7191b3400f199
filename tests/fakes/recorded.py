"""A driver that answers as one was recorded by tests/hardware/record.py."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fakes.clock import FakeClock

# How many arguments stand before those that are times.
_BEFORE_TIMES = {"nvmlDeviceGetSamples": 2, "nvmlDeviceGetProcessUtilization": 1, "nvmlGpmMetricsGet": 1}


class RecordedError(Exception):
    """``NVMLError`` with its code."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class RecordedDriver:
    """Gives the recorded answers to each call with the same arguments in order; the last one stays.

    Each ``nvmlInit`` goes on to the answers that were recorded after the next ``nvmlInit``. Of the arguments that say
    since when a value is queried, none counts: those times are this run's. What was not queried while it was
    recorded is FUNCTION_NOT_FOUND, as on an older driver.
    """

    NVMLError: type[Exception] = RecordedError
    nvmlMemory_v2 = 33_554_472  # noqa: N815 - NVML's name

    def __init__(self, path: Path) -> None:
        self._sessions: list[dict[str, deque[dict[str, Any]]]] = [defaultdict(deque)]
        with path.open(encoding="utf-8") as file:
            self.about: dict[str, Any] = json.loads(file.readline())
            for line in file:
                entry = json.loads(line)
                if entry["call"] == "nvmlInit":
                    self._sessions.append(defaultdict(deque))
                self._sessions[-1][_key(entry["call"], entry["arguments"])].append(entry)
        self.clock = FakeClock(wall_ms=self.about["unix_ms"])
        """The time of the last answer, when it was recorded."""

    @staticmethod
    def c_nvmlGpmMetricsGet_t() -> SimpleNamespace:  # noqa: N802 - NVML's name
        return SimpleNamespace(metrics=[SimpleNamespace()])

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it answers
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: object) -> object:
            if name == "nvmlInit":
                self._sessions.pop(0)
            answers = self._sessions[0].get(_key(name, arguments))
            if not answers:
                raise RecordedError(13)
            entry = answers.popleft() if len(answers) > 1 else answers[0]
            self.clock.advance(max(0, self.about["unix_ms"] + entry["ms"] - self.clock.wall))
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
    return json.dumps([call, *list(arguments)[: _BEFORE_TIMES.get(call)]], default=lambda _: "struct")


def _object(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _object(each) for name, each in value.items()})
    return [_object(each) for each in value] if isinstance(value, list) else value
