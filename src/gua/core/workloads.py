"""What kind of work a process is, by its name alone; ``clickhouse/20_rules/workload_kind.part`` says the same."""

from __future__ import annotations

from typing import Final

OTHER: Final = "other"
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


def workload_kind(program: str | None) -> str | None:
    """Return the kind of a process of this name; ``None`` of one without a name."""
    if program is None:
        return None
    return _BY_NAME.get(program) or next((kind for start, kind in _BY_BEGINNING if program.startswith(start)), OTHER)
