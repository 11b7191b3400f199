"""Frames of one compressor after another: each whole, by itself, whatever came before it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gua.state.compression import compress, decompress

RAWS = [bytes([number]) * (1_000 * number) + b"end" for number in range(60)]


def test_each_frame_is_whole_and_alone() -> None:
    for raw in RAWS:
        assert decompress(compress(raw)) == raw


def test_frames_of_several_threads_do_not_mix() -> None:
    with ThreadPoolExecutor(max_workers=4) as workers:
        assert [decompress(blob) for blob in workers.map(compress, RAWS * 4)] == RAWS * 4


def test_what_cannot_be_compressed_does_not_spoil_the_next_frame() -> None:
    not_bytes: Any = [1, 2, 3]
    with pytest.raises(TypeError):
        compress(not_bytes)
    assert decompress(compress(RAWS[5])) == RAWS[5]
