"""Requests that stay open: salloc and srun wait for their job, its steps and its end."""
