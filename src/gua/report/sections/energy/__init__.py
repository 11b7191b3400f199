"""What energy the cards took."""
