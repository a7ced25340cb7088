"""A whole cluster on this host with one command: `pyslurm-ng up`, `status`, `down`."""
