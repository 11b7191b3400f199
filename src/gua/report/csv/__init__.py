"""The report as CSV."""
