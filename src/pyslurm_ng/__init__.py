"""pyslurm-ng: a workload manager that Slurm's users and administrators already know.

Kept free of imports: every command pays for this module at each start.
"""

__version__ = "26.11.0-ng0.1"
# What -V prints: clients take each part of it for a number, as in a release of Slurm.
SLURM_VERSION = __version__.partition("-")[0]
