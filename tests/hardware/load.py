"""A process that loads a card, through the CUDA driver's own library: no toolkit, no PyTorch.

    load.py hold --mib 2048
    load.py compute --mib 256
    load.py burst --mib 256 --busy-ms 100 --period-ms 1000

Uses the first card that CUDA_VISIBLE_DEVICES shows. Prints one line of JSON once the memory is taken and the kernel
ran, then goes on until its standard input ends. The kernel is busy.ptx beside this file.

It ran on an H100 80GB with driver 580.159.04; busy.ptx also compiles with ptxas 13.5 for sm_75 to sm_120.
tests/fakes/cuda.c stands for the card where there is none.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

LIBRARY = "libcuda.so.1"
KERNEL = Path(__file__).with_name("busy.ptx")
MIB = 2**20
# https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
_SCHEDULE_BLOCKING_SYNC = 4
_MULTIPROCESSORS = 16
_THREADS = 256
_BLOCKS_PER_MULTIPROCESSOR = 2
_KERNEL_MS = 50


class CudaError(Exception):
    """A call to the CUDA driver failed."""


class Cuda:
    """The first visible card, with some of its memory taken and the kernel loaded."""

    def __init__(self, memory_bytes: int) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self._call("cuInit", ctypes.c_uint(0))
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, ctypes.c_int(len(name)), device)
        self.name = name.value.decode("utf-8", "replace")
        # To sleep while a kernel runs: the host's processors are others'.
        self._call("cuDevicePrimaryCtxSetFlags_v2", device, ctypes.c_uint(_SCHEDULE_BLOCKING_SYNC))
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        processors = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(processors), ctypes.c_int(_MULTIPROCESSORS), device)
        self._blocks = max(1, processors.value) * _BLOCKS_PER_MULTIPROCESSOR
        self.memory_bytes = max(memory_bytes, self._blocks * _THREADS * 4)
        self._memory = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(self._memory), ctypes.c_size_t(self.memory_bytes))
        self._call("cuMemsetD8_v2", self._memory, ctypes.c_ubyte(0), ctypes.c_size_t(self.memory_bytes))
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(KERNEL.read_bytes()))
        self._kernel = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(self._kernel), module, ctypes.c_char_p(b"busy"))

    def launch(self, milliseconds: float) -> None:
        """Queue a kernel that keeps all multiprocessors busy for so long."""
        nanoseconds = ctypes.c_uint64(round(milliseconds * 1e6))
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(self._memory), ctypes.addressof(nanoseconds))
        one, no_bytes, default_stream = ctypes.c_uint(1), ctypes.c_uint(0), ctypes.c_void_p(None)
        grid = (ctypes.c_uint(self._blocks), one, one)
        block = (ctypes.c_uint(_THREADS), one, one)
        # The driver copies the parameters before it returns.
        self._call(
            "cuLaunchKernel", self._kernel, *grid, *block, no_bytes, default_stream, parameters, ctypes.c_void_p(None)
        )

    def wait(self) -> None:
        """Return once all kernels are done."""
        self._call("cuCtxSynchronize")

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(text))
            msg = f"{name} failed: {(text.value or b'').decode() or code}"
            raise CudaError(msg)


def compute(cuda: Cuda, stop: threading.Event) -> None:
    """Keep the card busy all the time: two kernels at a time, so that hardly any time passes between them."""
    while not stop.is_set():
        cuda.launch(_KERNEL_MS)
        cuda.launch(_KERNEL_MS)
        cuda.wait()


def burst(cuda: Cuda, stop: threading.Event, *, busy_ms: float, period_ms: float) -> None:
    """Keep the card busy for a part of each period."""
    begun = time.monotonic()
    periods = 0
    while not stop.is_set():
        cuda.launch(busy_ms)
        cuda.wait()
        # By the clock, so that what a launch takes does not add up; a period that was missed is left out.
        periods = max(periods + 1, int((time.monotonic() - begun) * 1000 / period_ms))
        stop.wait(max(0.0, begun + periods * period_ms / 1000 - time.monotonic()))


def _set_at_the_end_of_input(stop: threading.Event) -> None:
    sys.stdin.buffer.read()
    stop.set()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Load the first visible card until standard input ends.")
    parser.add_argument("manner", choices=("hold", "compute", "burst"))
    parser.add_argument("--mib", type=int, default=256, help="memory to take")
    parser.add_argument("--busy-ms", type=float, default=100.0)
    parser.add_argument("--period-ms", type=float, default=1000.0)
    given = parser.parse_args(arguments)
    try:
        cuda = Cuda(given.mib * MIB)
        cuda.launch(1)  # what a first launch sets up is there before anybody looks
        cuda.wait()
        ready = {"pid": os.getpid(), "card": cuda.name, "memory_bytes": cuda.memory_bytes}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        stop = threading.Event()
        threading.Thread(target=_set_at_the_end_of_input, args=(stop,), daemon=True).start()
        if given.manner == "hold":
            stop.wait()
        elif given.manner == "compute":
            compute(cuda, stop)
        else:
            burst(cuda, stop, busy_ms=given.busy_ms, period_ms=given.period_ms)
    except (CudaError, OSError) as error:
        sys.stderr.write(f"load.py: {error}\n")
        return 3
    return 0  # the end of the process gives the memory back


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
