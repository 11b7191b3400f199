"""``gua status`` as text: one agent, or every host of a store."""
