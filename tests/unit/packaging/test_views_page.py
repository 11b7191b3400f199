from __future__ import annotations

import re
import runpy
from pathlib import Path

from gua.store import statements

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_of_views_is_current() -> None:
    render = runpy.run_path(str(DOCS / "generate_views.py"))["render"]
    assert (DOCS / "views.md").read_text() == render(), "run .venv/bin/python docs/generate_views.py"


def test_the_page_has_every_column_of_every_view() -> None:
    for statement in statements.load(statements.server_tokens()):
        name = ".".join(statement.creates or ())
        if re.match(r"gua(_public)?\.", name) and statement.kind == "view" and statement.columns:
            is_of_cards = "gua_public" in name and not name.endswith((".hosts", ".notices"))
            common = _columns("Columns of the card") if is_of_cards else []
            declared = statement.sql.partition("\n(\n")[2].partition("\n)\n")[0]
            listed = common + _columns(name.removeprefix("gua_public."))
            assert listed == re.findall(r"^ {0,4}([a-z]\w*) ", declared, re.MULTILINE), statement.name


def test_the_page_names_every_table_and_view() -> None:
    page = (DOCS / "views.md").read_text()
    for statement in statements.load(statements.server_tokens()):
        name = ".".join(statement.creates or ())
        if name.startswith("gua.") and statement.kind in {"table", "view"}:
            assert f"\n## {name}\n" in page or f"\n| `{name}` |" in page, statement.name


def _columns(title: str) -> list[str]:
    _, _, section = (DOCS / "views.md").read_text().partition(f"\n## {title}\n")
    return re.findall(r"^\| `(\w+)` \|", section.partition("\n#")[0], re.MULTILINE)
