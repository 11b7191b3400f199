"""Why a card was in its state: ticks, the rules line by line, settings."""
