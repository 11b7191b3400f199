"""Prometheus endpoint of the agent: pages are rendered once per tick and served from memory; no scrape calls NVML."""
