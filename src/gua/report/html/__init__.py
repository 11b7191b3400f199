"""The report as one web page that needs nothing else: no script, no request, every name escaped."""

from gua.report.html.file import write_html
from gua.report.html.page import render_html

__all__ = ["render_html", "write_html"]
