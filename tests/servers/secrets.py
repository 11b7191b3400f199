"""Secrets of the processes that hold cards, and a search for them that looks through compression."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from servers.process import poll

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"


def token() -> str:
    """Return letters and digits that stand nowhere else; as many as fit into a process's name."""
    return f"q{secrets.token_hex(7)}"[:15]


@dataclass(frozen=True)
class Holder:
    """A process with secrets in every place that belongs to it; ``comm`` alone may be known."""

    process: subprocess.Popen[bytes]
    comm: str
    secrets: Mapping[str, str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def start_holder(place: Path) -> Holder:
    """Start a process that sleeps, with its own program, directory and open file below ``place``."""
    hidden = {
        name: token() for name in ("argv[0]", "argument", "environment", "directory", "open file", "program's folder")
    }
    comm = token()
    program = place / hidden["program's folder"] / comm
    program.parent.mkdir(parents=True)
    # A process is named after the file that it runs.
    program.symlink_to("/bin/sh")
    directory = place / hidden["directory"]
    directory.mkdir()
    with (place / hidden["open file"]).open("wb") as file:
        process = subprocess.Popen(
            [hidden["argv[0]"], "-c", "read -r _ || :", "sh", f"--password={hidden['argument']}"],
            executable=program,
            cwd=directory,
            env={"PATH": os.defpath, "HF_TOKEN": hidden["environment"]},
            stdin=subprocess.PIPE,
            pass_fds=(file.fileno(),),
        )
    values = [hidden["argv[0]"], hidden["argument"], hidden["environment"], comm]
    poll(lambda: all(each.encode() in _shown(process.pid) for each in values), "the kernel to tell what to hide")
    return Holder(process, comm, hidden)


def start_server(place: Path) -> Holder:
    """Start what looks like a server of a model; ``comm`` is the model's name, which may be known where that is on."""
    hidden = {name: token() for name in ("key", "folder of the model", "host of the model")}
    model = token()
    program = place / "vllm"
    program.write_text(f"#!{sys.executable} -S\nimport sys; sys.stdin.read()\n")
    program.chmod(0o755)
    process = subprocess.Popen(
        [
            *(program, "serve", f"/data/{hidden['folder of the model']}/{model}"),
            *("--api-key", hidden["key"], f"--model=s3://{hidden['host of the model']}/m"),
        ],
        env={"PATH": os.defpath},
        stdin=subprocess.PIPE,
    )
    poll(lambda: model.encode() in _shown(process.pid), "the kernel to tell what to hide")
    return Holder(process, model, hidden)


def _shown(pid: int) -> bytes:
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ", "comm"))


def unpacked(data: bytes) -> Iterator[bytes]:
    """Yield bytes as they are, and what every zstd frame in them holds, wherever it begins."""
    yield data
    start = data.find(_ZSTD_FRAME)
    while start >= 0:
        with contextlib.suppress(zstd.ZstdError, EOFError):
            yield zstd.ZstdDecompressor().decompress(data[start:])
        start = data.find(_ZSTD_FRAME, start + 1)


def places_of(text: str, evidence: Mapping[str, bytes]) -> list[str]:
    """Return the names of what holds a text, openly or compressed."""
    wanted = text.encode()
    return [name for name, data in evidence.items() if any(wanted in part for part in unpacked(data))]


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every file in a folder by its name, and the names of all as one more."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    return {**found, "names": "\n".join(found).encode("utf-8", "surrogateescape")}
