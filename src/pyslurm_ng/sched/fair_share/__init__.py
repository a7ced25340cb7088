"""How much of a cluster associations are due, and what that makes of their priority."""
