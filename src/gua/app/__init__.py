"""Puts things together: what a command or the agent needs, opened in order and released in order."""
