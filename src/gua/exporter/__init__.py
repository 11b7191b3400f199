"""The page that Prometheus scrapes: made of each tick once, served by one thread; no scrape asks the driver."""
