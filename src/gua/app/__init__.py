"""Composition of commands and the agent: each opens its parts in order and releases them in order."""
