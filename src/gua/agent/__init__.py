"""The agent: sampling, delivery and landing of ticks."""
