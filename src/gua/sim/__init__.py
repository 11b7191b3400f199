"""Simulated cards, processes and clocks for the demo and the tests."""
