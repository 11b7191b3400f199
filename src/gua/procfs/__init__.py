"""Access to /proc; no other package reads it."""
