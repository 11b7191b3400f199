"""What kind of work a process does and which model it serves: by its name, as declared, or as detected.

By its name alone ``clickhouse/20_rules/workload_kind.part`` says the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

OTHER: Final = "other"
SEVERAL: Final = "several"
"""The model of an allocation whose processes serve more than one."""
LONGEST_LABEL: Final = 96
"""How long a declared kind or model may be, in bytes of UTF-8."""
# A process's name has 15 bytes: VLLM::EngineCor, sglang::schedul.
_BY_BEGINNING: Final = (
    ("VLLM::", "vLLM"),
    ("sglang::", "SGLang"),
    ("ollama", "Ollama"),
    ("llama-", "llama.cpp"),
    ("tritonserver", "Triton"),
    ("text-generation", "TGI"),
    ("jupyter", "Jupyter"),
    ("python", "Python"),
)
_BY_NAME: Final = {"vllm": "vLLM", "sglang": "SGLang"}
_RANKS: Final = {kind: rank for rank, (_, kind) in enumerate((*_BY_BEGINNING, ("", OTHER)))}
_DECLARED: Final = re.compile(r"(?:^|[\s,;])gua\.(kind|model)=([^\s,;=]+)")


class Work(NamedTuple):
    """A kind of work and the model that is served; ``None`` is unknown, or none."""

    kind: str | None = None
    model: str | None = None


NO_WORK: Final = Work()


def workload_kind(program: str | None) -> str | None:
    """Return the kind of a process of this name; ``None`` of one without a name."""
    if program is None:
        return None
    return _BY_NAME.get(program) or next((kind for start, kind in _BY_BEGINNING if program.startswith(start)), OTHER)


def together(workloads: Iterable[Work]) -> Work:
    """Return what processes of one owner are together.

    Of several kinds the one that stands first among those of :func:`workload_kind`, one that somebody declared before
    all of them: a server beside its Python helpers is a server. Of several models: :data:`SEVERAL`.
    """
    found = list(workloads)
    kinds = {each.kind for each in found if each.kind is not None}
    models = {each.model for each in found if each.model is not None}
    return Work(
        min(kinds, key=lambda kind: (_RANKS.get(kind, -1), kind), default=None),
        None if not models else models.pop() if len(models) == 1 else SEVERAL,
    )


def label_problem(value: str) -> str | None:
    """Return why a value cannot be a declared kind or model, ``None`` where it can."""
    if not value or value != value.strip():
        return "is empty, or begins or ends with a blank"
    if not value.isprintable():
        return "has characters that cannot be shown"
    if len(value.encode("utf-8", "replace")) > LONGEST_LABEL:
        return f"is longer than {LONGEST_LABEL} bytes"
    return None


def declared(labels: Mapping[str, object]) -> Work:
    """Return what labels named ``kind`` and ``model`` declare; what can be none is left out."""
    kind, model = (
        value if isinstance(value, str) and label_problem(value) is None else None
        for value in (labels.get("kind"), labels.get("model"))
    )
    return Work(kind, model)


def declared_in(text: str | None) -> Work:
    """Return what the words ``gua.kind=…`` and ``gua.model=…`` in a job's name or comment declare."""
    return NO_WORK if text is None or "gua." not in text else declared(dict(_DECLARED.findall(text)))
