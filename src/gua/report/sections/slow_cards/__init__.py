"""Slow cards: clocks that were held down, and errors."""
