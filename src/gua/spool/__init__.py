"""The durable queue of ticks, on SQLite."""
