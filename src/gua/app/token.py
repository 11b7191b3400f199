"""The bearer token, from a file that nobody else can read, from a pipe, or typed without echo; never an argument."""

from __future__ import annotations

import os
import re
import stat
import sys
from getpass import getpass
from pathlib import Path
from typing import Final

from gua.core.errors import UnavailableError, UsageError

LONGEST: Final = 4096
# One word of visible ASCII: what a header can carry, and what RFC 6750, 2.1, allows is less.
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


def read_token(path: Path | None) -> str:
    """Return the token in the file at ``path``, ``-`` for stdin; without a path ask for it on the terminal.

    One newline at the end is no part of it. Raises UsageError for what is no token, UnavailableError for a file
    that cannot be read or that others can read; no message repeats any of it.
    """
    if path is None:
        if not sys.stdin.isatty():
            msg = "nobody is there to type the token: give --token-file FILE (- for stdin)"
            raise UsageError(msg)
        try:
            return parse_token(getpass("Token (not shown): "), "what was typed")
        except EOFError:
            msg = "no token was typed: try again, or give --token-file FILE"
            raise UsageError(msg) from None
    if str(path) == "-":
        return parse_token(_text(sys.stdin.buffer.read(LONGEST + 3), "stdin"), "stdin")
    return parse_token(_text(_content(path), str(path)), str(path))


def parse_token(text: str, where: str) -> str:
    """Return the token that ``text`` is. Raises UsageError that names ``where`` it is from, and repeats nothing."""
    token = text.removesuffix("\n").removesuffix("\r")
    if not token:
        fault = "is empty"
    elif len(token) > LONGEST:
        fault = f"is longer than {LONGEST} characters"
    elif token.lower().startswith("bearer "):
        fault = "begins with the word Bearer, which is no part of the token"
    elif not _TOKEN.fullmatch(token):
        fault = "holds spaces, line breaks, control characters or letters beyond ASCII"
    else:
        return token
    msg = f"{where} {fault}: give the token alone, on one line"
    raise UsageError(msg)


def _content(path: Path) -> bytes:
    try:
        # Not held up by a pipe that nobody writes to.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        msg = f"cannot read the token file {path} ({why}): check the path and its permissions"
        raise UnavailableError(msg) from None
    try:
        found = os.fstat(descriptor)
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISREG(found.st_mode):
            msg = f"the token file {path} is not a regular file: give one, or - to read stdin"
            raise UsageError(msg)
        if mode & 0o077:
            msg = f"others can read or write the token file {path} (mode {mode:04o}): chmod 600 {path}, and try again"
            raise UnavailableError(msg)
        return os.read(descriptor, LONGEST + 3)
    except OSError as error:
        msg = f"cannot read the token file {path} ({error.strerror}): check its disk"
        raise UnavailableError(msg) from None
    finally:
        os.close(descriptor)


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError:
        msg = f"{where} holds letters beyond ASCII: give the token alone, on one line"
        raise UsageError(msg) from None
