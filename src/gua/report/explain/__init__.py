"""Explanation of a card's state at a time: the ticks, the rules line by line, the settings."""
