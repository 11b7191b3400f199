"""Cards as a grant needs them: who was allocated one by a scheduler, by itself or with the GPU that it is a part of."""

from __future__ import annotations

import pytest

from gua.app.host import Candidates
from gua.core.ports import RawCard
from gua.core.tick import CardReading
from gua.core.words import Mig, ProcessList


class Driver:
    """Answers with one MIG instance that nothing is on."""

    def read(self) -> tuple[list[RawCard], list[object]]:
        reading = CardReading(
            uuid="MIG-1",
            parent="GPU-1",
            index=1,
            mig=Mig.INSTANCE,
            duration_ms=1,
            gpu_time_ms=1,
            memory_used_bytes=0,
            memory_reserved_bytes=0,
            process_list=ProcessList.KNOWN,
        )
        return [RawCard(reading=reading, gpu_fraction=(3, 7), processes=())], []

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("allocated", "refusal"), [("MIG-1", "is ana's"), ("GPU-1", "is ana's"), ("GPU-2", None)])
def test_an_instance_of_a_gpu_that_a_scheduler_gave_to_somebody_is_refused(allocated: str, refusal: str | None) -> None:
    cards = Candidates(Driver(), None, seen_by_host=True)  # type: ignore[arg-type]
    cards.allocated = lambda: {allocated: "is ana's"}
    cards.last_used_ms = lambda: {"MIG-1": 7, "GPU-1": 8}
    (candidate,) = cards.read()
    assert (candidate.refusal, candidate.free_since_ms) == (refusal, 7)
