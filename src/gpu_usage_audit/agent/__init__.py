"""Sampling, sending and landing."""
