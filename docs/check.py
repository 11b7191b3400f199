"""Check the Markdown files: every relative link leads somewhere, every shown `gua` command exists with its options.

Run as `.venv/bin/python docs/check.py`; prints one line a fault and exits with 1 if there is any.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GUA = Path(sys.executable).with_name("gua")
_FENCE = re.compile(r"^ *(```+|~~~+) *(\w*)[^\n]*\n(.*?)^ *\1 *$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)>\s]+)>?(?: +\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_SHELL = {"sh", "bash", "shell", "console"}
_ENDS_COMMAND = {"|", "||", "&&", ";", "&", "(", ")", ">", ">>", "<", "2>"}


def markdown_files() -> list[Path]:
    """Return the tracked Markdown files."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a Markdown text."""
    headings = _HEADING.findall(_FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-") for heading in headings}


def broken_links(file: Path, text: str) -> Iterator[str]:
    """Yield a sentence for every relative link that leads nowhere."""
    for target in _LINK.findall(_INLINE_CODE.sub("", _FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (file.parent / path).resolve() if path else file
        if not linked.exists():
            yield f"the link {target} leads to no file"
        elif anchor and linked.suffix == ".md" and anchor not in anchors(linked.read_text()):
            yield f"the link {target} leads to no heading"


def shown_commands(text: str) -> Iterator[list[str]]:
    """Yield the words of every `gua` command in the shell blocks of a Markdown text, without the word gua."""
    for _, language, block in _FENCE.findall(text):
        if language not in _SHELL:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            shown = line.strip()
            if language == "console":
                if not shown.startswith("$ "):
                    continue
                shown = shown.removeprefix("$ ")
            yield from _gua_commands(shown)


def _gua_commands(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _ENDS_COMMAND:
            command.append(word)
            continue
        while command and re.match(r"\w+=", command[0]):
            command.pop(0)
        if command and Path(command[0]).name == "gua":
            yield command[1:]
        command = []


@functools.cache
def help_of(*names: str) -> str | None:
    """Return what `gua NAMES --help` prints, ``None`` if there is no such command."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run([str(GUA), *names, "--help"], capture_output=True, text=True, check=False, env=environment)
    return done.stdout if done.returncode == 0 else None


def wrong_command(words: list[str]) -> str | None:
    """Return what is wrong with a command that the documents show, ``None`` if nothing."""
    names: list[str] = []
    shown = help_of()
    for word in words:
        if not re.fullmatch(r"[a-z][a-z-]*", word) or (deeper := help_of(*names, word)) is None:
            break
        if deeper == shown:
            break
        names.append(word)
        shown = deeper
    title = " ".join(["gua", *names])
    if shown is None or (not names and words and not words[0].startswith("-")):
        return f"there is no command gua {' '.join(words)}"
    options = (word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word))
    for option in options:
        if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", shown):
            return f"{title} has no option {option}"
    return None


def main() -> int:
    """Check all files; return the exit code."""
    faults = []
    for file in markdown_files():
        text = file.read_text()
        found = [*broken_links(file, text), *filter(None, map(wrong_command, shown_commands(text)))]
        faults += [f"{file.relative_to(ROOT)}: {fault}" for fault in found]
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
