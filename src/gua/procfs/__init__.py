"""The only reader of /proc."""
