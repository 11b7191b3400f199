"""The live view: cards and holders as they are now, as text and JSON."""
