"""Notices to the holders of idle GPUs: a policy, what is due by it, messages, and a record of what was sent."""
