"""slurmstepd: the template of supervisors, and the supervisor of a step on one node."""
