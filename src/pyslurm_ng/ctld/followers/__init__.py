"""Followers: they look at every event, or at the journal, and keep their own state."""
