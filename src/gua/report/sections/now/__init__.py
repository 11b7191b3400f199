"""What to do now: who is idle on which card, and which cards are free."""
