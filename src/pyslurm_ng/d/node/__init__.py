"""This node: its configuration and hardware, its users, and what all parts of slurmd share."""
