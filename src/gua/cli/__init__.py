"""The command line: one command a file, everything wired in one place."""
