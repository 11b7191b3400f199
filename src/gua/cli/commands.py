"""The commands of ``gua`` by name, and each as an application of its own."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import typer


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One command: its module in ``cli``, whether it has commands of its own, and its line in ``gua --help``.

    Without a line it is left out there: another name of a command, or one that the agent itself starts. One that
    ``is_short`` asks a store once: it is over when its last line is out, and collects no garbage until then.
    """

    module: str
    group: bool = False
    is_short: bool = False
    summary: str = ""


COMMANDS: Final = {
    "demo": Entry(module="demo", summary="Simulate a host with eight cards for a week and report on it."),
    "daemon": Entry(module="daemon", summary="Sample this host's cards and who holds them."),
    "start": Entry(module="daemon"),
    "report": Entry(module="report", is_short=True, summary="Show where the GPU hours went, and who held idle cards."),
    "status": Entry(module="status", summary="Show whether the agent runs, and the cards as they are now."),
    "top": Entry(module="top", summary="Watch every card and who holds it, live."),
    "explain": Entry(module="explain", is_short=True, summary="Explain why a card was in its state at a moment."),
    "stop": Entry(module="stop", summary="Stop the agent of this host and release the driver."),
    "doctor": Entry(module="doctor", summary="Check everything that gua needs here, and say what to do."),
    "run": Entry(module="run", summary="Run a command with cards of its own, and wait for them in order."),
    "reserve": Entry(module="reserve", summary="Reserve cards for a time."),
    "extend": Entry(module="extend", summary="Keep reserved cards for longer."),
    "release": Entry(module="release", summary="Give reserved cards back."),
    "queue": Entry(module="queue", summary="Show who waits for cards."),
    "prices": Entry(
        module="prices", is_short=True, group=True, summary="Set what GPU time costs, for the costs in reports."
    ),
    "import": Entry(module="import_", group=True, summary="Import recordings that other tools made."),
    "enroll": Entry(module="enroll", summary="Join a fleet: prove an endpoint with a tick and keep its token."),
    "sync-once": Entry(module="sync_once", summary="Take one tick, keep it, and deliver what waits to the fleet."),
    "exporter": Entry(module="exporter", summary="Serve this host's cards, and who idles on them, to Prometheus."),
    "schema": Entry(module="schema", group=True, summary="Create, show and check the tables and views of a store."),
    "rollup": Entry(module="rollup", summary="Count the hours that reports are read from, where they changed."),
    "sql": Entry(module="sql", is_short=True, summary="Ask the views and tables of a store with SQL, read-only."),
    "simulate": Entry(module="simulate", summary="Be a simulated host that sends ticks, its last days first."),
    "version": Entry(module="version", summary="Print the versions of gua, Python and the embedded engine."),
    "land": Entry(module="land"),
    "answer": Entry(module="answer"),
    "canhazgpu": Entry(module="canhazgpu", group=True),
}


def module_of(name: str) -> Any:  # noqa: ANN401 - a module, and what it may have
    """Import and return the module of a command."""
    return importlib.import_module(f"gua.cli.{COMMANDS[name].module}")


def load(name: str) -> typer.Typer:
    """Return the command as an application of its own, importing its module."""
    import typer  # noqa: PLC0415 - takes longer than all of gua --help

    entry = COMMANDS[name]
    module = module_of(name)
    root = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,  # else names in messages are read as markup
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    if not entry.group:
        from gua.cli.help import grouped  # noqa: PLC0415 - as above

        shape = grouped(getattr(module, "HELP_GROUPS", {}))
        root.command(name, cls=shape, help=_help(module.command))(module.command)
        return root
    group: typer.Typer = module.app
    group.rich_markup_mode = None
    group.info.help = _help(group.registered_callback.callback) if group.registered_callback else entry.summary
    for info in group.registered_commands:
        info.help = _help(info.callback)
    root.add_typer(group, name=name)
    return root


def _help(function: object) -> str:
    """Return a docstring as help in which indented blocks, the example above all, keep their lines."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(f"\b\n{text}" if "\n " in text else text for text in paragraphs)
