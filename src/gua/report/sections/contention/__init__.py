"""Time in which nobody could get a card while cards were held that did nothing."""
