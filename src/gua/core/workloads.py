"""Kind of work and served model of a process: by its name, as declared, or as detected.

``clickhouse/40_report/3_streaks/05_usage.sql`` has the same mapping from process names to kinds in SQL.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

OTHER: Final = "other"
SEVERAL: Final = "several"
"""Model of an allocation whose processes serve more than one."""
LONGEST_LABEL: Final = 96
"""Longest declared kind or model, in bytes of UTF-8."""
# Process names have at most 15 bytes: VLLM::EngineCor, sglang::schedul.
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
    """A kind of work and a served model; ``None`` is unknown, or none."""

    kind: str | None = None
    model: str | None = None


NO_WORK: Final = Work()


def workload_kind(program: str | None) -> str | None:
    """Return the kind of work for a process name; ``None`` without a name."""
    if program is None:
        return None
    return _BY_NAME.get(program) or next((kind for start, kind in _BY_BEGINNING if program.startswith(start)), OTHER)


def together(workloads: Iterable[Work]) -> Work:
    """Return the combined work of the processes of one owner.

    Of several kinds, a declared one comes first, then the order of :func:`workload_kind`: a server with Python helpers
    counts as a server. Several models become :data:`SEVERAL`.
    """
    known = list(workloads)
    kinds = {each.kind for each in known if each.kind is not None}
    models = {each.model for each in known if each.model is not None}
    return Work(
        min(kinds, key=lambda kind: (_RANKS.get(kind, -1), kind), default=None),
        None if not models else models.pop() if len(models) == 1 else SEVERAL,
    )


def label_problem(value: str) -> str | None:
    """Return why a value is invalid as a declared kind or model, ``None`` if it is valid."""
    if not value or value != value.strip():
        return "is empty, or begins or ends with a blank"
    if not value.isprintable():
        return "has characters that cannot be shown"
    if len(value.encode("utf-8", "replace")) > LONGEST_LABEL:
        return f"is longer than {LONGEST_LABEL} bytes"
    return None


def declared(labels: Mapping[str, object]) -> Work:
    """Return the work declared by the labels ``kind`` and ``model``; invalid values are ignored."""
    kind, model = (
        value if isinstance(value, str) and label_problem(value) is None else None
        for value in (labels.get("kind"), labels.get("model"))
    )
    return Work(kind, model)


def declared_in(text: str | None) -> Work:
    """Return the work declared by ``gua.kind=…`` and ``gua.model=…`` in a job's name or comment."""
    return NO_WORK if text is None or "gua." not in text else declared(dict(_DECLARED.findall(text)))
