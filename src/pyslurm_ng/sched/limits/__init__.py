"""Limits of associations and QOS: what jobs count for, what is used, what has room."""
