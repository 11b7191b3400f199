"""The report as text, a section a file."""

from gpu_usage_audit.report.text.render import render_text
from gpu_usage_audit.report.troubles import warnings

__all__ = ["render_text", "warnings"]
