"""slurmctld: the controller."""
