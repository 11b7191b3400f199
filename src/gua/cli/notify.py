"""``gua notify`` and ``gua policy``: notices to the holders of idle GPUs, by a policy."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gua.app.output import print_line, safe
from gua.cli.options import AgentStateOption, HostsOption, StoreOption, flag, path_value, value
from gua.core.errors import UnavailableError, UsageError
from gua.core.moments import WEEK_MS, parse_moment_ms, to_rfc3339
from gua.state.directory import home_path

if TYPE_CHECKING:
    from gua.app.notifying import NoticeOutcome, RunOutcome
    from gua.notices.addresses import AddressBook
    from gua.notices.policy import Policy
    from gua.notices.record import Inserter
    from gua.store.database import Store

SCHEMA: Final = "gua.notify/1"
_UNSENT: Final = 3
_LOCK_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2
_CHECKS: Final = 56
"""Moments of the last week at which ``gua policy check`` evaluates a policy: every three hours."""

app = typer.Typer(no_args_is_help=True)

PolicyArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A policy: TOML, see docs/notices.md.")]


def command(
    *,
    policy: Annotated[Path, path_value("FILE", "GUA_NOTIFY_POLICY", "The policy: TOML, see docs/notices.md.")],
    at: Annotated[
        str | None,
        value(
            "TIME", "GUA_NOTIFY_AT", "Evaluate as of a moment; now, or the newest tick of a recording, if not given."
        ),
    ] = None,
    host: HostsOption = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "GUA_NOTIFY_DRY_RUN", "Show what is due; send and record nothing.")
    ] = False,
    enforce: Annotated[
        bool, flag("--enforce", "GUA_NOTIFY_ENFORCE", "Also run the commands of steps that are due.")
    ] = False,
    retry_failed: Annotated[
        bool, flag("--retry-failed", "GUA_NOTIFY_RETRY_FAILED", "Send again what a channel reported as failed.")
    ] = False,
    yes: Annotated[
        bool, flag("--yes", "GUA_NOTIFY_YES", "Accept once a policy with a rule that concerns everybody.")
    ] = False,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.notify/1".')] = False,
    store: StoreOption = None,
    state_dir: AgentStateOption = None,
) -> int:
    """Send the notices that a policy has for holders of idle GPUs now, each once; made for cron and timers.

    What is unknown, unobserved or older than three intervals never leads to a notice. Each notice is recorded before
    and after it is sent: one of a killed run is reported as unknown and not sent again.

    Exit codes: 0 all that was due is sent; 3 something could not be sent, or another run sends.

    Example:
        gua notify --policy /etc/gua/policy.toml --dry-run
        gua notify --policy /etc/gua/policy.toml --json
    """
    from gua.app.job_facts import HostFacts  # noqa: PLC0415 - invalid options save its 0.3 s
    from gua.app.notifying import NoticeRun  # noqa: PLC0415 - as above
    from gua.notices.policy import read_policy  # noqa: PLC0415 - as above

    read = read_policy(policy)
    home = home_path(state_dir, os.environ)
    if not dry_run:
        _require_acceptance(read, home, yes=yes)
    with lock(home, store), stores_of(store) as (first, stores):
        first.is_single_threaded = True
        run = NoticeRun(
            read,
            stores,
            book=book_of(read),
            facts=HostFacts(),
            clock=_clock(first, at),
            hosts=tuple(host or ()),
            enforce=enforce,
            retry_failed=retry_failed,
        )
        outcome = run.plan() if dry_run else run.send()
    if as_json:
        print_line(json.dumps(_json(outcome), ensure_ascii=False))
    else:
        for line in _lines(outcome):
            print_line(line)
    return _UNSENT if outcome.has_failed else 0


@app.callback()
def group() -> None:
    """Check a policy of notices before it is used.

    Example:
        gua policy check /etc/gua/policy.toml
    """


@app.command("check")
def check(
    policy: PolicyArgument,
    *,
    host: HostsOption = None,
    store: StoreOption = None,
) -> None:
    """Explain each rule in a sentence, and list the holders that it concerns now and in the last 7 days.

    The 7 days are evaluated every three hours: shorter idle times between two of these moments are not listed.

    Example:
        gua policy check /etc/gua/policy.toml
    """
    from gua.app.job_facts import HostFacts  # noqa: PLC0415 - as above
    from gua.app.notifying import concerned  # noqa: PLC0415 - as above
    from gua.notices import policy_text  # noqa: PLC0415 - as above
    from gua.notices.policy import read_policy  # noqa: PLC0415 - as above

    read = read_policy(policy)
    for sentence in policy_text.sentences(read):
        print_line(safe(sentence, 2000))
    for warning in policy_text.warnings(read, now_ms=time.time_ns() // 1_000_000):
        print_line(f"! {safe(warning, 2000)}")
    with stores_of(store) as (first, stores):
        now_ms = _clock(first, None)()
        moments = [now_ms - index * WEEK_MS // _CHECKS for index in range(_CHECKS + 1)]
        now, week = concerned(read, stores, HostFacts(), moments, hosts=tuple(host or ()))
    print_line(f"Concerned as of {to_rfc3339(now_ms)}: {len(now)}")
    for line in now:
        print_line(f"  {line}")
    print_line(f"Concerned in the 7 days before: {len(week)}")
    for line in week:
        print_line(f"  {line}")


def book_of(policy: Policy) -> AddressBook:
    """Return how the policy finds addresses. Raises UsageError, UnavailableError or DataError."""
    from gua.notices import addresses  # noqa: PLC0415 - as above

    given = policy.addresses
    if given is None:
        return addresses.no_addresses
    if given.file is not None:
        return addresses.file_addresses(given.file)
    if given.command:
        return addresses.command_addresses(given.command)
    return addresses.template_addresses(given.template or "")


def _require_acceptance(policy: Policy, home: Path, *, yes: bool) -> None:
    """Raise UsageError for a policy with a rule that concerns everybody, until it was accepted once with --yes."""
    broad = [rule.name for rule in policy.rules if rule.concerns_everybody]
    if not broad:
        return
    digest = hashlib.sha256(policy.path.read_bytes()).hexdigest()
    accepted = home / "accepted-policy"
    if yes:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        accepted.write_text(digest)
    elif not accepted.exists() or accepted.read_text() != digest:
        raise UsageError(
            f"{safe(str(policy.path))}: rule {broad[0]} concerns everybody: look at gua policy check, then accept this "
            "version of the policy once with --yes"
        )


@contextmanager
def lock(home: Path, store: str | None) -> Iterator[None]:
    """Wait for another run on this host: with the same state, or of whoever uses the same embedded store.

    Raises UnavailableError after a minute.
    """
    from gua.app.opening import store_address  # noqa: PLC0415 - as above
    from gua.store.directory import StoreDirectory  # noqa: PLC0415 - as above
    from gua.store.dsn import EmbeddedDsn, parse_dsn  # noqa: PLC0415 - as above

    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    parsed = parse_dsn(store_address(store), password=os.environ.get("GUA_STORE_PASSWORD"))
    is_there = isinstance(parsed, EmbeddedDsn) and StoreDirectory(parsed.path).exists()
    folder = parsed.path if isinstance(parsed, EmbeddedDsn) and is_there else home
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW  # the folder may be another user's
    try:
        descriptor = os.open(folder / "notify.lock", flags, 0o600)
    except OSError as error:
        path = safe(str(folder / "notify.lock"))
        raise UnavailableError(f"{path} cannot be opened: {error.strerror}: run this as the store's user") from None
    with os.fdopen(descriptor, "w") as file:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise UnavailableError("another gua notify runs on this host: run this one again later") from None
                time.sleep(_POLL_SECONDS)
            else:
                yield
                return


def stores_of(store: str | None) -> AbstractContextManager[tuple[Store, Callable[[], AbstractContextManager[Store]]]]:
    """Return a context of the open store, and of a function that opens it for a while."""
    from gua.app import opening  # noqa: PLC0415 - as above

    return opening.reopened(store, partial(opening.open_reader, store, needs_newest=False))


def _clock(reader: Inserter, at: str | None) -> Callable[[], int]:
    """Return a function of the moment to evaluate: a fixed one, or now where an agent samples any of the hosts."""
    from gua.report.rows import EXTENT  # noqa: PLC0415 - as above

    now_ms = time.time_ns() // 1_000_000
    extents = EXTENT.rows(reader, {"hosts": []})
    newest_ms = max((extent.last_ms for extent in extents), default=now_ms)
    is_live = any(extent.source == "agent" for extent in extents)
    if at is None and is_live:
        return lambda: time.time_ns() // 1_000_000
    at_ms = newest_ms if at is None else parse_moment_ms(at, now_ms=now_ms, newest_ms=newest_ms, timezone=UTC)
    return lambda: at_ms


def _lines(outcome: RunOutcome) -> Iterator[str]:
    yield f"{len(outcome.notices)} notices due as of {to_rfc3339(outcome.at_ms)}"
    for notice in outcome.notices:
        yield f"  {notice.result}: {_what(notice)}"
        for each in notice.channels:
            why = f": {each.detail}" if each.detail else ""
            yield f"    {safe(f'{each.channel}: {each.result}{why}', 400)}"
        if not notice.channels:
            yield "    the owner had as many messages today as the policy allows: due again tomorrow"
    titles = ("left out", "unknown, so no notice", "unknown whether it was sent")
    for title, lines in zip(titles, (outcome.left_out, outcome.unknown, outcome.unresolved), strict=True):
        yield from (f"{title}: {safe(line, 400)}" for line in lines)


def _what(outcome: NoticeOutcome) -> str:
    from gua.app.notifying import describe  # noqa: PLC0415 - as above
    from gua.notices.messages import span  # noqa: PLC0415 - as above

    notice = outcome.notice
    again = f", reminder {notice.reminder - 1}" if notice.reminder > 1 else ""
    idle = span(notice.held.idle_ms)
    return safe(
        f"rule {notice.rule}, step {notice.step}{again}: {describe(notice.held)}, {notice.held.state} for {idle}", 400
    )


def _json(outcome: RunOutcome) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "at": to_rfc3339(outcome.at_ms),
        "notices": [_notice_json(notice) for notice in outcome.notices],
        "left_out": outcome.left_out,
        "unknown": outcome.unknown,
        "unresolved": outcome.unresolved,
    }


def _notice_json(outcome: NoticeOutcome) -> dict[str, object]:
    notice, held = outcome.notice, outcome.notice.held
    return {
        "rule": notice.rule,
        "step": notice.step,
        "reminder": notice.reminder,
        "state": held.state,
        "host": held.host,
        "gpu": held.cards[0].gpu,
        "gpus": [{"host": card.host, "gpu": card.gpu, "index": card.index} for card in held.cards],
        **{name: getattr(held, name) for name in ("kind", "owner", "program", "pid", "job", "pod")},
        "since": to_rfc3339(held.since_ms),
        "idle_seconds": held.idle_ms / 1000,
        "channels": [asdict(each) for each in outcome.channels],
        "result": outcome.result,
    }
