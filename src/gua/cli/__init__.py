"""The command line: one module per command, dependencies wired in one place."""
