"""``gua digest``: to each owner, team or namespace what it had of GPUs, by a policy."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from gua.app.output import print_line, safe
from gua.cli.notify import book_of, lock, stores_of
from gua.cli.options import AgentStateOption, StoreOption, flag, path_value, value
from gua.core.errors import UsageError
from gua.core.moments import to_rfc3339
from gua.state.directory import home_path

if TYPE_CHECKING:
    from gua.app.digest_run import DigestOutcome, Recipient
    from gua.notices.policy import Digests, Policy

SCHEMA: Final = "gua.digest/1"
_UNSENT: Final = 3


def command(
    *,
    policy: Annotated[Path, path_value("FILE", "GUA_NOTIFY_POLICY", "A policy with [digest], see docs/notices.md.")],
    since: Annotated[
        str, value("WHEN", "GUA_SINCE", "Begin of the window; it ends now, or at the newest tick.")
    ] = "7d",
    by: Annotated[str, value("WHOSE", "GUA_DIGEST_BY", "To each owner, team (its leads) or namespace.")] = "owner",
    to_admins: Annotated[
        bool, flag("--to-admins", "GUA_DIGEST_TO_ADMINS", "Also send the whole list to the admins.")
    ] = False,
    dry_run: Annotated[
        bool, flag("--dry-run", "GUA_NOTIFY_DRY_RUN", "Show who would get what; send and record nothing.")
    ] = False,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.digest/1".')] = False,
    store: StoreOption = None,
    state_dir: AgentStateOption = None,
) -> int:
    """Send to each owner what it had of GPUs, what of it was not used, and one suggestion; made for cron, weekly.

    Each gets only its own, the leads of a team only their team. Each digest is sent once for the UTC days of a window,
    and recorded before and after.

    Exit codes: 0 all that was due is sent; 3 something could not be sent, or another run sends.

    Example:
        gua digest --policy /etc/gua/policy.toml --dry-run
        gua digest --policy /etc/gua/policy.toml --by team --since 30d --to-admins
    """
    from gua.app.digest import SECTIONS, By  # noqa: PLC0415 - invalid options save its 0.3 s
    from gua.app.digest_run import DigestRun  # noqa: PLC0415 - as above
    from gua.app.job_facts import HostFacts  # noqa: PLC0415 - as above
    from gua.notices.policy import read_policy  # noqa: PLC0415 - as above
    from gua.report.window import ReportRequest, check_request  # noqa: PLC0415 - as above

    if by not in {*By}:
        raise UsageError(f"--by {safe(by, 40)}: write one of {', '.join(By)}")
    read = read_policy(policy)
    digests = _digests(read, by, to_admins=to_admins)
    request = ReportRequest(
        since=since,
        timezone=read.zone,
        sections=SECTIONS,
        if_cheap=frozenset({"right-size"}),
        now_ms=time.time_ns() // 1_000_000,
    )
    check_request(request)
    with lock(home_path(state_dir, os.environ), store), stores_of(store) as (_, stores):
        outcome = DigestRun(
            policy=read,
            digests=digests,
            stores=stores,
            request=request,
            by=By(by),
            to_admins=to_admins,
            book=book_of(read),
            facts=HostFacts(),
        ).run(dry_run=dry_run)
    if as_json:
        print_line(json.dumps(_json(outcome, by), ensure_ascii=False))
    else:
        for line in _lines(outcome):
            print_line(safe(line, 400))
    return _UNSENT if outcome.has_failed else 0


def _digests(policy: Policy, by: str, *, to_admins: bool) -> Digests:
    """Return what the policy has of digests. Raises UsageError if nobody could get one."""
    found, path = policy.digests, safe(str(policy.path))
    if found is None:
        raise UsageError(f"{path}: has no [digest]: add it, see docs/notices.md")
    if to_admins and not found.admins:
        raise UsageError(f"{path}: digest: admins is missing, so nobody gets the whole list: add it")
    if by == "team" and not found.teams:
        raise UsageError(f"{path}: digest: has no team: add [[digest.team]], or leave --by team out")
    if by != "team" and not (found.to or to_admins):
        raise UsageError(f"{path}: digest: to is missing, so nobody gets a digest: add it")
    return found


def _result(outcome: DigestOutcome, recipient: Recipient) -> str:
    from gua.app.sending import worst  # noqa: PLC0415 - as above

    return worst(outcome.channels(recipient)) or "left out"


def _lines(outcome: DigestOutcome) -> Iterator[str]:
    from gua.app.digest import COUNTED, named  # noqa: PLC0415 - as above
    from gua.report.kit.figures import amount  # noqa: PLC0415 - as above

    for one in outcome.recipients:
        hours = ", ".join(f"{amount(one.digest.gpu_ms(use) / 3_600_000)} {use}" for use in COUNTED)
        name = f" {named(one.digest.name)}" if one.kind != "admins" else ""
        channels = [f"{each.channel} {each.result} {each.detail}".strip() for each in outcome.channels(one)]
        yield f"{_result(outcome, one)}: {one.kind}{name}, GPU-hours: {hours}; {'; '.join(channels) or one.left_out}"
    for owner in outcome.unknown:
        yield f"unknown groups, so in no team by group: {owner}"


def _json(outcome: DigestOutcome, by: str) -> dict[str, object]:
    from gua.app.digest import unobserved_share  # noqa: PLC0415 - as above
    from gua.report.kit.fields import ratio, to_json  # noqa: PLC0415 - as above

    window = outcome.report.window
    recipients = [
        {
            "kind": one.kind,
            **dict(to_json(one.digest)),  # type: ignore[call-overload] # a model is an object
            "result": _result(outcome, one),
            "left_out": one.left_out or None,
            "channels": [to_json(each) for each in outcome.channels(one)],
        }
        for one in outcome.recipients
    ]
    return {
        "schema": SCHEMA,
        "by": by,
        "since": to_rfc3339(window.since_ms),
        "until": to_rfc3339(window.until_ms),
        "rules": {setting.key: setting.value for setting in outcome.report.rules},
        "unobserved_share": ratio(unobserved_share(outcome.report)),
        "recipients": recipients,
        "unknown_groups": list(outcome.unknown),
    }
