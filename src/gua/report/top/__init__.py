"""The live view: cards and holders as of now, as text and JSON."""
