"""Shell completion, based on typer: installation of the scripts, and candidates for values."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from gua.cli.commands import COMMANDS, leave_plain_values, made
from gua.core.errors import UsageError

if TYPE_CHECKING:
    from typer.core import TyperGroup

    from gua.report.top.model import Snapshot

NAME: Final = "gua"
SHELLS: Final = ("bash", "zsh", "fish")
LIMIT_SECONDS: Final = 1.5
# Completed names are inserted unseen: allow only characters that a shell reads as one plain word.
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@%+,/-]*", re.ASCII)


def teach(option: str, arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Install completion for the shell that is named, else that of ``SHELL``, or print its script.

    Raises UsageError for a shell that is not known.
    """
    from typer.core import TyperCommand  # noqa: PLC0415 - used once
    from typer.main import get_install_completion_arguments  # noqa: PLC0415 - used once

    shell = arguments[0] if arguments else Path(environ.get("SHELL", "")).name
    if shell not in SHELLS or len(arguments) > 1:
        raise UsageError(f"completion is for {', '.join(SHELLS)}: name one, as in gua {option} bash")
    with typer.Context(TyperCommand(NAME), info_name=NAME) as context:
        for parameter in get_install_completion_arguments():
            if option in parameter.opts and parameter.callback is not None:
                parameter.callback(context, parameter, shell)
    return 0


def complete() -> int:
    """Print the shell's completion candidates and return 0, also after an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    with suppress(Exception):  # a failed completion must not disturb the user's typing
        answer()
    return 0


def answer() -> None:
    """Print the candidates for the command line in typer's variables, and exit."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    if len(words) > 1:  # bash splits --section=now at the "=", which typer does not expect
        at = int(os.environ["COMP_CWORD"])
        before = [word for word in words[:at] if word != "="]
        os.environ["COMP_WORDS"] = "\n".join([*before, *words[at:]])
        os.environ["COMP_CWORD"] = str(len(before))
    else:
        words = os.environ.get("_TYPER_COMPLETE_ARGS", "").split()
    _root(words).main(args=[], prog_name=NAME)


def _root(words: Sequence[str]) -> TyperGroup:
    """Return all commands as one group; only the command on the line is loaded."""
    from typer.core import TyperCommand, TyperGroup  # noqa: PLC0415 - only for completion
    from typer.main import get_command  # noqa: PLC0415 - as above

    commands: dict[str, Any] = {
        name: TyperCommand(name, help=entry.summary, hidden=not entry.summary) for name, entry in COMMANDS.items()
    }
    for name in words[1:3]:
        if name in COMMANDS:
            commands[name] = made(name).commands[name] if COMMANDS[name].group else made(name)
            break
    commands["help"] = TyperGroup(name="help", commands=dict(commands), help="Explain a command.")
    root = typer.Typer()

    @root.callback()
    def options(*, version: bool = False) -> None:
        pass

    group: TyperGroup = get_command(root)  # type: ignore[assignment] # it has a callback
    leave_plain_values(group)
    group.commands = commands
    return group


def values(*words: str) -> Callable[[str], list[str]]:
    """Return a completion from ``words``; in a comma-separated list it completes the last one."""
    return lambda incomplete: _beginning(incomplete, words)


def zones(incomplete: str) -> list[str]:
    """Return the names of time zones."""
    from zoneinfo import available_timezones  # noqa: PLC0415 - only for completion of time zones

    return _beginning(incomplete, {*available_timezones(), "local"})


def hosts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the hosts of the command line's store or agent."""
    return _beginning(incomplete, _now(ctx).hosts)


def owners(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the owners of the current holders."""
    return _beginning(incomplete, [holder.owner for holder in _now(ctx).holders if holder.owner])


def host_or_card(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the cards of the typed host, by index and UUID; without a host all hosts and cards."""
    now = _now(ctx)
    cards = [card for card in now.cards if card.host in (ctx.params.get("words") or ())] or now.cards
    one_host = len({card.host for card in cards}) == 1
    indexes = [str(card.index) for card in cards if one_host and card.index is not None]
    return _beginning(
        incomplete, [*(() if cards is not now.cards else now.hosts), *indexes, *(card.gpu for card in cards)]
    )


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    listed, comma, last = incomplete.rpartition(",")
    return sorted({f"{listed}{comma}{word}" for word in words if word.startswith(last) and _PLAIN.fullmatch(word)})


def _now(ctx: typer.Context) -> Snapshot:
    """Return the snapshot of the agent, of the store on the line, or of this user's own store."""
    from gua.cli import top  # noqa: PLC0415 - opens a store or an agent, only for names from these

    timer = threading.Timer(LIMIT_SECONDS, os._exit, (0,))  # even while an engine or a server blocks
    timer.daemon = True
    timer.start()
    try:
        with top.open_source(ctx.params.get("store"), ctx.params.get("socket"), ()) as source:
            return source.query()
    finally:
        timer.cancel()
