"""Burst buffers: what a job asks for, and what follows from what the site's functions returned."""
