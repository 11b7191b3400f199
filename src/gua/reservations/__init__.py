"""Reservations of this host's cards: ledger, queue, grants, and detection of ended commands."""
