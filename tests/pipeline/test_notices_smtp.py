"""Notices by mail, sent by apprise to a real SMTP server on loopback, which also fails in each way."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fakes.idle_notice import SETTING, hostile, idle, notice
from gua.notices.addresses import NotApplicableError, template_addresses
from gua.notices.channels import Channel, SendResult, fill, parts, reachable, send
from gua.notices.held import NoticeResult
from gua.notices.messages import Message, notice_message, summary_message
from servers.process import free_ports
from servers.smtp import Mailbox, endless_server, mail_server, silent_server

MESSAGE = notice_message(notice(), SETTING)
SENT = SendResult(result=NoticeResult.SENT)


def mail_to(port: int, address: str = "alice@example.org", more: str = "") -> Channel:
    return Channel(url=f"mailto://127.0.0.1:{port}?from=gua@example.org&to={address}{more}")


def part(mail: EmailMessage, kind: str) -> str:
    """Return the content of the mail's part of a type."""
    (found,) = [each for each in mail.walk() if each.get_content_type() == kind]
    return str(found.get_content()).replace("\r\n", "\n")


def test_a_mail_has_the_subject_the_html_and_its_text() -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        assert send(mail_to(port), MESSAGE) == SENT
    ((recipients, mail),) = mailbox.mails
    assert recipients == ["alice@example.org"]
    assert (mail["Subject"], mail["From"], mail["To"]) == (MESSAGE.subject, "gua@example.org", "alice@example.org")
    assert part(mail, "text/html").strip() == (MESSAGE.html or "").strip()
    assert "on node1: kill 4711" in part(mail, "text/plain")
    assert "<" not in part(mail, "text/plain")


def test_a_mail_may_be_plain_text() -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        assert send(mail_to(port, more="&format=text"), MESSAGE) == SENT
    ((_, mail),) = mailbox.mails
    assert mail.get_content_type() == "text/plain"
    assert part(mail, "text/plain").strip() == MESSAGE.text.strip()


def test_hostile_names_add_no_header_recipient_or_element() -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        for message in (notice_message(hostile(), SETTING), summary_message([hostile()], SETTING)):
            assert send(mail_to(port), message) == SENT
        tame = send(mail_to(port), MESSAGE)
        assert tame == SENT
    headers = {name.lower() for name in mailbox.mails[-1][1].keys()}  # noqa: SIM118 - a mail is no dict
    for recipients, mail in mailbox.mails:
        assert recipients == ["alice@example.org"]
        assert {name.lower() for name in mail.keys()} == headers  # noqa: SIM118 - see above
        found: set[str] = set()
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, _, found=found: found.add(tag)  # type: ignore[method-assign, misc]
        parser.feed(part(mail, "text/html"))
        assert found <= {"p", "b", "table", "tr", "th", "td"}
        assert "\x1b" not in part(mail, "text/plain")


@pytest.mark.parametrize(
    "owner", ["a&to=root", "a,root", "a\r\nBcc: root@example.org", "a root", "o'brien", "a%2Croot"]
)
def test_a_hostile_owner_gets_and_causes_no_mail(owner: str) -> None:
    template = "mailto://127.0.0.1:25?from=gua@example.org&to={owner}@example.org"
    with pytest.raises(NotApplicableError, match="cannot be an address"):
        fill(template, parts(notice(idle(owner=owner)), None))
    with pytest.raises(NotApplicableError, match="cannot be an address"):
        template_addresses("{owner}@example.org")(owner)


def test_one_refused_address_of_ten_stops_no_other() -> None:
    mailbox = Mailbox(refused=frozenset({"user4@example.org"}))
    with mail_server(mailbox) as port:
        results = [send(mail_to(port, f"user{number}@example.org"), MESSAGE) for number in range(10)]
    assert mailbox.recipients() == [f"user{number}@example.org" for number in range(10) if number != 4]
    assert [each.result for each in results].count(NoticeResult.SENT) == 9
    assert results[4].result is NoticeResult.FAILED
    assert "550" in results[4].detail
    assert "no such user here" in results[4].detail
    assert "user4" not in results[4].detail


def test_one_refused_address_in_one_channel_is_a_failure_and_the_others_get_it() -> None:
    mailbox = Mailbox(refused=frozenset({"user1@example.org"}))
    with mail_server(mailbox) as port:
        failed = send(mail_to(port, "user0@example.org,user1@example.org,user2@example.org"), MESSAGE)
    assert mailbox.recipients() == ["user0@example.org", "user2@example.org"]
    assert failed.result is NoticeResult.FAILED


def test_a_server_that_is_down_is_not_reachable_and_a_failure() -> None:
    channel = mail_to(free_ports(1)[0])
    assert "Connection refused" in (reachable(channel) or "")
    failed = send(channel, MESSAGE)
    assert failed.result is NoticeResult.FAILED
    assert "Connection refused" in failed.detail


def test_a_silent_server_and_an_endless_one_are_given_up() -> None:
    gone = SendResult(result=NoticeResult.FAILED, detail="no answer within 0.3 s", may_have_arrived=True)
    with silent_server() as port:
        assert send(mail_to(port), MESSAGE, seconds=0.3) == gone
    with endless_server() as port:  # each line comes in time: only the limit of the whole ends it
        assert send(mail_to(port, more="&cto=0.2"), MESSAGE, seconds=0.3) == gone


def test_a_server_that_is_slow_is_waited_for_by_its_own_limit() -> None:
    with silent_server() as port:
        failed = send(mail_to(port, more="&cto=0.2"), MESSAGE)
    assert failed.result is NoticeResult.FAILED
    assert "timed out" in failed.detail


def test_a_connection_that_is_dropped_after_data_is_a_failure() -> None:
    """Whether it was delivered is unknown; it is not sent again by itself."""
    mailbox = Mailbox(drops_after_data=True)
    with mail_server(mailbox) as port:
        failed = send(mail_to(port), MESSAGE)
    assert len(mailbox.mails) == 1
    assert failed.result is NoticeResult.FAILED
    assert "Connection unexpectedly closed" in failed.detail


def test_a_login_is_made_with_a_secret_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("p%40ss%2Fw%25rd\n")
    secret.chmod(0o600)
    mailbox = Mailbox()
    with mail_server(mailbox, login=("gua", "p@ss/w%rd")) as port:
        url = "mailto://gua:{}@127.0.0.1:{}?from=gua@example.org&to=alice@example.org"
        assert send(Channel(url=url.format(f"${{file:{secret}}}", port)), MESSAGE) == SENT
        wrong = send(Channel(url=url.format("wr0ngpassword", port)), MESSAGE)
        without = send(mail_to(port), MESSAGE)
    assert mailbox.recipients() == ["alice@example.org"]
    assert wrong.result is without.result is NoticeResult.FAILED
    assert "535" in wrong.detail
    assert "530" in without.detail
    assert "wr0ngpassword" not in repr(wrong)


def test_mails_of_several_threads_arrive_once_and_leave_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/before")
    mailbox = Mailbox()
    with mail_server(mailbox) as port, ThreadPoolExecutor(4) as pool:
        channels = [mail_to(port, f"user{number}@example.org") for number in range(20)]
        # These need authorities, and fail here, as the server has no TLS.
        encrypted = [Channel(url=each.url.replace("mailto", "mailtos")) for each in channels[:4]]
        results = list(pool.map(lambda channel: send(channel, MESSAGE).result, channels + encrypted))
    assert results == [NoticeResult.SENT] * 20 + [NoticeResult.FAILED] * 4
    assert sorted(mailbox.recipients()) == sorted(f"user{number}@example.org" for number in range(20))
    assert os.environ["SSL_CERT_FILE"] == "/before"


def test_an_address_that_apprise_does_not_take_is_reported() -> None:
    mailbox = Mailbox()
    with mail_server(mailbox) as port:
        failed = send(mail_to(port, "root"), Message(subject="x", text="y"))
    assert failed == SendResult(result=NoticeResult.FAILED, detail="There are no Email recipients to notify")
    assert mailbox.mails == []
