"""The verbs of scontrol."""
