"""Every card."""
