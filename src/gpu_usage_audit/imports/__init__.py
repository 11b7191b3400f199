"""Recorded data to ticks."""
