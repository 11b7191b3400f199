"""gpu-usage-audit: where a lab's GPU hours go."""
