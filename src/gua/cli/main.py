"""The ``gua`` command: finds and imports one command by name, and turns errors into one line and an exit code."""

import contextlib
import errno
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from gua.app.output import open_standard_streams, print_error, silence_stdout
from gua.cli.commands import COMMANDS, command_module, made
from gua.core.errors import GuaError, UsageError

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
UNEXPECTED: Final = 3


_CALLED_AS: Final = {"canhazgpu": ("canhazgpu",)}
"""Arguments that are prepended if gua is started by another name, through a link."""


def run() -> None:
    """Run ``gua`` with the arguments of this process and exit."""
    open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names outside the locale's charset must not raise
    called = os.path.basename(sys.argv[0])  # noqa: PTH119 - importing pathlib takes longer than all of gua --help
    arguments = [*_CALLED_AS.get(called, ()), *sys.argv[1:]]
    entry = COMMANDS.get(arguments[0]) if arguments else None
    if entry is None or not entry.is_short:
        sys.exit(main(arguments))
    gc.disable()  # collections would scan all imported modules a hundred times
    code = main(arguments)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    # All output is flushed and files are closed. Unloading the engine's library and Python would take 70 ms.
    os._exit(code)


def main(arguments: Sequence[str]) -> int:
    """Run ``gua`` with these arguments and return its exit code; prints errors, raises nothing."""
    try:
        code = dispatch(arguments)
        sys.stdout.flush()
    except GuaError as error:
        print_error(str(error), error.hints)
        return _after_error(error.exit_code)
    except KeyboardInterrupt:
        return _after_error(INTERRUPTED)
    except BrokenPipeError:
        silence_stdout()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - last resort: no traceback for users
        words = _of_the_system(error) if isinstance(error, OSError) else _exhausted(error)
        if words is None:
            if os.environ.get("GUA_DEBUG"):
                import traceback  # noqa: PLC0415 - only for this

                traceback.print_exc()
            words = (
                f"unexpected {type(error).__name__}: {error}; this is a fault in gua, please report it "
                "(GUA_DEBUG=1 shows where it happened)"
            )
        print_error(words)
        return _after_error(UNEXPECTED)
    return code


def dispatch(arguments: Sequence[str]) -> int:
    """Import the command that ``arguments`` start with, run it with the rest and return its exit code."""
    if "_GUA_COMPLETE" in os.environ:
        from gua.cli.completion import complete  # noqa: PLC0415 - only for shell completion

        return complete()
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in {"--help", "-h"}:
        sys.stdout.write(overview())
        return 0
    name, *rest = arguments
    if name in {"--install-completion", "--show-completion"}:
        from gua.cli.completion import teach  # noqa: PLC0415 - used once

        return teach(name, rest)
    if name in {"--version", "-V"}:
        name = "version"
    if name == "canhazgpu":
        from gua.cli.canhazgpu import main as as_canhazgpu  # noqa: PLC0415 - only for users of canhazgpu

        return as_canhazgpu(rest)
    if name not in COMMANDS:
        import difflib  # noqa: PLC0415 - only after a typing error

        shown = [command for command, entry in COMMANDS.items() if entry.summary]
        near = difflib.get_close_matches(name, shown, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(shown)}"
        raise UsageError(f"no such {'option' if name.startswith('-') else 'command'}: {name}; {hint}: see gua --help")
    if COMMANDS[name].group and not rest:
        raise UsageError(f"gua {name} needs to know what: see gua {name} --help")
    return _invoke(name, rest)


def overview() -> str:
    """Return the help of ``gua`` itself; imports no command."""
    width = max(map(len, COMMANDS))
    lines = [
        "Usage: gua COMMAND [OPTIONS]",
        "",
        "Where a lab's GPU hours go: active, idle-held, truly-idle, unknown - and who holds them.",
        "",
        "Commands:",
        *(f"  {name:<{width}}  {entry.summary}" for name, entry in COMMANDS.items() if entry.summary),
        "",
        "gua help COMMAND explains a command. Exit codes: 0 good, 1 a condition was met, 2 wrong usage,",
        "3 cannot, 4 data refused. gua --install-completion: complete with Tab in bash, zsh and fish.",
        "",
        "Example:",
        "  gua demo",
    ]
    return "\n".join(lines) + "\n"


def _invoke(name: str, rest: Sequence[str]) -> int:
    from typer.exceptions import Abort, TyperException  # noqa: PLC0415 - takes longer than all of gua --help

    entry = COMMANDS[name]
    module = command_module(name)
    check = getattr(module, "CHECKS", {}).get(entry.function)
    if check is not None:
        check(rest)
    rest = with_values(rest, getattr(module, "OPTIONAL_VALUES", {}).get(entry.function, {}))
    try:
        result = made(name).main(
            args=[name, *rest] if entry.group else list(rest),
            prog_name="gua" if entry.group else f"gua {name}",
            standalone_mode=False,
        )
    except TyperException as error:
        raise UsageError(f"{error.format_message().rstrip('.')}. See gua {name} --help") from error
    except Abort:
        return INTERRUPTED
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # typer exits with 1, which has another meaning here
            raise stop.__context__ from None
        raise
    return result if isinstance(result, int) else 0


def with_values(arguments: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the arguments with default values for options without one: before another option, or at the end."""
    return [
        f"{argument}={values[argument]}" if argument in values and after.startswith("-") else argument
        for argument, after in zip(arguments, [*arguments[1:], "-"], strict=False)
    ]


def _of_the_system(error: OSError) -> str:
    """Return the message for an error that the user can solve, such as a full disk or a denied file."""
    where = f": {error.filename}" if error.filename else ""
    if isinstance(error, FileNotFoundError) and not where:
        return "the working directory is gone: change to one that is there"
    whose = ": it belongs to another user, run gua as one who may" if isinstance(error, PermissionError) else ""
    return _exhausted(error) or f"{error.strerror or error}{where}{whose}"


def _exhausted(error: Exception) -> str | None:
    """Return the exhausted resource and what to do; ``None`` for other errors."""
    text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    if any(os.strerror(code) in text for code in (errno.EMFILE, errno.ENFILE)):
        return f"{text}: allow more, as with ulimit -n 1024, or end what holds them"
    if isinstance(error, MemoryError) or any(
        words in text for words in (os.strerror(errno.ENOMEM), "start new thread")
    ):
        return "there is not enough memory: allow more (ulimit -v, -u, the container's limit), or request less at once"
    return None


def _after_error(code: int) -> int:
    """Flush the output from before the error, if its reader is still there, and return ``code``."""
    try:
        sys.stdout.flush()
    except OSError:
        silence_stdout()
    return code
