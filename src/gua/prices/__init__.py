"""What GPU time costs: read, checked, stored and listed."""
