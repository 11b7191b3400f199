"""Detection of the model that a process serves, by its arguments; only if the administrator set ``--detect-models``.

Only known options of a few known servers are read. A value that may be anything else than a model's name is rejected;
a path is reduced to its last part. No other argument is stored, and none is logged.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from gua.core.workloads import LONGEST_LABEL, NO_WORK, Work
from gua.procfs.command_line import read_arguments
from gua.procfs.reader import ProcFs

MOST_ANCESTORS: Final = 3
_MOST_REMEMBERED: Final = 4_096
_MOST_ARGUMENTS: Final = 512
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*(?:/[A-Za-z0-9][A-Za-z0-9._+-]*)?")
# A path in the cache of the Hugging Face Hub: …/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f…
_HUB: Final = re.compile(r"(?:^|/)models--([A-Za-z0-9._+-]+?)(?:--([A-Za-z0-9._+-]+))?(?:/|$)")
# Service tokens in the wrong argument, and names of blobs, which do not identify a model.
_SECRET: Final = re.compile(r"(?i)(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|nvapi-|xox[abp]-|akia)[A-Za-z0-9_-]{12,}")
_BLOB: Final = re.compile(r"(?:sha256-)?[0-9a-fA-F]{32,}")
_PATH: Final = ("/", "./", "../", "~")
_PRETRAINED: Final = "--model_args"  # its part pretrained=… is the model


class _Server(NamedTuple):
    """How a server is started, and which options name the model; ``serves``: so does the word after ``serve``."""

    kind: str
    programs: tuple[str, ...]
    modules: tuple[str, ...]
    options: tuple[str, ...]
    serves: bool = False


_SERVERS: Final = (
    _Server("vLLM", ("vllm",), ("vllm.entrypoints",), ("--model",), serves=True),
    _Server("SGLang", ("sglang",), ("sglang.launch_server", "sglang.srt"), ("--model-path", "--model")),
    _Server("lm_eval", ("lm_eval", "lm-eval"), ("lm_eval",), (_PRETRAINED,)),
    _Server(
        "TGI",
        ("text-generation-launcher", "text-generation-server", "text-generation-router"),
        (),
        ("--model-id",),
        serves=True,
    ),
    _Server("llama.cpp", ("llama-server", "llama-cli", "llama-bench"), (), ("-m", "--model")),
    _Server("Ollama", ("ollama",), (), ("--model",)),
)


class ServedModels:
    """Cached detection of the model served by a process, or by up to three ancestors of the same user."""

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs
        self._cached = lru_cache(_MOST_REMEMBERED)(self._look)

    def work(self, pid: int, start_ticks: int, comm: str, uid: int | None) -> Work:
        """Return what a process serves, as far as known; a changed ``comm`` means that it executed another program."""
        return self._cached(pid, start_ticks, comm, uid)

    def _look(self, pid: int, _start_ticks: int, _comm: str, uid: int | None) -> Work:
        for each in self._ancestry(pid, uid):
            work = served(read_arguments(self._procfs.root, each) or ())
            if work.model is not None:
                return work
        return NO_WORK

    def _ancestry(self, pid: int, uid: int | None) -> Iterator[int]:
        yield pid
        for _ in range(MOST_ANCESTORS if uid is not None else 0):
            stat = self._procfs.stat(pid)
            parent = None if stat is None else self._procfs.process(stat.parent)
            if parent is None or parent.uid != uid:
                return
            pid = parent.pid
            yield pid


def served(arguments: Sequence[str]) -> Work:
    """Return the server that these arguments start and its model; :data:`NO_WORK` for any other program."""
    command = _server(arguments[:_MOST_ARGUMENTS])
    if command is None:
        return NO_WORK
    server, rest = command
    model = next(filter(None, map(model_name, _values(server, rest))), None)
    return NO_WORK if model is None else Work(server.kind, model)


def model_name(value: str) -> str | None:
    """Return the model's name, for a path its last part or its Hub name; ``None`` if the value may not be a name."""
    if len(value.encode("utf-8", "replace")) > LONGEST_LABEL and "/" not in value:
        return None
    if any(sign in value for sign in "=:@") or not value.isprintable() or " " in value:
        return None
    hub = _HUB.search(value)
    if hub is not None:
        value = "/".join(filter(None, hub.groups()))
    elif value.startswith(_PATH) or value.count("/") > 1:
        value = value.rstrip("/").rpartition("/")[2]
    if len(value.encode("utf-8", "replace")) > LONGEST_LABEL or not _NAME.fullmatch(value):
        return None
    return None if _SECRET.search(value) or _BLOB.fullmatch(value) else value


def _server(arguments: Sequence[str]) -> tuple[_Server, Sequence[str]] | None:
    """Return the server that these arguments start, directly or through Python, and its own arguments."""
    if not arguments:
        return None
    begin = 0
    if _program(arguments[0]).startswith("python"):
        begin = 1
        while begin < len(arguments) and arguments[begin].startswith("-") and arguments[begin] != "-m":
            begin += 1
        if begin + 1 < len(arguments) and arguments[begin] == "-m":
            module = arguments[begin + 1]
            modules = ((each, name) for each in _SERVERS for name in each.modules)
            server = next((each for each, name in modules if module == name or module.startswith(f"{name}.")), None)
            return None if server is None else (server, arguments[begin + 2 :])
    if begin >= len(arguments):
        return None
    name = _program(arguments[begin])
    server = next((each for each in _SERVERS if name in each.programs), None)
    return None if server is None else (server, arguments[begin + 1 :])


def _values(server: _Server, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the values that may name the model, in their order."""
    if server.serves and len(arguments) > 1 and arguments[0] == "serve" and not arguments[1].startswith("-"):
        yield arguments[1]
    for place, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        after = arguments[place + 1] if place + 1 < len(arguments) else ""
        if option not in server.options:
            continue
        value = value if equals else after
        if option != _PRETRAINED:
            yield value
            continue
        for part in value.split(","):
            key, _, named = part.partition("=")
            if key == "pretrained":
                yield named


def _program(path: str) -> str:
    return path.rpartition("/")[2]
