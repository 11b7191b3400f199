"""What the sections of a report say, one file each: typed, in milliseconds, unknown as ``None``."""
