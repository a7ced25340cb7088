"""Advance reservations: what they keep, and what the jobs inside them see."""
