"""Import of the samples that GPU exporters left in a Prometheus: exporters, HTTP API, cards, ticks."""
