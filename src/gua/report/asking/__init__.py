"""Asks the views: from what a user wants to the rows and from the rows to the report."""
