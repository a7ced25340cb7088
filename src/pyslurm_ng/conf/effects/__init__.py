"""What each key and word of the configuration files does here: one table, by which daemons act.

From it slurmctld, slurmd and slurmdbd name what has no effect and refuse what would be a broken
promise, and from it docs/reference/compat.md and the manual pages are written.
"""
