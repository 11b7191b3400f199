"""Check that names and texts use the words of docs/glossary.md: `.venv/bin/python docs/check_words.py`.

Prints each listed word that it finds in src, clickhouse, docs, README.md or CONTRIBUTING.md with what to write instead,
and exits with 1. Names are split at underscores and capitals: ``told_ms`` has the word ``told``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PLACES: Final = ("src", "clickhouse", "docs", "README.md", "CONTRIBUTING.md")
WORDS: Final = {
    "told": "reported, known or sampled",
    "untold": "unknown or not sampled",
    "tells": "reports, returns or has",
    "telling": "reporting",
    "asked": "requested or queried",
    "asking": "requesting or querying",
    "unasked": "by default",
    "said": "printed, reported or warned",
    "promise": "allocation",
    "promises": "allocations",
    "promised": "allocated",
    "unpromised": "unallocated",
    "whom": "the role, such as owner or holder",
    "of which": "a sentence of its own",
}
ALLOWED: Final = {"docs/check_words.py": set(WORDS)}
"""By file: words that it may have."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_PHRASE: Final = re.compile(r"\bof which\b", re.IGNORECASE)


def files() -> list[Path]:
    """Return the text files that git has below the checked places."""
    listed = subprocess.run(["git", "ls-files", *PLACES], cwd=ROOT, check=True, capture_output=True, text=True)
    suffixes = {".py", ".sql", ".part", ".md", ".css", ".js", ".json", ".toml", ".yaml"}
    return [ROOT / name for name in listed.stdout.splitlines() if Path(name).suffix in suffixes]


def found(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and word of each listed word."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, word) for word in map(str.lower, _WORD.findall(line)) if word in WORDS)
        yield from ((number, "of which") for _ in _PHRASE.finditer(line))


def main() -> int:
    """Print the words found and return the exit code."""
    wrong = [
        f"{file.relative_to(ROOT)}:{number}: {word}: write {WORDS[word]}"
        for file in files()
        for number, word in found(file.read_text("utf-8"))
        if word not in ALLOWED.get(str(file.relative_to(ROOT)), ())
    ]
    print("\n".join(wrong))  # noqa: T201 - a script
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
