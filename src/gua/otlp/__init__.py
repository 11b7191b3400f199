"""Ticks as OTLP requests and back; the only importer of opentelemetry."""
