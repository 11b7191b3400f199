"""Reservations of this host's cards: the truth, the queue, grants, and how the end of a job is noticed."""
