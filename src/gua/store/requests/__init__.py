"""Spooled OTLP requests as rows of an embedded store's tables, without the views that take points in."""
