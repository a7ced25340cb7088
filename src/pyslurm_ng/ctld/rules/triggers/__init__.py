"""Triggers of strigger: set, cleared, pulled by what happens, fired."""
