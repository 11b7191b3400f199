"""The first screen: what the text says unless more is asked for, a file for each of its parts."""
