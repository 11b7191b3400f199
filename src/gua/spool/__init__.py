"""Durable queue of ticks in SQLite."""
