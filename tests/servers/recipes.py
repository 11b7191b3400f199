"""The statements and cells of docs/bi.md."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from servers.grafana import Query, Seen
from servers.tools import ROOT

PAGE = ROOT / "docs" / "bi.md"
_BLOCKS = re.compile(
    r"^## (?P<section>[^\n]+)$|^(?P<title>[^\n]+):\n\n```sql\n(?P<sql>.*?)^```$"
    r"|^```(?P<kind>python|sh)\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A chart: the section that it stands in, what it shows, and its SQL with Grafana's macros expanded."""

    section: str
    title: str
    sql: str


def recipes(*, days: int = 7) -> list[Recipe]:
    """Return the charts of the page; those of Grafana look at so many days."""
    now = int(time.time())
    seen = Seen(since=now - days * 86_400, until=now)
    found, section = [], ""
    for part in _BLOCKS.finditer(PAGE.read_text("utf-8")):
        section = part["section"] or section
        if part["sql"]:
            sql = seen.expand(Query(name=part["title"], text=part["sql"].strip()))
            found.append(Recipe(section=section, title=part["title"], sql=sql))
    return found


def blocks(kind: str) -> list[str]:
    """Return the page's blocks of ``python`` or ``sh``."""
    return [part["block"] for part in _BLOCKS.finditer(PAGE.read_text("utf-8")) if part["kind"] == kind]
