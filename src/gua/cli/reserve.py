"""``gua reserve``: takes cards for a time, by hand."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gua.app.labels import labels_of
from gua.app.local_agent import places
from gua.app.output import say
from gua.app.reserving import described, patience, reserve, wanted
from gua.cli.options import (
    AcceptUnknownOption,
    AgentStateOption,
    BesideSchedulerOption,
    GpuIdsOption,
    GpusOption,
    LabelOption,
    NonblockOption,
    NoteOption,
    SocketOption,
    WaitOption,
    flag,
    value,
)
from gua.core.durations import parse_duration_ms
from gua.state.directory import asking_home


def command(
    *,
    gpus: GpusOption = None,
    gpu_ids: GpuIdsOption = None,
    lasts: Annotated[str, value("DURATION", "GUA_FOR", "For how long, as in 30m, 2h or 1d.", "--for")] = "8h",
    note: NoteOption = None,
    label: LabelOption = None,
    short: Annotated[bool, flag("--short", "GUA_SHORT", "Print the indices alone, as in 0,3.")] = False,
    wait: WaitOption = None,
    nonblock: NonblockOption = False,
    accept_unknown: AcceptUnknownOption = False,
    beside_scheduler: BesideSchedulerOption = False,
    socket: SocketOption = None,
    state_dir: AgentStateOption = None,
) -> None:
    """Reserve cards for a time: they are yours until then, or until gua release.

    Nothing is enforced: it holds among those who ask gua for cards. Exit codes: 69 no agent answers, 75 no cards,
    77 not allowed.

    Example:
        gua reserve --for 2h
        gua reserve -g 2 --for 1d --note paper
        gua reserve -g 2 --short
    """
    request = {
        "kind": "manual",
        **wanted(gpus, gpu_ids),
        "for_ms": parse_duration_ms(lasts),
        "note": note,
        "labels": labels_of(label or ()),
        "wait_ms": patience(wait, nonblock=nonblock),
        "accept_unknown": accept_unknown,
        "beside_scheduler": beside_scheduler,
    }
    tried = places(socket, asking_home(state_dir, os.environ))
    grant = reserve(tried, request, say=lambda line: say(f"gua: {line}", to_stderr=True))
    if short:
        sys.stdout.write(grant.gpus)
        return
    typer.echo(f"reserved {described(grant.reservation)}")
    typer.echo(f"export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={grant.gpus}")
