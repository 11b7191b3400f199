"""The words of canhazgpu, for those who come from it: its tables, its JSON, its history."""
