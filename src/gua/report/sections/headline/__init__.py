"""Where the GPU-hours went, and what idle capacity they were."""
