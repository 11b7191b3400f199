"""Rows of the shipped views to text and JSON."""
