"""Documents in JSON as Slurm's data parsers write them, for commands and for slurmrestd."""
