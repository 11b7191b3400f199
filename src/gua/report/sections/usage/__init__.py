"""Who used cards."""
