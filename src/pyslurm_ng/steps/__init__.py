"""Steps of jobs: the rules that slurmctld and step managers share. Pure."""
