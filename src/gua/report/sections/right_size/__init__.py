"""Right size: which programs would have fitted less memory than the card that they held."""
