from __future__ import annotations

import re
import runpy
from pathlib import Path

from gua.store import statements, tokens

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_of_views_is_current() -> None:
    render = runpy.run_path(str(DOCS / "generate_views.py"))["render"]
    assert (DOCS / "views.md").read_text() == render(), "run .venv/bin/python docs/generate_views.py"


def test_the_page_has_every_column_of_every_view() -> None:
    page = (DOCS / "views.md").read_text()
    for statement in statements.load(tokens.server_tokens()):
        if (
            statement.creates
            and statement.creates[0] in {"gua", "gua_public"}
            and "CREATE OR REPLACE VIEW" in statement.sql
        ):
            title = ".".join(statement.creates).removeprefix("gua_public.")
            _, _, section = page.partition(f"\n## {title}\n")
            listed = re.findall(r"^\| `(\w+)` \|", section.partition("\n#")[0], re.MULTILINE)
            declared = statement.sql.partition("\n(\n")[2].partition("\n)\n")[0]
            assert listed == re.findall(r"^ {0,4}([a-z]\w*) ", declared, re.MULTILINE), statement.name
