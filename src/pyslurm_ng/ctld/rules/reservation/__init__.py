"""Advance reservations: made, changed, begun, ended, and what they get."""
