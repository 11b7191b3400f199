"""Formats of whole reports: text, HTML, JSON, CSV and Markdown, and their common warnings."""
