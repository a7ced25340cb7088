"""What each key and word of the configuration files does here: one table, by which daemons act.

slurmctld, slurmd and slurmdbd use it to name what has no effect and to refuse what would be a
broken promise. docs/reference/compat.md and the manual pages are generated from it.
"""
