"""Which jobs have to make room for others, and how."""
