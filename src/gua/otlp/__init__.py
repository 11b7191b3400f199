"""Ticks as OTLP requests and back, and the ways to an endpoint; the only importer of OpenTelemetry."""
