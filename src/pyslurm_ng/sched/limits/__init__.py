"""Limits of associations and QOS: what jobs count for, what is used, how much room is left."""
