"""Each card over time, and who was on it."""
