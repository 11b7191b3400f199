"""Output compatible with canhazgpu: its tables, its JSON and its usage history."""
