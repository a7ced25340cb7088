"""pyslurm-ng: a workload manager that Slurm's users and administrators already know.

Kept free of imports: every command pays for this module at each start.
"""

__version__ = "26.11.0-ng0.1"
