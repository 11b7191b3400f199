"""The sections of a report, a folder each: what it asks, what it holds, and how it is drawn."""
