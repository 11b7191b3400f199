"""The report as JSON."""
