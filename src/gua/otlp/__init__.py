"""OTLP encoding, decoding and export of ticks. Only this package imports OpenTelemetry."""
