"""Crontabs: stored, and their jobs submitted again and again."""
