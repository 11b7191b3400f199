"""The report by the rules of gpu-usage-audit 1.8."""
