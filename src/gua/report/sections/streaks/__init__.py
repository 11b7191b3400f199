"""Idle streaks of processes, and what a rule that reclaims cards would give back."""
