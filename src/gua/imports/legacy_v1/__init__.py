"""Import of histories of gpu-usage-audit 1.0 to 1.8."""
