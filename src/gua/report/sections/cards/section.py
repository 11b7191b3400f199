"""Every card with its split."""

from __future__ import annotations

from gua.report.kit.fields import to_json
from gua.report.model import Card, Report
from gua.report.section import Section, csv_of
from gua.report.sections.cards import html, text

CARDS = Section(
    name="cards",
    title="Per card",
    model=Report,
    text=text.cards,
    drawn=text.drawn,
    html=html.cards,
    json=lambda report: to_json(report.cards),
    csv=csv_of(Card, lambda report: report.cards),
    is_default=True,
    part_of="groups",
)
