"""To whom cards were promised, and what became of the promise."""
