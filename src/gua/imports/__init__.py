"""Conversion of recorded data to ticks."""
