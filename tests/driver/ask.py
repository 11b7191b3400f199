"""A process with the real nvidia-ml-py on the simulated driver: evaluates what a test sends, and answers in JSON.

As a script it evaluates one expression a line; :class:`Asker` is the test's end. The expressions see nvidia-ml-py's
functions, ``card(INDEX)`` and ``instance(INDEX, MIG_INDEX)`` for handles (those of ``keep`` stay over a change),
``gpm``, ``first_version``, ``reader`` (NvmlReader), and for a call in a thread ``start(EXPRESSION)``, ``done()`` and
``result()``.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pynvml


class RefusedError(Exception):
    """The driver answered a call with ``code``."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Asker:
    """The process; ``ask`` returns a value (structs as dicts), or raises RefusedError or AssertionError."""

    def __init__(self, environment: Mapping[str, str], stderr: Path) -> None:
        self._stderr = stderr
        with stderr.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, expression: str) -> Any:  # noqa: ANN401 - whatever the call answers
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{expression}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the asking process died of {expression}: {self.complaints()}"
        answer = json.loads(line)
        if "code" in answer:
            raise RefusedError(answer["code"])
        assert "value" in answer, f"{expression}: {answer['failed']}"
        return answer["value"]

    def code(self, expression: str) -> int:
        """Return the code with which a call is refused, 0 if it is not."""
        try:
            self.ask(expression)
        except RefusedError as refused:
            return refused.code
        return 0

    def complaints(self) -> str:
        """Return what the driver printed on stderr."""
        return self._stderr.read_text(encoding="utf-8")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def plain(value: object) -> object:
    """Return what JSON can say of a value that nvidia-ml-py answered."""
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if isinstance(value, pynvml.nvmlFriendlyObject):
        return {name: plain(each) for name, each in vars(value).items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, ctypes._SimpleCData):  # noqa: SLF001 - the only base of c_uint and its like
        return value.value
    return value if isinstance(value, int | float | str | dict | None) else repr(value)


class FirstProcessInfo(ctypes.Structure):
    """``nvmlProcessInfo_v1_t``."""

    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))


class Names(dict[str, object]):
    """What expressions see."""

    def __init__(self) -> None:
        super().__init__({name: getattr(pynvml, name) for name in dir(pynvml)})
        self.kept: dict[str, object] = {}
        self.pool = ThreadPoolExecutor()
        self.future: Future[object] | None = None
        own: tuple[Callable[..., object], ...] = (
            self.card,
            self.instance,
            self.keep,
            self.gpm,
            self.memory,
            self.start,
            self.done,
            self.result,
            self.first_version,
            self.reader,
        )
        self.update({function.__name__: function for function in own})

    def card(self, index: int) -> object:
        return self.kept.get(f"card {index}") or pynvml.nvmlDeviceGetHandleByIndex(index)

    def instance(self, index: int, mig_index: int) -> object:
        kept = self.kept.get(f"instance {index} {mig_index}")
        return kept or pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self.card(index), mig_index)

    def keep(self, *indexes: int) -> None:
        """Keep the handles of cards and their first instances from now on; of none: forget the kept ones."""
        self.kept.clear()
        for index in indexes:
            self.kept[f"card {index}"] = pynvml.nvmlDeviceGetHandleByIndex(index)
            try:
                self.kept[f"instance {index} 0"] = self.instance(index, 0)
            except pynvml.NVMLError:
                continue

    def gpm(self, index: int, gpu_instance: int | None, between: Callable[[], object], metric: int = 1) -> object:
        """Return (code, value) of a metric between two samples of a card or of one of its instances."""
        samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        for sample in samples:
            if gpu_instance is None:
                pynvml.nvmlGpmSampleGet(self.card(index), sample)
            else:
                pynvml.nvmlGpmMigSampleGet(self.card(index), gpu_instance, sample)
            if sample is samples[0]:
                between()
        request = pynvml.c_nvmlGpmMetricsGet_t(version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=1)
        request.sample1, request.sample2 = samples
        request.metrics[0].metricId = metric
        answer = pynvml.nvmlGpmMetricsGet(request).metrics[0]
        for sample in samples:
            pynvml.nvmlGpmSampleFree(sample)
        return answer.nvmlReturn, answer.value

    def memory(self, index: int, version: int) -> object:
        return pynvml.nvmlDeviceGetMemoryInfo(self.card(index), version)

    def start(self, expression: str) -> None:
        self.future = self.pool.submit(eval, expression, self)

    def done(self) -> bool:
        assert self.future is not None
        return self.future.done()

    def result(self) -> object:
        assert self.future is not None
        return self.future.result(timeout=5)

    def first_version(self, name: str) -> object:
        """Return (pid, memory) rows of a process list's first version, for which nvidia-ml-py has no function."""
        count = ctypes.c_uint(16)
        rows = (FirstProcessInfo * 16)()
        code = getattr(pynvml.nvmlLib, name)(self.card(0), ctypes.byref(count), rows)
        if code:
            raise pynvml.NVMLError(code)
        return [(row.pid, row.usedGpuMemory) for row in rows[: count.value]]

    def reader(self) -> object:
        """Return what the agent's own reader makes of the cards, and its errors."""
        from fakes.clock import FakeClock  # noqa: PLC0415 - only this question needs the agent
        from gua.nvml.reader import NvmlReader  # noqa: PLC0415 - likewise

        reader = NvmlReader(FakeClock())
        try:
            cards, errors = reader.read()
        finally:
            reader.close()
        return {
            "cards": {
                card.reading.uuid: [
                    card.reading.memory_used_bytes,
                    card.reading.failed,
                    {process.pid: process.memory_bytes for process in card.processes},
                ]
                for card in cards
            },
            "errors": [[error.call, error.code] for error in errors],
        }


def main() -> None:
    names = Names()
    for line in sys.stdin:
        answer: dict[str, object]
        try:
            answer = {"value": plain(eval(line, names))}  # noqa: S307 - the test's own lines
        except pynvml.NVMLError as error:
            answer = {"code": error.value}
        except Exception as error:  # noqa: BLE001 - the test gets any of them
            answer = {"failed": repr(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
