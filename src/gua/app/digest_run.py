"""A run of ``gua digest``: who gets which digest by a policy, each sent once for a window."""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from gua.app import sending
from gua.app.digest import By, Digest, Digester, message_of, message_of_several, named
from gua.app.opening import counting
from gua.app.sending import DUE, MOST_DETAIL, UNREACHABLE, ChannelOutcome, Stores, Versions, now_ms, worst
from gua.core.moments import local_day, to_rfc3339
from gua.core.plaintext import few, safe
from gua.notices import channels, record
from gua.notices.addresses import AddressBook, NotApplicableError
from gua.notices.channels import Channel, SendResult
from gua.notices.held import SUCCESSES, NoticeResult
from gua.notices.matching import Facts
from gua.notices.messages import MOST_ROWS, Message
from gua.notices.policy import Digests, Policy, Team
from gua.report.collect import collect
from gua.report.kit.words import NOT_KNOWN
from gua.report.model import Report, Window
from gua.report.states import MS_PER_HOUR
from gua.report.window import ReportRequest

ADMINS: Final = "admins"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipient:
    """Who gets a digest: ``kind`` and name, by channels. Without ``message`` none is sent; ``left_out`` says why."""

    kind: str
    digest: Digest
    message: Message | None = None
    to: tuple[str, ...] = field(default=(), repr=False)
    left_out: str = ""


@dataclass(kw_only=True, slots=True)
class Delivery:
    """A digest by one channel, and its outcome; ``channel`` only where it is due. ``key`` names recipient and days."""

    recipient: Recipient
    key: str
    outcome: ChannelOutcome
    channel: Channel | None = None
    message: str = field(default_factory=partial(secrets.token_hex, 8))

    def end(self, result: str, detail: str = "") -> None:
        """Set the outcome."""
        self.outcome = ChannelOutcome(channel=self.outcome.channel, result=result, detail=safe(detail, MOST_DETAIL))


@dataclass(frozen=True, kw_only=True, slots=True)
class DigestOutcome:
    """The recipients of a run and their channels, and owners whose groups, and so whose teams, are unknown."""

    report: Report
    recipients: tuple[Recipient, ...]
    deliveries: tuple[Delivery, ...]
    unknown: tuple[str, ...]

    def channels(self, recipient: Recipient) -> list[ChannelOutcome]:
        """Return the outcomes of a recipient's channels."""
        return [each.outcome for each in self.deliveries if each.recipient is recipient]

    @property
    def has_failed(self) -> bool:
        """Return whether a channel failed, could not be reached, or it is unknown whether it sent."""
        return worst(each.outcome for each in self.deliveries) not in {None, DUE, *SUCCESSES}


@dataclass(frozen=True, kw_only=True)
class DigestRun:
    """A run by the ``digests`` of a policy, for the window of ``request``."""

    policy: Policy
    digests: Digests
    stores: Stores
    request: ReportRequest
    by: By
    to_admins: bool
    book: AddressBook
    facts: Facts
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def run(self, *, dry_run: bool) -> DigestOutcome:
        """Send to each once for the window's UTC days, again if refused; return the results, or, dry, what is due."""
        unknown: list[str] = []
        with self.stores() as store:
            report = collect(store, self.request, count=counting(store))
        recipients = tuple(self._recipients(report, unknown))
        with sending.giving_back(self.stores) as lease:
            with self.stores() as store:
                if not dry_run:
                    lease.take(store)
                before, newest_ms = record.digests_before(store)
            deliveries = tuple(self._deliveries(recipients, before, report.window))
            if not dry_run:
                self._send(deliveries, report.window, lease, Versions(newest_ms))
        return DigestOutcome(report=report, recipients=recipients, deliveries=deliveries, unknown=tuple(unknown))

    def _recipients(self, report: Report, unknown: list[str]) -> Iterator[Recipient]:
        """Yield the owners, namespaces or teams, and the admins last; append owners of unknown groups."""
        digester = Digester(report, self.by)
        every = [digester.digest(name, [name]) for name in digester.names()]
        contact = f" Questions, or no more digests: {self.policy.contact}." if self.policy.contact else ""
        last = (f"Sent by {safe(self.policy.sender, 80)}.{contact}",)
        for team in self.digests.teams if self.by is By.TEAM else ():
            each = [one for one in every if one.name is not None and self._is_in(team, one.name, unknown)]
            digest = digester.digest(team.name, [one.name for one in each], is_team=True)
            message = partial(message_of_several, digest, f"GPUs of team {named(team.name)}", report, last, each=each)
            yield self._recipient(digest, team.to, message)
        for one in every if self.by is not By.TEAM else ():
            whose = "Your GPUs" if self.by is By.OWNER else f"GPUs of namespace {named(one.name)}"
            yield self._recipient(one, self.digests.to, partial(message_of, one, whose, report, last))
        if self.to_admins:
            more = [f"{NOT_KNOWN}: without a known owner, so nobody got it."] if None in digester.names() else []
            more += [f"In no team by group, as their groups are unknown here: {few(unknown)}."] if unknown else []
            digest = digester.digest(None, digester.names(), is_team=True)
            whose = f"GPUs of all {'namespaces' if self.by is By.NAMESPACE else 'owners'}"
            listed = message_of_several(digest, whose, report, (*more, *last), each=every, most=MOST_ROWS)
            yield Recipient(kind=ADMINS, digest=digest, message=listed, to=self.digests.admins)

    def _recipient(self, digest: Digest, to: tuple[str, ...], message: Callable[[], Message]) -> Recipient:
        """Return a recipient, with its message if it gets one."""
        opt_out = () if self.by is By.TEAM else self.digests.opt_out
        least = self.digests.least_gpu_hours
        reasons = {
            "the owner is unknown": digest.name is None,
            "opted out": any(fnmatchcase(digest.name or "", pattern) for pattern in opt_out),
            f"less than {least:g} GPU-hours": digest.gpu_ms() < least * MS_PER_HOUR,
            "no GPU-hours": not digest.gpu_ms(),
            "no channel": not to,
        }
        left_out = next((reason for reason, is_so in reasons.items() if is_so), "")
        if left_out:
            return Recipient(kind=self.by, digest=digest, left_out=left_out)
        return Recipient(kind=self.by, digest=digest, message=message(), to=to)

    def _is_in(self, team: Team, owner: str, unknown: list[str]) -> bool:
        if any(fnmatchcase(owner, pattern) for pattern in team.owners):
            return True
        groups = self.facts.groups(owner) if team.groups else frozenset()
        if groups is None and named(owner) not in unknown:
            unknown.append(named(owner))
        return any(fnmatchcase(group, pattern) for group in groups or () for pattern in team.groups)

    def _deliveries(
        self, recipients: Sequence[Recipient], before: Mapping[tuple[str, int], str], window: Window
    ) -> Iterator[Delivery]:
        days = "/".join(str(local_day(unix_ms, UTC)) for unix_ms in (window.since_ms, window.until_ms))
        for recipient in recipients:
            name = recipient.digest.name
            key = f"{recipient.kind} {name or ''} {days}"
            for number, template in enumerate(recipient.to, 1):
                shown = record.channel_name(number, channels.shown(template))
                due = Delivery(recipient=recipient, key=key, outcome=ChannelOutcome(channel=shown, result=DUE))
                if before.get((key, number), NoticeResult.FAILED) != NoticeResult.FAILED:
                    due.end(before[key, number], "by an earlier run, not sent again")
                else:
                    try:
                        address = self.book(name) if "{address}" in template else None
                        due.channel = channels.fill(template, {"owner": name, "address": address})
                    except NotApplicableError as error:
                        due.end(NoticeResult.FAILED, str(error))
                yield due

    def _send(self, deliveries: Sequence[Delivery], window: Window, lease: record.Lease, versions: Versions) -> None:
        """Send what is due and can be reached, and set the outcomes."""
        sent_ms = now_ms()
        reached: dict[tuple[str, int], str] = {}
        ready = []
        for each in deliveries:
            if each.channel is None:
                continue
            if reason := channels.reachable(each.channel, environ=self.environ, checked=reached):
                each.end(UNREACHABLE, reason)
            else:
                ready.append(each)

        def rows(each: Delivery, result: SendResult, written_ms: int) -> list[dict[str, object]]:
            row = {"kind": record.DIGEST, "holder": each.key, "rule": record.DIGEST, "step": 1, "reminder": 1}
            row |= {"channel": each.outcome.channel, "owner": each.recipient.digest.name, "message": each.message}
            row |= {"result": result.result, "detail": safe(result.detail, MOST_DETAIL)}
            moments = {"since": window.since_ms, "sent": sent_ms, "written": written_ms}
            return [row | {name: to_rfc3339(unix_ms) for name, unix_ms in moments.items()}]

        results = sending.send_all(
            ready, lease, stores=self.stores, send=self._sent, rows=rows, written_ms=versions.next_ms
        )
        for each, result in zip(ready, results, strict=True):
            each.end(result.result, result.detail)

    def _sent(self, each: Delivery) -> SendResult:
        if each.channel is None or each.recipient.message is None:
            return SendResult(result=NoticeResult.FAILED)
        result = channels.send(each.channel, each.recipient.message, environ=self.environ)
        return replace(result, result=NoticeResult.STARTED) if result.may_have_arrived else result
