"""The page that Prometheus scrapes: rendered once a tick, served from memory; no scrape asks the driver."""
