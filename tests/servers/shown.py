"""The commands that a Markdown file shows, and a shell to run them in: a checkout, a fresh home, no settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from servers.tools import ROOT

_PARTS = re.compile(r"^## (?P<heading>[^\n]+)$|^```(?P<language>\S*)\n(?P<block>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+# .*$")
_COMMANDS = {"sh", "console", "sql"}
_NO_COMMANDS = {"text", "json"}


@dataclass(frozen=True)
class Shown:
    """A command as it stands in a section, without its comment; a whole SQL statement is one."""

    section: str
    text: str
    is_sql: bool = False


def shown_commands(markdown: str) -> Iterator[Shown]:
    """Yield the commands in the blocks of a Markdown text, in their order.

    Raises ValueError for a block in a language that is not known to hold commands or none.
    """
    section = ""
    for part in _PARTS.finditer(markdown):
        if part["heading"]:
            section = part["heading"]
        elif part["language"] == "sql":
            yield Shown(section, part["block"].strip(), is_sql=True)
        elif part["language"] in _COMMANDS:
            for line in part["block"].replace("\\\n", " ").splitlines():
                is_output = part["language"] == "console" and not line.startswith("$ ")
                command = _COMMENT.sub("", line.removeprefix("$ ")).strip()
                if command and not is_output:
                    yield Shown(section, command)
        elif part["language"] not in _NO_COMMANDS:
            msg = f"nothing says whether a block of {part['language'] or 'no language'} holds commands"
            raise ValueError(msg)


@dataclass(frozen=True)
class Shell:
    """A shell of a user who has just checked out the project, with ``gua`` on the path."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    lock: str = field(default_factory=lambda: f"gua-test-{uuid.uuid4().hex[:12]}")

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def checkout(self) -> Path:
        """Where commands run: what they write stays here."""
        return self.folder / "checkout"

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        self.checkout.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in {".env", ".git"}:
                (self.checkout / entry.name).symlink_to(entry)

    def run(self, command: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a line and return what happened, standard error with the output."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GUA_", "OTEL_"))}
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        own = {"HOME": str(self.home), "PATH": path, "GUA_HOST_LOCK": self.lock, "NO_COLOR": "1"}
        own["GUA_ALLOCATION"] = "off"  # a Slurm that runs for another test is not this reader's
        own["GUA_RUN_DIR"] = str(self.folder / "run")
        return subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.checkout,
            env={**inherited, **own, **self.settings, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
