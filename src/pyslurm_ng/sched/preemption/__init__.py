"""Who has to make room for whom, and how."""
