"""The report as text, a section a file."""

from gua.report.text.render import render_text
from gua.report.troubles import warnings

__all__ = ["render_text", "warnings"]
