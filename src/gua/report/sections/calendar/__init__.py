"""Hours of the day, of the week, days, and the window before."""
