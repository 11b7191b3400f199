"""``gua sql``: a statement of the user's own, on any store."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gua.app import answer_forms, opening
from gua.cli.options import StoreOption, flag
from gua.core.errors import UsageError
from gua.store import asking


def command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One statement; - reads it from standard input.")],
    *,
    as_csv: Annotated[bool, flag("--csv", "GUA_SQL_CSV", "Print CSV with a header row.")] = False,
    as_json: Annotated[bool, flag("--json", "GUA_JSON", 'One JSON object, schema "gua.sql/1".')] = False,
    store: StoreOption = None,
) -> None:
    """Ask a store with SQL. It reads and changes nothing; an answer has 100,000 rows at most.

    The views are in database gua_public: card_hours, usage_hours, costs, current_cards and others. Times are in UTC.
    On an embedded store a statement may use 300 MB and 60 seconds, on a server what the user's profile lets it.

    Example:
        gua sql "SELECT host, card, gpu_hours FROM gua_public.card_hours"
        gua sql "SHOW TABLES FROM gua_public"
        gua sql "DESCRIBE gua_public.usage_hours"
    """
    if as_csv and as_json:
        msg = "--csv and --json are two forms: choose one"
        raise UsageError(msg)
    text = asking.statement(sys.stdin.read() if sql == "-" else sql)
    with opening.open_reader(store) as opened:
        answer = opened.answer(text)
    form = answer_forms.to_csv if as_csv else answer_forms.to_json if as_json else answer_forms.to_text
    sys.stdout.write(form(answer))
