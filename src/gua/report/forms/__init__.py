"""Whole reports: text, HTML, JSON, CSV, Markdown, and the warnings that all of them begin with."""
