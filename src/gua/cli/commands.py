"""The commands of ``gua`` by name, each loadable as its own application."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import typer
    from typer.core import TyperArgument, TyperCommand, TyperOption


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: its module in ``cli``, and its function there, or ``app`` of a ``group`` of commands.

    ``summary`` is its line in ``gua --help``. Aliases and commands that only the agent starts have none. A command that
    ``is_short`` reads a store or agent once: it ends with its last line, and collects no garbage until then.
    """

    module: str
    summary: str = ""
    function: str = "command"
    group: bool = False
    is_short: bool = False


COMMANDS: Final = {
    "demo": Entry("demo", "Simulate a host with eight cards for a week and report on it."),
    "daemon": Entry("daemon", "Sample this host's cards and who holds them.", function="daemon"),
    "start": Entry("daemon", function="daemon"),
    "report": Entry("report", "Show where the GPU hours went, and who held idle cards.", is_short=True),
    "audit": Entry("prometheus", "Report on the past of GPUs from an existing Prometheus.", function="audit"),
    "status": Entry("status", "Show whether the agent runs, and the cards as they are now."),
    "idle": Entry(
        "idle", "Tell by the exit code whether a card, job, pod or user has been idle for a time.", is_short=True
    ),
    "top": Entry("top", "Watch every card and who holds it, live."),
    "explain": Entry("explain", "Explain why a card was in its state at a moment.", is_short=True),
    "stop": Entry("stop", "Stop the agent of this host and release the driver."),
    "doctor": Entry("doctor", "Check everything that gua needs here, and say what to do."),
    "run": Entry("reservations", "Run a command with cards of its own, and wait for them in order.", function="run"),
    "reserve": Entry("reservations", "Reserve cards for a time.", function="reserve"),
    "extend": Entry("reservations", "Keep reserved cards for longer.", function="extend"),
    "release": Entry("reservations", "Give reserved cards back.", function="release"),
    "queue": Entry("reservations", "Show who waits for cards.", function="queue"),
    "prices": Entry("prices", "Set what GPU time costs, for the costs in reports.", group=True, is_short=True),
    "import": Entry("import_", "Import recordings that other tools made.", group=True),
    "enroll": Entry("fleet", "Join a fleet: prove an endpoint with a tick and keep its token.", function="enroll"),
    "sync-once": Entry("fleet", "Take one tick, keep it, and deliver what waits to the fleet.", function="sync_once"),
    "notify": Entry("notify", "Send notices to holders of idle GPUs, by a policy.", is_short=True),
    "digest": Entry("digest", "Send to owners, teams or namespaces what they had of GPUs, by a policy."),
    "policy": Entry("notify", "Check a policy of notices.", group=True),
    "exporter": Entry("daemon", "Serve this host's cards, and who idles on them, to Prometheus.", function="exporter"),
    "schema": Entry("store", "Create, show and check the tables and views of a store.", group=True),
    "rollup": Entry("store", "Roll up the hours that changed since their last rollup.", function="rollup"),
    "sql": Entry("store", "Query the views and tables of a store with SQL, read-only.", function="sql", is_short=True),
    "simulate": Entry("simulate", "Be a simulated host that sends ticks, its last days first.", function="simulate"),
    "version": Entry("version", "Print the versions of gua, Python and the embedded engine."),
    "land": Entry("land"),
    "answer": Entry("answer"),
    "canhazgpu": Entry("canhazgpu", group=True),
}


def command_module(name: str) -> Any:  # noqa: ANN401 - a module with command-specific attributes
    """Import and return the module of a command."""
    return importlib.import_module(f"gua.cli.{COMMANDS[name].module}")


def load(name: str) -> typer.Typer:
    """Return the command as an application of its own, importing its module."""
    import typer  # noqa: PLC0415 - takes longer than all of gua --help

    entry = COMMANDS[name]
    module = command_module(name)
    root = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,  # otherwise names in messages are parsed as markup
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    if not entry.group:
        shape = _grouped(getattr(module, "HELP_GROUPS", {}))
        function = getattr(module, entry.function)
        root.command(name, cls=shape, help=_help(function))(function)
        return root
    group: typer.Typer = module.app
    group.rich_markup_mode = None
    group.info.help = _help(group.registered_callback.callback) if group.registered_callback else entry.summary
    for info in group.registered_commands:
        info.help = _help(info.callback)
    root.add_typer(group, name=name)
    return root


def made(name: str) -> Any:  # noqa: ANN401 - typer's class is private
    """Return the command as the library runs it; a group is a subcommand of an unnamed one."""
    from typer.main import get_command  # noqa: PLC0415 - as above

    command = get_command(load(name))
    leave_plain_values(command)
    return command


def leave_plain_values(command: Any, parent: typer.Context | None = None) -> None:  # noqa: ANN401 - as above
    """Let the parameters of a command and its subcommands accept plain values (text, paths, none) without conversion.

    The library converts every value with pydantic, and loading that takes longer than all the rest of a command.
    """
    from typer import Context  # noqa: PLC0415 - as above
    from typer.core import TyperArgument, TyperOption  # noqa: PLC0415 - as above

    context = Context(command, parent=parent, **command.context_settings)
    for parameter in command.get_params(context):
        if isinstance(parameter, TyperOption | TyperArgument):
            _leave(parameter)
    for below in getattr(command, "commands", {}).values():
        leave_plain_values(below, context)


def _leave(parameter: TyperOption | TyperArgument) -> None:
    from pathlib import Path  # noqa: PLC0415 - gua --help does not need it, and it takes as long

    checked = parameter.process_value
    kind, info = parameter.type_descriptor.annotation, parameter.type_descriptor.parameter_info
    limits = ("parser", "path_type", "exists", "readable", "writable", "resolve_path")
    is_free = info.file_okay and info.dir_okay and not any(getattr(info, name) for name in limits)

    def process_value(ctx: Any, value: Any) -> Any:  # noqa: ANN401 - any option type
        if parameter.value_is_missing(value) and not parameter.required:
            parsed: Any = None if not parameter.multiple and parameter.nargs == 1 else ()
        elif kind in {str, list[str]} and value and info.parser is None:
            parsed = value
        elif kind is Path and is_free and type(value) is str:
            parsed = Path(value)
        elif kind is int and info.min is None and info.max is None and str(value).isascii() and str(value).isdecimal():
            parsed = int(value)
        else:
            return checked(ctx, value)
        return parsed if parameter.callback is None else parameter.callback(ctx, parameter, parsed)

    parameter.process_value = process_value  # type: ignore[method-assign] # replaced on this instance only


def _grouped(groups: Mapping[str, tuple[str, ...]]) -> type[TyperCommand]:
    """Return a command class whose help lists parameters in these groups of names, and all others after them."""
    from typer.core import TyperCommand  # noqa: PLC0415 - as above

    class Grouped(TyperCommand):
        def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as above
            left = {str(parameter.name): parameter for parameter in self.get_params(ctx)}
            chosen = {title: [left.pop(name) for name in names if name in left] for title, names in groups.items()}
            for title, parameters in {**chosen, "Options": list(left.values())}.items():
                records = [record for parameter in parameters if (record := parameter.get_help_record(ctx))]
                if records:
                    with formatter.section(title):
                        formatter.write_dl(records)

    return Grouped if groups else TyperCommand


def _help(function: object) -> str:
    """Return a docstring as help, with the lines of indented blocks such as the example preserved."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(f"\b\n{text}" if "\n " in text else text for text in paragraphs)
