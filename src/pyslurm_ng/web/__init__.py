"""slurmrestd: the REST interface, a process of its own that asks the daemons as any client does."""
